import { describe, expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { type Claim, claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold, holdRows } from '../support/database/hold.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'

/* While a session outside Nth holds locks, calls that don't need them go on. */

/** So many locks, each waited for, take longer than the deadline of a call. */
const HELD = 80
const ROUNDS = 100

const counter = (name: string) => ({ namespace: 'n', name })
const group = (name: string) => ({ namespace: 'n', sequence: 's', group: name })
const cart = ['hot', 'locked'].map((name) => ({ name, delta: 1 }))

async function idsOf(target: Target, table: string): Promise<string> {
  const rows = await query(target, `select id from ${table} where name like 'held%'`)
  return rows.map(({ id }) => id).join(', ')
}

const names = (prefix: string) => upTo(HELD).map((index) => `${prefix}${index}`)
const codeOf = ({ code }: { code?: string }) => code
const sorted = (values: unknown[]) => values.toSorted((x, y) => Number(x) - Number(y))

/** Whether calls are still unanswered. If each of many others waited for their lock, a second at a time, their deadline would be over. */
function pending(calls: Promise<unknown>): () => boolean {
  let isPending = true
  const end = () => {
    isPending = false
  }
  calls.then(end, end)
  return () => isPending
}

const numberOf = ({ value }: { value: number }) => value

describe('a locked counter', () => {
  it('holds up no other counter, nor do newcomers for it', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    const others = upTo(20).map((index) => counter(`c${index}`))
    for (const key of [counter('held'), ...others]) await counters.incrementBy(key, 1)
    const holder = await hold(target, 'held')
    const count = () => counters.incrementBy(counter('held'), 1).then(numberOf)
    const held = upTo(5).map(count)
    const isPending = pending(Promise.all(held))
    for (const _ of upTo(ROUNDS)) {
      await Promise.all(others.map((other) => counters.incrementBy(other, 1)))
      held.push(count())
    }
    expect(isPending()).toBe(true)
    await holder.end()
    expect(sorted(await Promise.all(held))).toEqual(upTo(6 + ROUNDS).slice(1))
    for (const other of others) expect((await counters.read(other)).value).toBe(1 + ROUNDS)
  })

  it('is counted by nothing that was refused, while it is held and let go', { tags: 'slow' }, async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target, { timeoutMs: 1500 })
    await counters.incrementBy(counter('held'), 0)
    const load = startLoad(8, async () => (await counters.incrementBy(counter('held'), 1)).value)
    for (const _ of upTo(2)) {
      const holder = await hold(target, 'held')
      const refused = load.refused.length
      await expect.poll(() => load.refused.length).toBeGreaterThan(refused)
      await holder.end()
      const answered = load.answered.length
      await expect.poll(() => load.answered.length).toBeGreaterThan(answered)
    }
    await load.end()
    // A deadline can come between a COMMIT and its answer.
    const doubtful = load.refused.filter((code) => code !== 'UNAVAILABLE')
    expect(new Set(['OUTCOME_UNKNOWN', ...doubtful])).toEqual(new Set(['OUTCOME_UNKNOWN']))
    expect(load.refused.length).toBeGreaterThan(doubtful.length)
    expect(new Set(load.answered).size).toBe(load.answered.length)
    const { value } = await counters.read(counter('held'))
    expect(value).toBeGreaterThanOrEqual(load.answered.length)
    expect(value).toBeLessThanOrEqual(load.answered.length + doubtful.length)
  })

  it('of a cart holds up none of its other counters', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    await counters.incrementMany('n', cart)
    const holder = await hold(target, 'locked')
    const waiting = counters.incrementMany('n', cart)
    const isPending = pending(waiting)
    for (const _ of upTo(2 * ROUNDS)) await counters.incrementBy(counter('hot'), 1)
    expect(isPending()).toBe(true)
    await holder.query('rollback')
    expect((await waiting).map(numberOf)).toEqual([2 + 2 * ROUNDS, 2])
  })

  it('of a cart is tried before the others, so that a failed attempt holds none of them', async () => {
    const database = await freshDatabase()
    const locks: string[] = []
    let isHeld = false
    const target = await startProxy(database, async (statement): Promise<Delivery> => {
      if (!isHeld || statement !== 'rollback') return 'passes'
      const attempt = query(database, 'select * from counter_value where counter_id = 1 for update nowait')
      locks.push(
        await attempt.then(
          () => 'free',
          () => 'held',
        ),
      )
      return 'passes'
    })
    const { counters } = openTestNth(target)
    await counters.incrementMany('n', cart)
    const [hot] = await query(database, "select id from counter where name = 'hot'")
    expect(hot?.id).toBe(1)
    const holder = await hold(database, 'locked')
    isHeld = true
    const waiting = counters.incrementMany('n', cart)
    await expect.poll(() => locks.length).toBeGreaterThanOrEqual(5)
    // The first waited for the lock, the second tried all.
    expect(new Set(locks.slice(2))).toEqual(new Set(['free']))
    isHeld = false
    await holder.query('rollback')
    expect((await waiting).map(numberOf)).toEqual([2, 2])
  })
})

describe('many locked rows', () => {
  it('hold up no other counter, be it one with slots or one that was deleted', async () => {
    const target = await freshDatabase()
    const maker = openTestNth(target)
    for (const name of [...names('free'), ...names('held')])
      await maker.counters.incrementBy(counter(name), 1)
    await maker.counters.define(counter('slotted'), { slots: 4 })
    const { counters } = openTestNth(target)
    const count = (name: string, delta = 1) =>
      counters.incrementBy(counter(name), delta).then(numberOf, codeOf)
    await Promise.all([...names('free'), ...names('held'), 'slotted', 'gone'].map((name) => count(name, 0)))
    await maker.counters.delete(counter('gone'))
    const ids = await idsOf(target, 'counter')
    const holder = await holdRows(
      target,
      `select * from counter_value force index (primary) where counter_id in (${ids}) for update`,
    )
    const held = names('held').map((name) => count(name))
    const free = [...names('free'), 'slotted', 'gone'].map((name) => count(name))
    expect(await Promise.all(free)).toEqual([...names('free').map(() => 2), 1, 1])
    await holder.query('rollback')
    // Nobody took what was locked for what was deleted.
    expect(await Promise.all(held)).toEqual(names('held').map(() => 2))
  })

  it.each([
    ['the rows of many groups', 'sequence_group', 'id'],
    ['what many groups issued last', 'sequence_value', 'group_id'],
  ])('hold up no other sequence group: %s', async (_, table, id) => {
    const target = await freshDatabase()
    const { sequences } = openTestNth(target)
    for (const name of [...names('free'), ...names('held')]) await sequences.next(group(name), 1)
    const ids = await idsOf(target, 'sequence_group')
    const holder = await holdRows(
      target,
      `select * from ${table} force index (primary) where ${id} in (${ids}) for update`,
    )
    const next = (name: string) => sequences.next(group(name), 1).then(({ issued }) => issued.value, codeOf)
    const held = names('held').map(next)
    expect(await Promise.all(names('free').map(next))).toEqual(names('free').map(() => 2))
    await holder.query('rollback')
    expect(await Promise.all(held)).toEqual(names('held').map(() => 2))
  })
})

describe('a locked sequence group', () => {
  it('holds up nothing else, also where each call for it has a key', async () => {
    const target = await freshDatabase()
    const { counters, sequences } = openTestNth(target)
    await counters.incrementBy(counter('free'), 1)
    await sequences.next(group('held'), 1)
    const holder = await holdRows(target, 'select * from sequence_group for update')
    const held: Promise<number>[] = []
    const next = (index: number) => {
      const claim = claimOf('n', `key ${index}`, [])
      held.push(sequences.next(group('held'), 1, { claim }).then(({ issued }) => issued.value))
    }
    next(0)
    const isPending = pending(Promise.all(held))
    for (const index of upTo(ROUNDS)) {
      next(index)
      expect((await counters.incrementBy(counter('free'), 1)).value).toBe(1 + index)
    }
    expect(isPending()).toBe(true)
    await holder.query('rollback')
    expect(sorted(await Promise.all(held))).toEqual(upTo(2 + ROUNDS).slice(1))
  })

  it('is waited for before COMMIT is sent, after which an error would leave a doubt', async () => {
    const target = await freshDatabase()
    await openTestNth(target).sequences.next(group('g'), 1)
    await holdRows(target, 'select * from sequence_group for update')
    // It does not know the group yet, so it decides between two trips what to write.
    const { sequences } = openTestNth(target, { timeoutMs: 1500 })
    await expect(sequences.next(group('g'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('a locked idempotency key', () => {
  /** Claims a key, as a process does that has not committed yet. */
  const claiming = ({ hash, fingerprint }: Claim) =>
    `insert into idempotency_key (hash, fingerprint, applied_at, claimed_at) values (x'${hash}', x'${fingerprint}', now(), now())`

  it('holds up no other key on a counter that was held', async () => {
    const database = await freshDatabase()
    let attempts = 0
    const target = await startProxy(database, (statement) => {
      if (statement.includes('skip locked')) attempts += 1
      return 'passes'
    })
    const { counters } = openTestNth(target)
    await counters.incrementBy(counter('held'), 0)
    const [claim, ...others] = upTo(20).map((index) => claimOf('n', `key ${index}`, [])) as [
      Claim,
      ...Claim[],
    ]
    const keyHolder = await holdRows(database, claiming(claim))
    const rowHolder = await hold(database, 'held')
    const count = (each?: Claim) => counters.incrementBy(counter('held'), 1, { claim: each }).then(numberOf)
    const all = [count()]
    await expect.poll(() => attempts).toBeGreaterThan(1)
    const keyed = count(claim)
    all.push(...others.map(count))
    const before = attempts
    await expect.poll(() => attempts).toBeGreaterThan(before + 2)
    await rowHolder.query('rollback')
    expect(sorted(await Promise.all(all))).toEqual(upTo(20))
    await keyHolder.query('rollback')
    expect(await keyed).toBe(21)
  })

  it('holds up no other key where many are held, of which some have a result', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    const count = (claim?: Claim) => counters.incrementBy(counter('c'), 1, { claim }).then(numberOf, codeOf)
    // All rows fit into one page: where InnoDB divides one, a session that holds a row comes to hold a gap as well.
    const [used = [], unused = [], free = []] = ['used', 'unused', 'free'].map((prefix) =>
      upTo(15).map((index) => claimOf('n', `${prefix}${index}`, [])),
    )
    expect(await Promise.all(used.map(count))).toEqual(upTo(15))
    const holder = await holdRows(
      target,
      ...used.map(({ hash }) => `select * from idempotency_key where hash = x'${hash}' for update`),
      ...unused.map(claiming),
    )
    const held = [...used, ...unused].map(count)
    expect(sorted(await Promise.all([count(), ...free.map(count)]))).toEqual(upTo(31).slice(15))
    await holder.query('rollback')
    // A repeat returns the first result.
    expect(sorted(await Promise.all(held))).toEqual([...upTo(15), ...upTo(46).slice(31)])
  })
})

it('new names: one that somebody is about to create holds up no other name', { tags: 'slow' }, async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const count = (name: string) => counters.incrementBy(counter(name), 1).then(numberOf)
  await count('known')
  // InnoDB has who would make the same wait, and with it who would put a name directly before it.
  const insert = "insert into counter (namespace_id, name) select id, 'stuck' from namespace"
  const holder = await holdRows(target, insert)
  const stuck = count('stuck')
  const isPending = pending(stuck)
  expect(await Promise.all(upTo(5).map((index) => count(`z${index}`)))).toEqual([1, 1, 1, 1, 1])
  for (const index of upTo(80)) {
    count('stuck').catch(() => undefined)
    expect(await count(`zz${index}`)).toBe(1)
  }
  expect(isPending()).toBe(true)
  await holder.query('rollback')
  expect(await stuck).toBeGreaterThan(0)
})
