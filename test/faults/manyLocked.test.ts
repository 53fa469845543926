import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { type Claim, claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

/** So many locks, each waited for, take longer than this deadline. */
const HELD = 80
const TIMEOUT_MS = AMPLE_MS

const counter = (name: string) => ({ namespace: 'n', name })
const group = (name: string) => ({ namespace: 'n', sequence: 's', group: name })

/** Holds what statements lock, as somebody's forgotten transaction would. */
async function hold(target: Target, ...statements: string[]) {
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  for (const statement of statements) await holder.query(statement)
  return holder
}

async function idsOf(target: Target, table: string): Promise<string> {
  const rows = await query(target, `select id from ${table} where name like 'held%'`)
  return rows.map(({ id }) => id).join(', ')
}

const names = (prefix: string) => upTo(HELD).map((index) => `${prefix}${index}`)
const codeOf = ({ code }: { code?: string }) => code

it('counts all other counters while a session locks the rows of many', async () => {
  const target = await freshDatabase()
  const maker = openTestNth(target)
  for (const name of [...names('free'), ...names('held')]) await maker.counters.incrementBy(counter(name), 1)
  await maker.counters.define(counter('slotted'), { slots: 4 })
  const { counters } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  const all = [...names('free'), ...names('held'), 'slotted', 'gone']
  await Promise.all(all.map((name) => counters.incrementBy(counter(name), 0)))
  await maker.counters.delete(counter('gone'))
  const ids = await idsOf(target, 'counter')
  const holder = await hold(
    target,
    `select * from counter_value force index (primary) where counter_id in (${ids}) for update`,
  )
  const held = names('held').map((name) =>
    counters.incrementBy(counter(name), 1).then(({ value }) => value, codeOf),
  )
  const free = [...names('free'), 'slotted', 'gone'].map((name) =>
    counters.incrementBy(counter(name), 1).then(({ value }) => value, codeOf),
  )
  expect(await Promise.all(free)).toEqual([...names('free').map(() => 2), 1, 1])
  await holder.query('rollback')
  // Nobody took what was locked for what was deleted.
  expect(await Promise.all(held)).toEqual(names('held').map(() => 2))
})

it('tries the rows that somebody holds apart from all others from then on', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const held = ['held1', 'held2', 'held3']
  const count = (name: string) => counters.incrementBy(counter(name), 1).then(({ value }) => value)
  for (const name of ['free', ...held]) await count(name)
  const ids = await idsOf(target, 'counter')
  const holder = await hold(target, `select * from counter_value where counter_id in (${ids}) for update`)
  const statements = collectStatements('counter_value')
  const waiting = Promise.all(held.map(count))
  for (const value of [2, 3, 4, 5]) expect(await count('free')).toBe(value)
  // One that waited for a lock, and one that tried all.
  const together = statements.filter(
    (text) => text.startsWith('start transaction') && text.includes(`, ${ids})`),
  )
  expect(together).toHaveLength(2)
  await holder.query('rollback')
  expect(await waiting).toEqual([2, 2, 2])
})

it('tries a group that somebody holds apart from then on, also where each call has a key', async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  await counters.incrementBy(counter('free'), 1)
  await sequences.next(group('held'), 1)
  const holder = await hold(target, 'select * from sequence_group for update')
  const statements = collectStatements('sequence_group')
  const waiting: Promise<number>[] = []
  for (const value of [2, 3, 4, 5]) {
    const claim = claimOf('n', `key ${value}`, [])
    waiting.push(sequences.next(group('held'), 1, { claim }).then(({ issued }) => issued.value))
    expect((await counters.incrementBy(counter('free'), 1)).value).toBe(value)
  }
  const waited = statements.filter((text) => text.startsWith('start transaction') && !text.includes('nowait'))
  expect(waited).toHaveLength(1)
  await holder.query('rollback')
  expect((await Promise.all(waiting)).toSorted()).toEqual([2, 3, 4, 5])
})

it.each([
  ['the rows of many groups', 'sequence_group', 'id'],
  ['what many groups issued last', 'sequence_value', 'group_id'],
])('numbers all others, while somebody holds %s', async (_, table, id) => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  for (const name of [...names('free'), ...names('held')]) await sequences.next(group(name), 1)
  const ids = await idsOf(target, 'sequence_group')
  const holder = await hold(
    target,
    `select * from ${table} force index (primary) where ${id} in (${ids}) for update`,
  )
  const next = (name: string) => sequences.next(group(name), 1).then(({ issued }) => issued.value, codeOf)
  const held = names('held').map(next)
  expect(await Promise.all(names('free').map(next))).toEqual(names('free').map(() => 2))
  await holder.query('rollback')
  expect(await Promise.all(held)).toEqual(names('held').map(() => 2))
})

it('waits for a group before COMMIT is sent, after which an error would leave a doubt', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  await openTestNth(target).sequences.next(group('g'), 1)
  await hold(target, 'select * from sequence_group for update')
  // It does not know the group yet, so it decides between two trips what to write.
  const { sequences } = openTestNth(target, { timeoutMs: 3000 })
  await expect(sequences.next(group('g'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})

it('counts for all other keys on a counter that was held, while somebody holds one key', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  await counters.incrementBy(counter('held'), 0)
  const [{ hash, fingerprint }, ...others] = upTo(20).map((index) => claimOf('n', `key ${index}`, [])) as [
    Claim,
    ...Claim[],
  ]
  const keyHolder = await hold(
    target,
    `insert into idempotency_key (hash, fingerprint, applied_at, claimed_at) values (x'${hash}', x'${fingerprint}', now(), now())`,
  )
  const rowHolder = await hold(target, 'select * from counter_value for update')
  const statements = collectStatements('counter_value')
  const attempts = () => statements.filter((text) => text.includes('skip locked')).length
  const count = (claim?: Claim) =>
    counters.incrementBy(counter('held'), 1, { claim }).then(({ value }) => value)
  const all = [count()]
  await expect.poll(attempts).toBeGreaterThan(1)
  const keyed = count({ hash, fingerprint })
  all.push(...others.map(count))
  const before = attempts()
  await expect.poll(attempts).toBeGreaterThan(before + 2)
  await rowHolder.query('rollback')
  expect((await Promise.all(all)).toSorted((a, b) => a - b)).toEqual(upTo(20))
  await keyHolder.query('rollback')
  expect(await keyed).toBe(21)
})

it('counts for all other keys, while somebody holds many keys', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: TIMEOUT_MS })
  await counters.incrementBy(counter('c'), 0)
  // All rows fit into one page: where InnoDB divides one, a session that holds a row comes to hold a gap as well.
  const [keys, freeKeys] = ['key', 'free'].map((prefix) => names(prefix).slice(0, 30)) as [string[], string[]]
  const claims = keys.map((key) => claimOf('n', key, []))
  const holder = await hold(
    target,
    ...claims.map(
      ({ hash, fingerprint }) =>
        `insert into idempotency_key (hash, fingerprint, applied_at, claimed_at) values (x'${hash}', x'${fingerprint}', now(), now())`,
    ),
  )
  const statements = collectStatements('idempotency_key')
  const count = (claim?: Claim) =>
    counters.incrementBy(counter('c'), 1, { claim }).then(({ value }) => value, codeOf)
  const held = claims.map(count)
  const free = [count(), ...freeKeys.map((key) => count(claimOf('n', key, [])))]
  expect((await Promise.all(free)).toSorted((a, b) => Number(a) - Number(b))).toEqual(upTo(31))
  // Each attempt to lock several shows only one that is held.
  const lockingSeveral = statements.filter((text) => text.split('nowait').length > 2)
  expect(lockingSeveral.length).toBeLessThan(keys.length)
  await holder.query('rollback')
  expect((await Promise.all(held)).toSorted((a, b) => Number(a) - Number(b))).toEqual(
    claims.map((_, index) => 32 + index),
  )
})
