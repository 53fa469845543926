// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { CounterChange } from '../../src/repository/counters.ts'
import type { Nth } from '../../src/repository/nth.ts'
import { calendarOf, PERIODS, type Period } from '../../src/rules/calendar.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { ofKind } from '../support/model/ofKind.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const RUNS = runSize(2, 12)
const STEPS = 150
const HOUR_MS = 3_600_000

const key = { namespace: 'n', name: 'c' }
const subject = fc.constantFrom('ann', 'bob', 'Ann', 'é', '😀')
const idempotencyKey = fc.constantFrom(undefined, undefined, undefined, 'k1', 'k2')
const change = fc.record(
  {
    oncePer: fc.constantFrom(null, ...PERIODS),
    timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/New_York'),
    minValue: fc.constantFrom(null, 0, 0, 0),
    maxValue: fc.constantFrom(null, 3, 6),
    overflow: fc.constantFrom('REJECT' as const, 'REJECT' as const, 'SATURATE' as const),
  },
  { requiredKeys: [] },
)
const operations = fc.oneof(
  ofKind('countOnce', 24, { subject, idempotencyKey }),
  ofKind('uncount', 12, { subject, idempotencyKey }),
  ofKind('add', 2, { delta: fc.integer({ min: -2, max: 3 }) }),
  ofKind('reset', 3, { to: fc.constantFrom(-1, 0, 0, 0, 1, 3), forgets: fc.boolean() }),
  ofKind('raise', 4, { to: fc.integer({ min: -2, max: 7 }), change: fc.option(change, { nil: undefined }) }),
  ofKind('define', 4, { change }),
  ofKind('delete', 2),
  ofKind('wait', 3, { hours: fc.constantFrom(0.4, 1, 9, 24, 24 * 20) }),
)

type Operation = typeof operations extends fc.Arbitrary<infer Value> ? Value : never
type CountingOperation = Extract<Operation, { kind: 'countOnce' | 'uncount' }>

const UNDEFINED = {
  oncePer: null as Period | null,
  timeZone: 'UTC',
  minValue: null as number | null,
  maxValue: null as number | null,
  overflow: 'REJECT',
}

/** A plain map of one counter. What a call returned is kept as it was returned. */
class Model {
  at = Date.parse('2026-03-27T22:00:00Z')
  value = 0
  /** Whether it was never written or defined. */
  isNew = true
  definition = UNDEFINED
  readonly counted = new Map<string, CounterChange>()
  readonly replays = new Map<string, unknown>()

  placeOf(subject: string): string {
    const { oncePer, timeZone } = this.definition
    const start = oncePer && calendarOf(timeZone).bucketAt(oncePer, this.at).start
    return `${oncePer} ${start} ${subject}`
  }

  /** The value after an addition of 1 or -1; undefined: refused. */
  valueAfter(delta: number): number | undefined {
    const { minValue, maxValue, overflow } = this.definition
    const value = this.value + delta
    if (value >= (minValue ?? -Infinity) && value <= (maxValue ?? Infinity)) return value
    const isBeyond = delta > 0 ? value > (maxValue ?? Infinity) : value < (minValue ?? -Infinity)
    if (overflow === 'REJECT') return undefined
    return isBeyond ? Math.min(maxValue ?? Infinity, Math.max(minValue ?? -Infinity, value)) : value
  }
}

/** What is compared of a change. */
function shown({ value, previousValue, appliedDelta, valuesIn, at }: CounterChange) {
  return { value, previousValue, appliedDelta, valuesIn, at }
}

it('subjects: agree with a plain map, through two processes, over changes of the hour, day and zone', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ operation: operations, process: fc.nat({ max: 1 }) }), {
        minLength: STEPS,
        maxLength: STEPS,
      }),
      async (steps) => {
        const model = new Model()
        const target = await freshDatabase()
        const now = () => new Date(model.at)
        const processes = upTo(2).map(() => openTestNth(target, { now }).counters)
        for (const { operation, process } of steps) {
          const counters = processes[process]
          if (!counters) throw new Error('There are two')
          const what = await check(model, counters, operation)
          seen.set(what, (seen.get(what) ?? 0) + 1)
          expect(await counters.read(key)).toMatchObject({ value: model.value })
          const first = model.counted.get(model.placeOf('ann'))
          const read = await processes[1 - process]?.changeOf(key, 'ann')
          expect(read && shown(read)).toEqual(first ? { ...shown(first), appliedDelta: 0 } : null)
        }
      },
    ),
    { numRuns: RUNS, endOnFailure: true },
  )
  const rare = [
    ...['counted', 'already counted', 'refused', 'replayed', 'uncounted', 'not counted'],
    ...['forgotten', 'reset refused', 'raised', 'not raised', 'raise refused'],
  ]
  if (meetsRareCases()) for (const what of rare) expect([what, seen.has(what)]).toEqual([what, true])
})

async function check(model: Model, counters: Nth['counters'], operation: Operation): Promise<string> {
  switch (operation.kind) {
    case 'wait':
      model.at += operation.hours * HOUR_MS
      break
    case 'delete':
      await counters.delete(key)
      model.value = 0
      model.isNew = true
      model.definition = UNDEFINED
      model.counted.clear()
      break
    case 'reset': {
      const { to, forgets } = operation
      const after = await counters.reset(key, to, {}, {}, forgets).catch(() => undefined)
      if (!after) return 'reset refused'
      model.value = after.value
      model.isNew = false
      if (!forgets) break
      const wereCounted = model.counted.size > 0
      model.counted.clear()
      return wereCounted ? 'forgotten' : 'nobody forgotten'
    }
    case 'add': {
      const after = await counters.incrementBy(key, operation.delta).catch(() => undefined)
      if (after) model.value = after.value
      if (after) model.isNew = false
      break
    }
    case 'raise':
      return checkRaise(model, counters, operation)
    case 'define': {
      const after = await counters.define(key, operation.change).catch(() => undefined)
      if (after) model.definition = { ...model.definition, ...operation.change }
      if (after) model.isNew = false
      break
    }
    default:
      return checkCounting(model, counters, operation)
  }
  return operation.kind
}

/** The subjects that have counted stay counted. */
async function checkRaise(
  model: Model,
  counters: Nth['counters'],
  { to, change = {} }: Extract<Operation, { kind: 'raise' }>,
): Promise<string> {
  const { isNew } = model
  const { minValue, maxValue } = model.definition
  const bounds = isNew ? { minValue, maxValue, ...change } : { minValue, maxValue }
  const isWithin = to >= (bounds.minValue ?? -Infinity) && to <= (bounds.maxValue ?? Infinity)
  const raised = counters.raise(key, to, change)
  if (!isNew && to <= model.value) {
    expect(await raised).toMatchObject({ value: model.value, previousValue: model.value, isNew: undefined })
    return 'not raised'
  }
  if (!isWithin) {
    await expect(raised).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
    return 'raise refused'
  }
  const previousValue = model.value
  expect(await raised).toMatchObject({ value: to, previousValue, ...(isNew && { isNew }) })
  model.value = to
  model.isNew = false
  if (isNew) model.definition = { ...model.definition, ...change }
  return isNew ? 'raised anew' : 'raised'
}

async function checkCounting(
  model: Model,
  counters: Nth['counters'],
  operation: CountingOperation,
): Promise<string> {
  const { kind, subject, idempotencyKey } = operation
  const request = [kind, subject]
  // A key belongs to one request.
  const unique = idempotencyKey && `${idempotencyKey} ${request}`
  const claim = unique === undefined ? undefined : claimOf('n', unique, request)
  const done = await counters[kind](key, subject, { claim }).catch((error: { code: string }) => error.code)
  const replay = unique === undefined ? undefined : model.replays.get(unique)
  const result = done && typeof done === 'object' ? shown(done) : done
  if (replay !== undefined) {
    expect(result).toEqual(replay)
    return 'replayed'
  }
  const place = model.placeOf(subject)
  const first = model.counted.get(place)
  const keep = <Outcome extends string>(outcome: Outcome): Outcome => {
    if (unique !== undefined && typeof done !== 'string') model.replays.set(unique, result)
    return outcome
  }
  if (kind === 'countOnce' && first) {
    expect(done).toEqual(
      expect.objectContaining({ ...shown(first), appliedDelta: 0, isAlreadyCounted: true }),
    )
    return keep('already counted')
  }
  if (kind === 'uncount' && !first) {
    expect(done).toBeNull()
    return keep('not counted')
  }
  const value = kind === 'uncount' ? (model.valueAfter(-1) ?? model.value) : model.valueAfter(1)
  if (value === undefined) {
    expect(done).toBe('LIMIT_REACHED')
    return keep('refused')
  }
  if (done === null || typeof done === 'string') throw new Error(`Expected ${value}, got ${done}`)
  const appliedDelta = value - model.value
  expect(done).toMatchObject({ value, previousValue: model.value, appliedDelta, isAlreadyCounted: false })
  model.value = value
  model.isNew = false
  if (kind === 'uncount') {
    model.counted.delete(place)
    return keep(appliedDelta === 0 ? 'nothing left to subtract' : 'uncounted')
  }
  if (appliedDelta === 0) return keep('nothing left')
  model.counted.set(place, done)
  return keep('counted')
}
