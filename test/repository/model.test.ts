// @module-tag random
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Nth } from '../../src/repository/nth.ts'
import { UNBOUNDED } from '../../src/rules/counter.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { finds, search } from '../history/search.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { emptyState, type ModelOperation, type ModelState, rowOf, step } from '../support/model/model.ts'
import { execute, keyOf, observe, operations } from '../support/model/operations.ts'
import { createRandom, meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const OPERATIONS = runSize(500, 1200)

/** A clock that stands still: no period ends. */
const start = new Date()
const STILL = { now: () => start }

const end = Number.MAX_SAFE_INTEGER

const number = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -100, max: 100 }) },
  { weight: 2, arbitrary: fc.maxSafeInteger() },
  { weight: 1, arbitrary: fc.constantFrom(0, end, -end, end - 1, 1 - end) },
)

const name = fc.constantFrom('a', 'A', 'á', 'a ', "'", '😀')

const wide: fc.Arbitrary<ModelOperation> = fc.oneof(
  fc.record({ kind: fc.constant('add' as const), name, delta: number }),
  fc.record({ kind: fc.constant('reset' as const), name, to: number }),
  fc.record({ kind: fc.constant('raise' as const), name, to: number }),
)

const slots = fc.constantFrom(undefined, null, 1, 2, 7)

/** Read one after another, values that are spread over slots are exact, too. */
const spread: fc.Arbitrary<ModelOperation> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('define' as const),
      name: fc.constantFrom('a', 'b', 'c'),
      change: fc.record({
        slots,
        minValue: fc.constantFrom(undefined, null),
        maxValue: fc.constantFrom(undefined, null),
      }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('raise' as const),
      name: fc.constantFrom('a', 'b', 'c'),
      to: number,
      change: fc.record({ slots }),
    }),
  },
)

const steps = fc.oneof(
  { weight: 6, arbitrary: operations.map((operation) => ({ kind: 'counter' as const, operation })) },
  { weight: 6, arbitrary: wide.map((operation) => ({ kind: 'counter' as const, operation })) },
  { weight: 2, arbitrary: spread.map((operation) => ({ kind: 'counter' as const, operation })) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('resetAll' as const),
      prefix: fc.constantFrom('', 'a', 'b'),
      to: number,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('list' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('next' as const),
      name,
      group: fc.constantFrom('', 'g', 'G'),
      count: fc.integer({ min: 1, max: 1_000_000 }),
      key: fc.option(fc.constantFrom('s1', 's2', 's3'), { nil: undefined, freq: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constant({ kind: 'next' as const, name: 'a', group: 'g', count: 3, key: 's4' }),
  },
)

type Step = typeof steps extends fc.Arbitrary<infer Value> ? Value : never

it(`agrees with a model in memory over ${OPERATIONS} random operations`, async () => {
  const { counters, leaderboard, sequences } = openTestNth(await freshDatabase(), STILL)
  let state: ModelState = emptyState
  const issued = new Map<string, number>()
  const taken = new Map<string, { request: string; first: number }>()
  const seen = new Map<string, number>()
  const length = 100
  let run = 0

  function see(what: string): void {
    seen.set(what, (seen.get(what) ?? 0) + 1)
  }

  async function resetAll(prefix: string, to: number): Promise<void> {
    const summary = { resetCount: 0, refusedCount: 0 }
    for (const name of Object.keys(state.rows)) {
      if (!name.startsWith(prefix)) continue
      const [after, outcome] = step(state, { kind: 'reset', name, to })
      state = after
      summary['code' in outcome ? 'refusedCount' : 'resetCount'] += 1
    }
    expect(await counters.resetAll('n', prefix, to)).toEqual(summary)
  }

  async function list(): Promise<void> {
    const { items: listed } = await counters.list('n', { prefix: '', limit: 100, fromEnd: false })
    const ranked = await leaderboard.list('n', { order: 'VALUE_DESC', limit: 100, fromEnd: false })
    const expected = Object.entries(state.rows).map(([name, { value }]) => ({ name, value }))
    const byName = expected.toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
    expect(listed.map(({ name, value }) => ({ name, value }))).toEqual(byName)
    expect(ranked.map(({ value }) => value)).toEqual(
      expected.map(({ value }) => value).toSorted((a, b) => b - a),
    )
    expect(new Set(ranked.map(({ name, value }) => `${value} ${name}`))).toEqual(
      new Set(expected.map(({ name, value }) => `${value} ${name}`)),
    )
  }

  async function next({ name, group, count, key }: Extract<Step, { kind: 'next' }>): Promise<void> {
    const place = `${name}/${group}`
    const request = [place, count]
    const earlier = key === undefined ? undefined : taken.get(key)
    const claim = key === undefined ? undefined : claimOf('n', key, request)
    const answer = sequences.next({ namespace: 'n', sequence: name, group }, count, { claim })
    if (earlier && earlier.request !== String(request)) {
      await expect(answer).rejects.toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED' })
      return see('reused by a sequence')
    }
    const first = earlier?.first ?? (issued.get(place) ?? 0) + 1
    if (!earlier) issued.set(place, first + count - 1)
    if (key !== undefined) taken.set(key, { request: String(request), first })
    if (earlier) see('replayed by a sequence')
    const lastValue = first + count - 1
    expect(await answer).toMatchObject({
      issued: { value: first, lastValue, count },
      isReplayed: earlier !== undefined,
    })
  }

  async function check(one: Step): Promise<void> {
    run += 1
    if (one.kind === 'resetAll') return resetAll(one.prefix, one.to)
    if (one.kind === 'list') return list()
    if (one.kind === 'next') return next(one)
    const [after, outcome] = step(state, one.operation)
    expect(await execute(counters, one.operation)).toEqual(outcome)
    state = after
    const isNew = 'answers' in outcome && outcome.answers.some((answer) => answer.isNew)
    const what = isNew ? 'raised anew' : one.operation.kind
    see('code' in outcome ? outcome.code : outcome.isReplayed ? 'replayed' : what)
    const { name } = { name: 'a', ...one.operation }
    expect(await present(counters, name)).toEqual(held(state, name))
  }

  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: length, maxLength: length }), async (some) => {
      for (const one of some) await check(one)
    }),
    // A failed run can't be repeated on the same database, so it isn't shrunk.
    { numRuns: OPERATIONS / length, endOnFailure: true },
  )
  expect(run).toBe(OPERATIONS)
  const outcomes = [
    'add',
    'many',
    'reset',
    'raise',
    'raised anew',
    'define',
    'delete',
    'LIMIT_REACHED',
    'OUT_OF_RANGE',
    'BAD_USER_INPUT',
  ]
  const repeats = ['replayed', 'IDEMPOTENCY_KEY_REUSED', 'replayed by a sequence', 'reused by a sequence']
  for (const what of meetsRareCases() ? [...outcomes, ...repeats] : [])
    expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true])
})

it.each([
  ['', 0, runSize(5, 15)],
  [', while connections are cut', 0.05, runSize(2, 5)],
])(
  'gives answers that some order explains, whatever two processes do at the same time%s',
  async (_, share, numRuns) => {
    const target = await freshDatabase()
    const random = createRandom()
    const deliveryOf = () => {
      if (random.fraction() > share) return 'passes'
      return random.fraction() < 0.5 ? 'is cut off' : 'stays unanswered'
    }
    const cut = await startProxy(target, deliveryOf)
    const processes = [openTestNth(share > 0 ? cut : target, STILL), openTestNth(target, STILL)]
    const length = 30
    let clock = 0
    let state: ModelState = emptyState
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ operation: operations, process: fc.nat({ max: 1 }), delay: fc.nat({ max: 3 }) }),
          { minLength: length, maxLength: length },
        ),
        async (requests) => {
          const observed = await Promise.all(
            requests.map(async ({ operation, process, delay }) => {
              for (const _ of upTo(delay)) await processes[0]?.counters.read(keyOf('a'))
              const counters = processes[process]?.counters
              if (!counters) throw new Error('There are two')
              return observe(counters, operation, () => ++clock)
            }),
          )
          const names = ['a', 'b', 'c']
          const reader = processes[0]?.counters
          const rows = await Promise.all(names.map((name) => reader && present(reader, name)))
          const isFound = (end: ModelState) =>
            isDeepStrictEqual(
              rows,
              names.map((name) => held(end, name)),
            )
          const steps = observed.flatMap(({ step }) => step ?? [])
          expect(steps).toHaveLength(requests.length)
          const verdict = search([...steps, finds(isFound, clock)], state)
          const told = observed.map(({ outcome, step }, index) => ({ ...requests[index], outcome, ...step }))
          expect(verdict.kind, JSON.stringify({ state, told, rows })).toBe('linearizable')
          // The next ones begin with what these have left.
          if (verdict.kind === 'linearizable') state = verdict.end
        },
      ),
      { numRuns, endOnFailure: true },
    )
  },
)

/** What a counter holds. */
async function present(counters: Nth['counters'], name: string) {
  const { value, definition } = await counters.read(keyOf(name))
  const { minValue, maxValue, overflow, slots } = definition ?? UNBOUNDED
  const added = await counters.valueIn(await counters.read(keyOf(name)), 'DAY')
  return { value, minValue, maxValue, overflow, slots, added }
}

/** The same of a model's counter. */
function held({ rows }: ModelState, name: string) {
  const { value, min, max, saturates, slots, added } = rowOf(rows, name)
  const overflow = saturates ? 'SATURATE' : 'REJECT'
  return { value, minValue: min, maxValue: max, overflow, slots, added }
}
