import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/connections/target.ts'
import { migrate } from '../../src/mysql/startup/migrate.ts'
import { freshDatabase, query } from '../support/database.ts'
import { openTestNth } from '../support/nth.ts'
import { dataDirectory } from '../support/nthProcess.ts'
import { privateServer } from '../support/privateServer.ts'
import { startProxy } from '../support/proxy.ts'
import { collectStatements } from '../support/statements.ts'
import { openSwitchboard } from '../support/switchboard.ts'

const key = (name: string) => ({ namespace: 'n', name })
const group = (name: string) => ({ namespace: 'n', sequence: 's', group: name })

/** A server of its own, with the tables. */
async function server(): Promise<Target> {
  const { target } = await privateServer(await dataDirectory())
  await migrate(target)
  return target
}

/** What a server that lost everything does next for others: it gives the lost ids again. */
async function useOnOther(target: Target): Promise<void> {
  const { counters, sequences } = openTestNth(target)
  await counters.incrementBy(key('b'), 100)
  for (let number = 1; number <= 3; number++) await sequences.next(group('B'), 1)
}

/** An Nth whose counter and group another server lacks, which has given their ids to others. */
async function aheadOfReplica() {
  const [primary, replica] = [await server(), await server()]
  const { target, switchTo } = await openSwitchboard(primary)
  const nth = openTestNth(target, { acceptsLostCommits: true })
  await nth.counters.incrementBy(key('a'), 1)
  await nth.sequences.next(group('A'), 1)
  await useOnOther(replica)
  return { nth, replica, switchTo }
}

async function expectOwnNumbers(target: Target, { counters, sequences }: ReturnType<typeof openTestNth>) {
  expect((await counters.incrementBy(key('a'), 1)).value).toBe(1)
  expect((await sequences.next(group('A'), 1)).issued.value).toBe(1)
  expect((await counters.read(key('b'))).value).toBe(100)
  const other = openTestNth(target)
  expect((await other.counters.incrementBy(key('b'), 1)).value).toBe(101)
  expect((await other.sequences.next(group('B'), 1)).issued.value).toBe(4)
  expect((await other.counters.incrementBy(key('a'), 1)).value).toBe(2)
}

it('counts in rows of their own after a failover to a server that gave the lost ids to others', async () => {
  const { nth, replica, switchTo } = await aheadOfReplica()
  switchTo(replica)
  await expectOwnNumbers(replica, nth)
  expect(nth.faults.map(String)).toContainEqual(expect.stringContaining('another database server'))
})

it('leaves the old server with its readers, too, once a writer has reached another', async () => {
  const { nth, replica, switchTo } = await aheadOfReplica()
  switchTo(replica, 'writers')
  await expectOwnNumbers(replica, nth)
})

it('counts in rows of their own after a restore that lost them, on a connection that goes on', async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target, { acceptsLostCommits: true })
  await nth.counters.incrementBy(key('a'), 1)
  await nth.sequences.next(group('A'), 1)
  const tables = [
    'fence',
    'counter',
    'counter_value',
    'counter_history',
    'sequence',
    'sequence_group',
    'sequence_value',
    'namespace',
  ]
  await query(target, ...tables.map((table) => `truncate ${table}`))
  await useOnOther(target)
  await expectOwnNumbers(target, nth)
  expect(nth.faults.map(String)).toContainEqual(expect.stringContaining('lacks changes'))
})

it('writes to no row that has the id of a lost one, even where nothing tells of the loss', async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target)
  await nth.counters.incrementBy(key('a'), 1)
  await nth.sequences.next(group('A'), 1)
  const tables = ['counter', 'counter_value', 'sequence', 'sequence_group', 'sequence_value', 'namespace']
  await query(target, ...tables.map((table) => `truncate ${table}`))
  await useOnOther(target)
  await expectOwnNumbers(target, nth)
})

it('says of a change that was being committed at a failover that its outcome is unknown, and sends it no more', async () => {
  const [primary, replica] = [await server(), await server()]
  let isCommitting = false
  const proxy = await startProxy(primary, (statement) => {
    if (!isCommitting || !/commit$/.test(statement)) return 'passes'
    switchTo(replica)
    return 'is cut off'
  })
  const { target, switchTo } = await openSwitchboard(proxy)
  const { counters } = openTestNth(target)
  await counters.incrementBy(key('a'), 1)
  // The replica has everything up to then.
  for (const table of ['namespace', 'counter', 'counter_value', 'fence']) await copy(table, primary, replica)
  isCommitting = true
  await expect(counters.incrementBy(key('a'), 10)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  expect((await counters.incrementBy(key('a'), 100)).value).toBe(101)
})

async function copy(table: string, from: Target, to: Target): Promise<void> {
  for (const row of await query(from, `select * from ${table}`)) {
    const columns = Object.keys(row)
    const values = Object.values(row).map((value) => {
      if (Buffer.isBuffer(value)) return `x'${value.toString('hex')}'`
      if (value instanceof Date) return `'${value.toISOString().slice(0, 23).replace('T', ' ')}'`
      return value === null ? 'null' : String(value)
    })
    await query(to, `insert into ${table} (${columns.join(', ')}) values (${values.join(', ')})`)
  }
}

it('reads its rows again when the server was restarted, and goes on where it was', async () => {
  const directory = await dataDirectory()
  const first = await privateServer(directory)
  await migrate(first.target)
  const nth = openTestNth(first.target)
  await nth.counters.incrementBy(key('a'), 1)
  // Two starts within seconds can't be told apart.
  const uptime = async () => (await query(first.target, "show global status like 'Uptime'"))[0]?.Value
  await expect.poll(async () => Number(await uptime())).toBeGreaterThan(3)
  await first.close()
  await privateServer(directory)
  const statements = collectStatements()
  expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(2)
  expect(statements).toContainEqual(expect.stringMatching(/select n.name as namespace, c.name, c.id/))
  expect(nth.faults).toEqual([])
})
