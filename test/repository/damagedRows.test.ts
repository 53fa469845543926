import { describe, expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { holdRows } from '../support/database/hold.ts'
import { openTestNth } from '../support/server/nth.ts'

const NOON = new Date('2026-11-21T12:00:00Z')
const now = () => NOON
const key = { namespace: 'n', name: 'c' }
const group = { namespace: 'n', sequence: 's', group: '' }

const UNKNOWN_ZONE = { code: 'UNAVAILABLE', message: expect.stringContaining('"Mars/Olympus"') }
const LOST_VALUE = { code: 'CONFLICT', message: expect.stringContaining('Reset or delete the counter') }

/** The core on a database with a counter of value 5, changed by somebody else while another process has not cached it. */
async function withCounter(...statements: string[]) {
  const target = await freshDatabase()
  await openTestNth(target, { now }).counters.incrementBy(key, 5)
  await query(target, ...statements)
  return { target, ...openTestNth(target, { now }) }
}

const move = (table: string) => `update ${table} set time_zone = 'Mars/Olympus'`

describe('a counter in a time zone that a later version has defined', () => {
  it('is refused with the name of the zone, beside others that work', async () => {
    const { counters, faults } = await withCounter(move('counter'))
    const other = { namespace: 'n', name: 'other' }
    // Before the others: they may be refused while it is awaited.
    const { definition } = await counters.read(key)
    const results = await Promise.allSettled([
      counters.incrementBy(key, 1),
      counters.incrementBy(other, 1),
      counters.incrementMany('n', [
        { name: 'other', delta: 1 },
        { name: 'c', delta: 1 },
      ]),
      counters.history({ ...key, definition }, 'DAY', { last: 1 }),
    ])
    expect(results).toMatchObject([
      { reason: UNKNOWN_ZONE },
      { value: { value: 1 } },
      { reason: UNKNOWN_ZONE },
      { reason: UNKNOWN_ZONE },
    ])
    expect(await counters.read(key)).toMatchObject({ value: 5 })
    expect(await counters.read(other)).toMatchObject({ value: 1 })
    expect(faults).toEqual([])
  })

  it('gets a known zone from a definition, with the total of the current day', async () => {
    const { counters } = await withCounter(move('counter'))
    await counters.define(key, { timeZone: 'Asia/Tokyo' })
    await counters.incrementBy(key, 2)
    const counter = await counters.read(key)
    expect(counter).toMatchObject({ value: 7, definition: { timeZone: 'Asia/Tokyo' } })
    expect(await counters.valueIn(counter, 'DAY')).toBe(7)
  })

  it('gets the total of a period that it begins to track from finer ones', async () => {
    const { counters } = await withCounter(move('counter'))
    const periods = [{ period: 'DAY' }, { period: 'WEEK' }] as const
    await counters.define(key, { timeZone: 'Europe/Berlin', periods })
    const { valuesIn } = await counters.incrementBy(key, 1, { wantsPeriodValues: true })
    expect(valuesIn).toEqual({ DAY: 6, WEEK: 6 })
  })

  it.each([1, 4])('is defined, reset and deleted all the same, with %s slots', async (slots) => {
    const { counters } = await withCounter(move('counter'))
    await counters.define(key, { slots })
    expect(await counters.read(key)).toMatchObject({ value: 5, definition: { slots } })
    expect(await counters.reset(key, 3)).toMatchObject({ previousValue: 5, value: 3 })
    await expect(counters.define(key, { periods: [{ period: 'WEEK' }] })).rejects.toMatchObject(UNKNOWN_ZONE)
    expect(await counters.delete(key)).toMatchObject({ previousValue: 3 })
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 1 })
  })

  it('counts no subject, which delays nobody until the deadline', async () => {
    const { counters, faults } = await withCounter('update counter set once_per = 2', move('counter'))
    await expect(counters.countOnce(key, 'x')).rejects.toMatchObject(UNKNOWN_ZONE)
    expect(faults).toEqual([])
  })

  it('works if it tracks no periods', async () => {
    const { counters } = await withCounter("update counter set time_zone = 'Mars/Olympus', periods = ''")
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 6 })
  })

  it('is cured by another process', async () => {
    const { target, counters } = await withCounter(move('counter'))
    await expect(counters.incrementBy(key, 1)).rejects.toMatchObject(UNKNOWN_ZONE)
    await openTestNth(target, { now }).counters.define(key, { timeZone: 'UTC' })
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 6 })
  })

  it('takes a zone of its own, or that of its namespace once that is defined again', async () => {
    const { counters, namespaces } = await withCounter(move('namespace'))
    const fresh = { namespace: 'n', name: 'new' }
    await expect(counters.incrementBy(fresh, 1)).rejects.toMatchObject(UNKNOWN_ZONE)
    await counters.define(fresh, { timeZone: 'UTC' })
    expect(await counters.incrementBy(fresh, 1)).toMatchObject({ value: 1 })
    expect(await namespaces.define('n', { timeZone: 'UTC' })).toMatchObject({ timeZone: 'UTC' })
    expect(await counters.incrementBy({ namespace: 'n', name: 'newer' }, 1)).toMatchObject({ value: 1 })
  })
})

describe('what holds take of a counter', () => {
  async function withHolds(...statements: string[]) {
    const target = await freshDatabase()
    const { holds } = openTestNth(target)
    const times = { ttlMs: 60_000, longestMs: 60_000 }
    const hold = (delta: number) => holds.hold('n', [{ name: 'c', delta }], times)
    const held = [await hold(1), await hold(2), await hold(-4)] as const
    await query(target, ...statements)
    return { held, ...openTestNth(target) }
  }

  it.each([
    ['lost with its value', 'delete from counter_value'],
    ['wrong', 'update counter_value set held_up = 70, held_down = 0, first_expiry = null'],
  ])('is summed anew by a reset if it is %s', async (_, illness) => {
    const { counters, holds, held } = await withHolds(illness)
    await counters.reset(key, 5)
    expect(await counters.read(key)).toMatchObject({ value: 5, held: 3, heldDown: 4 })
    await holds.confirm(held[1])
    expect(await counters.read(key)).toMatchObject({ value: 7, held: 1, heldDown: 4 })
  })

  it('is right after a reset that cures it together with other changes', async () => {
    const { counters, holds, held } = await withHolds('delete from counter_value')
    // Those that come before it are refused.
    const [, first, last] = await Promise.allSettled([
      counters.reset(key, 5),
      holds.release(held[0]),
      holds.release(held[2]),
    ])
    const sums = {
      held: first.status === 'fulfilled' ? 2 : 3,
      heldDown: last.status === 'fulfilled' ? 0 : 4,
    }
    expect(await counters.read(key)).toMatchObject({ value: 5, ...sums })
  })
})

describe('a sequence in a time zone that a later version has defined', () => {
  async function withSequence() {
    const target = await freshDatabase()
    const nth = openTestNth(target, { now })
    await nth.sequences.define(
      { namespace: 'n', name: 's' },
      { restartEvery: 'DAY', format: '{yyyy}-{MM}-{dd}-{value}' },
    )
    await nth.sequences.next(group, 2)
    await query(target, move('sequence'))
    return { target, ...openTestNth(target, { now }) }
  }
  const sequence = { namespace: 'n', name: 's' }

  it('is refused with the name of the zone, beside others that work', async () => {
    const { sequences, counters, faults } = await withSequence()
    const results = await Promise.allSettled([
      sequences.next(group, 1),
      sequences.next({ ...group, sequence: 'other' }, 1),
      counters.incrementBy(key, 1),
      sequences.readSequenceGroup(group),
      sequences.readSequenceGroup({ ...group, sequence: 'other' }),
    ])
    expect(results).toMatchObject([
      { reason: UNKNOWN_ZONE },
      { value: { issued: { value: 1 } } },
      { value: { value: 1 } },
      { reason: UNKNOWN_ZONE },
      { status: 'fulfilled' },
    ])
    expect(faults).toEqual([])
  })

  it('gets a known zone from a definition, also one by another process', async () => {
    const { target, sequences } = await withSequence()
    await expect(sequences.next(group, 1)).rejects.toMatchObject(UNKNOWN_ZONE)
    await openTestNth(target, { now }).sequences.define(sequence, { timeZone: 'UTC' })
    expect(await sequences.next(group, 1)).toMatchObject({ issued: { value: 3 } })
  })

  it('is deleted all the same', async () => {
    const { sequences } = await withSequence()
    await sequences.delete(sequence)
    expect(await sequences.next(group, 1)).toMatchObject({ issued: { value: 1 } })
  })
})

describe('a counter whose value was deleted by hand', () => {
  const LOSSES: [string, number, string][] = [
    ['its row', 1, 'delete from counter_value'],
    ['all its slots', 4, 'delete from counter_value'],
    ['its first slot', 4, 'delete from counter_value where slot = 0'],
  ]
  async function withLoss(slots: number, statement: string) {
    const target = await freshDatabase()
    const nth = openTestNth(target, { now })
    const other = { namespace: 'n', name: 'other' }
    await nth.counters.define(key, { slots })
    await nth.counters.incrementBy(key, 5)
    const { revision } = await nth.counters.read(key)
    await query(target, statement)
    await nth.counters.incrementBy(other, 1)
    return { ...nth, target, other, revision }
  }

  it.each(LOSSES)('is reset: %s of %s', async (_, slots, statement) => {
    const { counters, revision } = await withLoss(slots, statement)
    const reset = await counters.reset(key, 40, { withRevision: true })
    expect(reset).toMatchObject({ value: 40 })
    expect(reset.revision).toBeGreaterThan(revision)
    const after = await counters.incrementBy(key, 2, { withRevision: true })
    expect(after).toMatchObject({ value: 42, previousValue: 40, revision: (reset.revision ?? 0) + 1 })
    expect(await counters.read(key)).toMatchObject({ value: 42, revision: after.revision })
  })

  it.each(LOSSES)('is deleted: %s of %s', async (_, slots, statement) => {
    const { counters } = await withLoss(slots, statement)
    await counters.delete(key)
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 1 })
  })

  it('is reset once, if two processes expect the value that it lacks', async () => {
    const { target, counters } = await withCounter('delete from counter_value')
    const other = openTestNth(target, { now })
    const holder = await holdRows(target, 'select id from counter for update')
    const resets = [10, 20].map((to, index) =>
      [counters, other.counters][index]?.reset(key, to, {}, { value: 0 }),
    )
    const settled = Promise.allSettled(resets)
    const waiting = `select count(*) as n
      from information_schema.processlist
     where db = database() and info like 'select version, %from counter%'`
    await expect.poll(async () => Number((await query(target, waiting))[0]?.n)).toBe(2)
    await holder.query('rollback')
    expect((await settled).map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('says so to other calls, which delays none of another counter', async () => {
    const { counters, other, faults, target } = await withLoss(1, 'delete v from counter_value v')
    const results = await Promise.allSettled([
      counters.incrementBy(key, 1),
      counters.incrementBy(other, 1),
      counters.define(key, { maxValue: 9 }),
      counters.incrementMany('n', [
        { name: 'other', delta: 1 },
        { name: 'c', delta: 1 },
      ]),
      counters.reset(key, 4, {}, { value: 5 }),
    ])
    expect(results).toMatchObject([
      { reason: LOST_VALUE },
      { value: { value: 2 } },
      { reason: LOST_VALUE },
      { reason: LOST_VALUE },
      { reason: { code: 'CONFLICT', details: { value: 0 } } },
    ])
    // A refused reset cures nothing.
    await expect(counters.incrementBy(key, 1)).rejects.toMatchObject(LOST_VALUE)
    expect(await query(target, 'select * from counter_value where value = 0')).toEqual([])
    expect(faults).toEqual([])
  })
})

describe('a sequence group whose position was deleted by hand', () => {
  const LOST = { code: 'CONFLICT', message: expect.stringContaining('restartSequence') }
  const LOSE = 'delete from sequence_value'

  async function withIssued(
    gapless: boolean,
    count = 3,
  ): Promise<{ target: Target } & ReturnType<typeof openTestNth>> {
    const target = await freshDatabase()
    const nth = openTestNth(target, { now })
    await nth.sequences.define({ namespace: 'n', name: 's' }, { gapless })
    if (!gapless) await nth.sequences.next(group, count)
    return { ...nth, target }
  }

  it('issues no number again until it is restarted', async () => {
    const { target, sequences, faults } = await withIssued(false)
    await query(target, LOSE)
    for (const each of [sequences, openTestNth(target, { now }).sequences])
      for (const call of [() => each.next(group, 1), () => each.nextOnce(group, 'x')])
        await expect(call()).rejects.toMatchObject(LOST)
    expect(await sequences.next({ ...group, group: 'another' }, 1)).toMatchObject({ issued: { value: 1 } })
    expect(await sequences.restart(group, 4)).toMatchObject({ nextValue: 4 })
    expect(await sequences.next(group, 1)).toMatchObject({ issued: { value: 4 } })
    expect(faults).toEqual([])
  })

  it('gives no subject its number of an earlier generation', async () => {
    const { target, sequences } = await withIssued(false, 1)
    await sequences.restart(group, 10)
    expect(await sequences.nextOnce(group, 'x')).toMatchObject({ issued: { value: 10 } })
    await query(target, LOSE)
    await sequences.restart(group, 20)
    expect(await sequences.nextOnce(group, 'x')).toMatchObject({ issued: { value: 20 } })
  })

  it('reserves no number again until it is restarted, not even a released one', async () => {
    const { target, sequences } = await withIssued(true)
    const [first, second] = [await sequences.reserve(group, 60), await sequences.reserve(group, 60)]
    await sequences.release(first.token)
    await query(target, LOSE)
    await expect(sequences.reserve(group, 60)).rejects.toMatchObject(LOST)
    expect(await sequences.confirm(second.token)).toMatchObject({ value: 2 })
    await sequences.restart(group, 3)
    expect(await sequences.reserve(group, 60)).toMatchObject({ value: 3 })
  })

  it('starts from the beginning in a new period, as it would have', async () => {
    let at = NOON
    const target = await freshDatabase()
    const { sequences } = openTestNth(target, { now: () => at })
    await sequences.define({ namespace: 'n', name: 's' }, { restartEvery: 'DAY', allowRepeats: true })
    await sequences.next(group, 3)
    await query(target, LOSE)
    at = new Date('2026-11-22T12:00:00Z')
    expect(await sequences.next(group, 1)).toMatchObject({ issued: { value: 1 } })
  })
})
