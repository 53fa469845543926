// @module-tag slow
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openSwitchboard } from '../support/database/switchboard.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory, spawnNth, startNth } from '../support/server/nthProcess.ts'
import { workersOf } from '../support/server/processes.ts'
import { runCommand } from '../support/server/transfer.ts'

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
  const nth = openTestNth(target, { worksDespiteLoss: true })
  await nth.counters.incrementBy(key('a'), 1)
  await nth.sequences.next(group('A'), 1)
  await useOnOther(replica)
  return { nth, replica, switchTo }
}

async function expectOwnNumbers(target: Target, { counters, sequences }: ReturnType<typeof openTestNth>) {
  // In two round trips: it is lost on the old connection before it can be committed, so its outcome is known.
  expect((await counters.incrementBy(key('a'), 1, { withRevision: true })).value).toBe(1)
  expect((await sequences.next(group('A'), 1)).issued.value).toBe(1)
  expect((await counters.read(key('b'))).value).toBe(100)
  const other = openTestNth(target, { worksDespiteLoss: true })
  expect((await other.counters.incrementBy(key('b'), 1)).value).toBe(101)
  expect((await other.sequences.next(group('B'), 1)).issued.value).toBe(4)
  expect((await other.counters.incrementBy(key('a'), 1)).value).toBe(2)
}

it('failover: counts in rows of their own after a failover to a server that gave the lost ids to others', {
  tags: 'quick',
}, async () => {
  const { nth, replica, switchTo } = await aheadOfReplica()
  switchTo(replica)
  await expectOwnNumbers(replica, nth)
  expect(nth.faults.map(String)).toContainEqual(expect.stringContaining('another database server'))
})

it('failover: leaves the old server with its readers, too, once a writer has reached another one', async () => {
  const { nth, replica, switchTo } = await aheadOfReplica()
  switchTo(replica, 'writers')
  await expectOwnNumbers(replica, nth)
})

it('failover: counts in rows of their own after a restore that lost them, on a connection that goes on', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target, { worksDespiteLoss: true })
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

it('failover: writes to no row that has the id of a lost one, even where nothing reports the loss', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target)
  await nth.counters.incrementBy(key('a'), 1)
  await nth.sequences.next(group('A'), 1)
  const tables = ['counter', 'counter_value', 'sequence', 'sequence_group', 'sequence_value', 'namespace']
  await query(target, ...tables.map((table) => `truncate ${table}`))
  await useOnOther(target)
  await expectOwnNumbers(target, nth)
})

it('failover: says of a change that was being committed at a failover that its outcome is unknown, and sends it no more', {
  tags: 'quick',
}, async () => {
  const [primary, replica] = [await server(), await server()]
  let isCommitting = false
  const proxy = await startProxy(primary, (statement) => {
    if (!isCommitting || !/commit$|^update fence straight_join/.test(statement)) return 'passes'
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

it('failover: reads its rows again when the server was restarted, and goes on where it was', async () => {
  const directory = await dataDirectory()
  const first = await privateServer(directory)
  await migrate(first.target)
  const nth = openTestNth(first.target)
  await nth.counters.incrementBy(key('a'), 1)
  // Two starts within seconds can't be distinguished.
  const uptime = async () => (await query(first.target, "show global status like 'Uptime'"))[0]?.Value
  await expect.poll(async () => Number(await uptime())).toBeGreaterThan(3)
  await first.close()
  await privateServer(directory)
  const statements = collectStatements()
  expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(2)
  expect(statements).toContainEqual(expect.stringMatching(/select n.name as namespace, c.name, c.id/))
  expect(nth.faults).toEqual([])
})

/** What a database does that goes back by two transactions of each writer. */
const GO_BACK = ['update fence set seq = seq - 2', 'update counter_value set value = 1']

it('failover: stops all processes once one of them notices that commits were lost, until that is accepted', async () => {
  const target = await freshDatabase()
  const [noticing, other, accepting] = [
    openTestNth(target, { timeoutMs: 1000 }),
    openTestNth(target, { timeoutMs: 1000 }),
    openTestNth(target, { worksDespiteLoss: true }),
  ]
  for (let value = 1; value <= 3; value++) await noticing.counters.incrementBy(key('a'), 1)
  await query(target, ...GO_BACK)
  await expect(noticing.counters.incrementBy(key('a'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  // It has committed nothing itself: only this check can report the loss.
  const obstacle = () =>
    other.checkDatabase().then(
      () => undefined,
      ({ message }) => message,
    )
  await expect
    .poll(obstacle)
    .toBe(
      'Database unavailable: lost commits. The database lacks changes that it had committed: it has 1 of the 3 transactions that a writer had committed.',
    )
  await expect(other.counters.incrementBy(key('a'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await expect(other.counters.read(key('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(other.faults.map(String)).toEqual([expect.stringContaining('Another process noticed this')])
  expect((await accepting.counters.incrementBy(key('a'), 1)).value).toBe(2)

  // A mark that is gone is not accepted: somebody may be restoring the database.
  const [mark] = await query(target, 'select id, what from lost_commits')
  await query(target, 'rename table lost_commits to lost_commits_away')
  const looks = collectStatements('lost_commits')
  await expect.poll(() => looks.length).toBeGreaterThan(5)
  expect(await obstacle()).toBeDefined()
  await query(target, 'rename table lost_commits_away to lost_commits')

  await query(target, `update lost_commits set accepted_at = utc_timestamp(3) where id = ${mark?.id}`)
  await expect.poll(obstacle).toBeUndefined()
  expect((await other.counters.incrementBy(key('a'), 1)).value).toBe(3)
  await expect.poll(() => noticing.checkDatabase().catch(() => 'stopped')).toEqual({ isBusy: false })
  expect((await noticing.counters.incrementBy(key('a'), 1)).value).toBe(4)
})

it('failover: notes a loss as soon as the database can be written', async () => {
  const database = await freshDatabase()
  let isRefusing = true
  const target = await startProxy(database, (statement) =>
    isRefusing && statement.includes('insert ignore into lost_commits') ? { errno: 1290 } : 'passes',
  )
  const noticing = openTestNth(target, { timeoutMs: 1000 })
  for (let value = 1; value <= 3; value++) await noticing.counters.incrementBy(key('a'), 1)
  const statements = collectStatements('into lost_commits')
  await query(database, ...GO_BACK)
  await expect(noticing.counters.incrementBy(key('a'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await expect.poll(() => statements.length).toBeGreaterThan(1)
  isRefusing = false
  await expect.poll(() => query(database, 'select 1 from lost_commits')).toHaveLength(1)
  expect(await noticing.checkDatabase().catch(() => 'stopped')).toBe('stopped')
})

it('failover: refuses to start on a database that lost commits, and says how that is accepted', async () => {
  const target = await freshDatabase()
  // An hour: no call waits for it.
  const environment = { DATABASE_URL: urlOf(target), NTH_WRITE_TIMEOUT_MS: '3600000' }
  const running = await startNth(environment)
  const increment = 'mutation { increment(name: "a") { value } }'
  for (let value = 1; value <= 3; value++) await running.ask(increment)
  await query(target, ...GO_BACK)
  const two = 'mutation { one: increment(name: "a") { value } two: increment(name: "a") { value } }'
  const { errors } = await running.send(two)
  expect(errors?.map(({ extensions }) => extensions?.code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE'])
  await expect.poll(() => query(target, 'select 1 from lost_commits')).toHaveLength(1)

  const refused = spawnNth(environment)
  expect(await refused.exited).toBe(1)
  expect(refused.errors()).toContain('it has 1 of the 3 transactions that a writer had committed')
  expect(refused.errors()).toContain('nth check --accept-lost-commits')
  const check = await runCommand(target, ['check'])
  expect(check.code).toBe(1)
  expect(check.output).toMatch(
    /error +lost commits +the database lacks changes .* nth check --accept-lost-commits/,
  )
  // A variable of earlier versions.
  const accepting = spawnNth({ ...environment, NTH_ACCEPT_LOST_COMMITS: '1' })
  expect(await accepting.exited).toBe(1)
  expect(accepting.errors()).toContain('NTH_ACCEPT_LOST_COMMITS no longer has an effect')

  // Moved on, and accepted for all.
  const advanced = await runCommand(target, ['restore', '--advance', '100'])
  expect(advanced).toMatchObject({ code: 0, audit: [{ field: 'nth restore --advance', count: 1 }] })
  const accepted = await runCommand(target, ['check', '--accept-lost-commits'])
  expect([accepted.code, accepted.output]).toEqual([
    0,
    expect.stringMatching(/ok +lost commits .* has accepted this/),
  ])
  expect(accepted.audit).toEqual([{ field: 'nth check --accept-lost-commits', by: expect.any(String) }])
  await expect.poll(async () => (await fetch(`${running.url}/ready`)).status).toBe(200)
  expect((await running.ask(increment)).increment.value).toBe(102)
  await startNth(environment)
})

it('failover: issues nothing through a worker that replaces another one after a loss', async () => {
  const target = await freshDatabase()
  const nth = await startNth({ DATABASE_URL: urlOf(target), NTH_WRITE_TIMEOUT_MS: '2000', WORKERS: '2' })
  const increment = 'mutation { increment(name: "a") { value } }'
  await nth.ask(increment)
  await query(
    target,
    "insert into lost_commits (id, noticed_at, what) values (1, utc_timestamp(3), 'all of it')",
  )
  await expect.poll(async () => (await nth.send(increment)).errors?.[0]?.extensions?.code).toBe('UNAVAILABLE')
  const ended = await workersOf(nth)
  const count = async () => Number((await query(target, 'select value from counter_value'))[0]?.value)
  for (const pid of ended) process.kill(pid, 'SIGKILL')
  const before = await count()
  const replaced = async () => {
    await nth.send(increment).catch(() => undefined)
    const now = await workersOf(nth)
    return now.length === 2 && !now.some((pid) => ended.includes(pid)) && obstacleOf(nth.url)
  }
  await expect
    .poll(replaced)
    .toBe('Database unavailable: lost commits. The database lacks changes that it had committed: all of it.')
  expect(await count()).toBe(before)
})

/** Why a process isn't ready. */
async function obstacleOf(url: string): Promise<string | undefined> {
  const { errors } = await (await fetch(`${url}/ready`)).json()
  return errors?.[0]?.message
}
