// @module-tag slow
// @module-tag random
import { expect, it } from 'vitest'
import { Hosts } from '../../src/mysql/hosts.ts'
import { untilReady } from '../../src/mysql/ready.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { SILENT } from '../../src/operations/log.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { filledUp, query } from '../support/database/database.ts'
import { startCluster } from '../support/database/galera.ts'
import { startProxy } from '../support/database/proxy.ts'
import { sums } from '../support/database/totals.ts'
import { openOnce } from '../support/openOnce.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { counterLine, fileWith, imported } from '../support/server/transfer.ts'

const counter = (name: string) => ({ namespace: 'n', name })
const group = (sequence: string, name: string) => ({ namespace: 'n', sequence, group: name })
const ANSWERS = runSize(300, 1000)

const PROBES = runSize(50, 100)

let databases = 0

/** A database with the tables, in the cluster of this file, reached at two of its nodes. */
async function cluster(): Promise<[Target, Target]> {
  const nodes = await openOnce(startCluster)
  const database = `nth${++databases}`
  await query(nodes[0], `create database ${database}`)
  const [first, second] = [
    { ...nodes[0], database },
    { ...nodes[1], database },
  ]
  await migrate(first)
  await expect
    .poll(() => query(second, 'select count(*) from deleted_sequence').catch(String))
    .toHaveLength(1)
  return [first, second]
}

it('Galera cluster: issues a different number to each caller, whichever of two nodes it is counted through', async () => {
  const targets = await cluster()
  const nths = targets.map((target) => openTestNth(target))
  const [first] = nths
  await first?.sequences.define({ namespace: 'n', name: 'gapless' }, { gapless: true })
  let confirmed: number[] = []
  let revision = 0
  const loads = nths.flatMap(({ counters, sequences }) => [
    startLoad(8, async () => (await counters.incrementBy(counter('hot'), 1)).value),
    startLoad(4, async () => (await sequences.next(group('tickets', 'board'), 1)).issued.value),
    startLoad(2, async () => {
      const { token } = await sequences.reserve(group('gapless', ''), 60)
      const { value } = await sequences.confirm(token)
      confirmed.push(value)
      return value
    }),
  ])
  // Meanwhile their definitions are changed.
  const definer = startLoad(1, async () => {
    const step = ++revision
    await first?.counters.define(counter('hot'), { maxValue: 1_000_000_000 + step })
    await first?.sequences.define(
      { namespace: 'n', name: 'tickets' },
      { format: step % 2 ? '{group}-{value:2}' : '{group}-{value:3}', allowRepeats: true },
    )
    return step
  })
  const everything = () => loads.reduce((sum, { answered }) => sum + answered.length, 0)
  await expect.poll(everything, { timeout: 900_000, interval: 100 }).toBeGreaterThan(ANSWERS)
  await Promise.all([...loads, definer].map((load) => load.end()))
  expect(definer.answered.length).toBeGreaterThan(0)
  const [hot1, tickets1, , hot2, tickets2] = loads
  const refused = [...loads, definer].flatMap((load) => load.refused)
  expect(refused.filter((code) => code !== 'UNAVAILABLE')).toEqual([])
  expect(nths.flatMap(({ faults }) => faults)).toEqual([])
  confirmed = confirmed.toSorted((a, b) => a - b)
  const returned = {
    hot: [...(hot1?.answered ?? []), ...(hot2?.answered ?? [])].toSorted((a, b) => a - b),
    tickets: [...(tickets1?.answered ?? []), ...(tickets2?.answered ?? [])].toSorted((a, b) => a - b),
  }
  expect(returned.hot).toEqual(upTo(returned.hot.length))
  expect(returned.tickets).toEqual(upTo(returned.tickets.length))
  expect(new Set(confirmed).size).toBe(confirmed.length)
  for (const target of targets) {
    await expect.poll(() => sums(target)).toEqual(Array(4).fill(returned.hot.length))
    const numbers = `select value from reservation where state = 1`
    expect((await query(target, numbers)).map(({ value }) => value).toSorted((a, b) => a - b)).toEqual(
      confirmed,
    )
  }
})

it('Galera cluster: leaves no transaction open at a node while nobody counts', async () => {
  const [target] = await cluster()
  const { counters, sequences } = openTestNth(target)
  await counters.incrementBy(counter('c'), 1)
  await counters.define(counter('c'), { maxValue: 1 })
  await expect(counters.incrementBy(counter('c'), 1)).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
  await sequences.next(group('s', 'g'), 1)
  expect(
    await query(target, 'select trx_id from information_schema.innodb_trx where trx_rows_locked > 0'),
  ).toEqual([])
  expect(
    await query(
      target,
      `select t.trx_id
         from information_schema.innodb_trx t
         join information_schema.processlist p on p.id = t.trx_mysql_thread_id
        where p.db = '${target.database}' and p.id <> connection_id()`,
    ),
  ).toEqual([])
})

it('Galera cluster: issues by a new definition from its answer on, at the other node too', async () => {
  const [first, second] = (await cluster()).map((target) => openTestNth(target).sequences)
  await first?.next(group('s', 'old'), 1)
  for (const version of upTo(99)) {
    const format = `v${version}-{group}-{value}`
    await first?.define({ namespace: 'n', name: 's' }, { format, allowRepeats: true })
    const numbers = ['old', `new${version}`].map((name) => second?.next(group('s', name), 1))
    for (const number of numbers) expect((await number)?.issued.format).toBe(format)
  }
})

it('Galera cluster: answers at one node by all that was answered at the other before', async () => {
  const [target, other] = await cluster()
  const [first, second] = [openTestNth(target), openTestNth(other)]
  const full = counter('full')
  await first.counters.define(full, { maxValue: 1 })
  await first.counters.incrementBy(full, 1)
  await first.sequences.define({ namespace: 'n', name: 'gapless' }, { gapless: true })
  // Keeps the other node busy with what it has to apply.
  const load = startLoad(8, async () => (await first.counters.incrementBy(counter('load'), 1)).value)
  const stale: string[] = []
  const probe = (what: string, work: Promise<unknown>) =>
    work.catch(({ code }) => stale.push(`${what}: ${code}`))
  for (let maxValue = 2; maxValue <= PROBES + 1; maxValue++) {
    await first.counters.define(full, { maxValue })
    await probe('limit', second.counters.incrementBy(full, 1))
    const { value } = await first.counters.read(full)
    if (value !== maxValue) stale.push(`read: ${value} of ${maxValue}`)
    const { token } = await first.sequences.reserve(group('gapless', ''), 60)
    await probe('reservation', second.sequences.confirm(token))
    const { value: counted } = await first.counters.incrementBy(counter('read'), 1)
    if ((await second.counters.read(counter('read'))).value !== counted) stale.push('read')
  }
  await load.end()
  expect(load.refused).toEqual([])
  expect(stale).toEqual([])
})

it('Galera cluster: waits for other nodes with each connection, or not with those that read, if they may be eventual', async () => {
  const [target] = await cluster()
  const waiting = async (eventualReads: boolean) => {
    const connections = { all: new Set<number>(), writing: new Set<number>(), waiting: new Set<number>() }
    const proxy = await startProxy(target, (statement, connection) => {
      if (/^(select|set statement|update|rollback)/.test(statement)) connections.all.add(connection)
      if (statement.includes('update fence')) connections.writing.add(connection)
      if (statement.includes('wsrep_sync_wait | 7')) connections.waiting.add(connection)
      return 'passes'
    })
    const { counters } = openTestNth(proxy, { eventualReads })
    await counters.incrementBy(counter(`${eventualReads}`), 1)
    expect((await counters.read(counter(`${eventualReads}`))).value).toBe(1)
    return connections
  }
  const causal = await waiting(false)
  expect(causal.waiting).toEqual(causal.all)
  const eventual = await waiting(true)
  expect(eventual.waiting).toEqual(eventual.writing)
  expect(eventual.all.size).toBeGreaterThan(1)
})

it('Galera cluster: warns at the start if callers wait for a shorter time than a failover, or a lock, takes', async () => {
  const [target] = await cluster()
  const warnings = async (writeTimeoutMs: number) => {
    const said: string[] = []
    const { signal } = new AbortController()
    const hosts = new Hosts([target])
    await untilReady(hosts, {
      notices: { ...SILENT, info: (line) => said.push(line) },
      signal,
      writeTimeoutMs,
    })
    hosts.close()
    return said
  }
  expect(await warnings(3000)).toEqual([
    expect.stringMatching(/takes 7 seconds .* NTH_WRITE_TIMEOUT_MS=12000/),
  ])
  expect(await warnings(10_000)).toEqual([])
  await query(target, 'set global innodb_lock_wait_timeout = 50')
  expect(await warnings(10_000)).toEqual([
    expect.stringMatching(
      /waits 50 seconds for a lock .* callers wait for 10 .* Set innodb_lock_wait_timeout=2/,
    ),
  ])
  await query(target, 'set global innodb_lock_wait_timeout = 2')
})

it('Galera cluster: refuses to change the definition of a sequence there that has more groups than one transaction can write', async () => {
  const [target] = await cluster()
  const { sequences } = openTestNth(target)
  await sequences.next(group('s', 'g'), 1)
  await query(
    target,
    ...filledUp(10_000),
    'insert into sequence_group (sequence_id, name) select s.id, n from sequence s, filled',
  )
  await expect(sequences.define({ namespace: 'n', name: 's' }, { step: 2 })).rejects.toMatchObject({
    code: 'BAD_USER_INPUT',
    details: { limit: 10_000 },
  })
  expect((await sequences.next(group('s', 'g'), 1)).issued.value).toBe(2)
})

it('Galera cluster: imports at one node a counter that is changed at another all the time', async () => {
  const [first, second] = await cluster()
  const { counters } = openTestNth(second)
  const load = startLoad(16, async () => (await counters.incrementBy(counter('hot'), 1)).value)
  await load.afterMore(200)
  // So much that the transaction of the whole batch always meets a change of the other node.
  const history = { DAY: upTo(20).map((day) => [`2026-10-${String(day).padStart(2, '0')}T00:00:00Z`, 7]) }
  const names = ['hot', ...upTo(220).map((n) => `c${n}`)]
  const lines = names.map((name) => counterLine(name, 1, { namespace: 'n', history }))
  const { code, errors } = await imported(first, fileWith(lines))
  expect([code, errors]).toEqual([
    0,
    expect.stringMatching(/^Counters: \d+ created, \d+ kept\.\nTotals of periods: \d+ left behind\.\n$/),
  ])
  const imports = await Promise.all(names.map((name) => counters.read(counter(name))))
  expect(imports.filter(({ value }) => value === 1)).toHaveLength(220)
  await load.afterMore(200)
  await load.end()
  expect(load.refused).toEqual([])
  expect(new Set(load.answered).size).toBe(load.answered.length)
  const { value } = await counters.read(counter('hot'))
  expect(value).toBe(load.answered.length)
})
