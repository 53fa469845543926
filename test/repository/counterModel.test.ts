import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Nth } from '../../src/repository/nth.ts'
import { UNBOUNDED } from '../../src/rules/counter.ts'
import { freshDatabase } from '../support/database/database.ts'
import { emptyState, type ModelState, rowOf, step } from '../support/model/model.ts'
import { ofKind } from '../support/model/ofKind.ts'
import { execute, keyOf, operations } from '../support/model/operations.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
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

const name = fc.constantFrom('a', 'A', 'á', 'a\u0301', 'a ', "'", '😀')

const wide = fc.oneof(
  ofKind('add', 1, { name, delta: number }),
  ofKind('reset', 1, { name, to: number }),
  ofKind('raise', 1, { name, to: number }),
)

const slots = fc.constantFrom(undefined, null, 1, 2, 7)
const few = fc.constantFrom('a', 'b', 'c')
const unbounded = fc.constantFrom(undefined, null)

/** Read one after another, values that are spread over slots are exact, too. */
const spread = fc.oneof(
  ofKind('define', 3, {
    name: few,
    change: fc.record({ slots, minValue: unbounded, maxValue: unbounded }),
  }),
  ofKind('raise', 1, { name: few, to: number, change: fc.record({ slots }) }),
)

const steps = fc.oneof(
  { weight: 6, arbitrary: operations },
  { weight: 6, arbitrary: wide },
  { weight: 2, arbitrary: spread },
  ofKind('resetAll', 1, { prefix: fc.constantFrom('', 'a', 'b'), to: number }),
  ofKind('list', 1),
)

type Step = typeof steps extends fc.Arbitrary<infer Value> ? Value : never

it(`counters: agree with a model in memory over ${OPERATIONS} random operations`, async () => {
  const { counters, leaderboard } = openTestNth(await freshDatabase(), STILL)
  let state: ModelState = emptyState
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

  async function check(one: Step): Promise<void> {
    run += 1
    if (one.kind === 'resetAll') return resetAll(one.prefix, one.to)
    if (one.kind === 'list') return list()
    const [after, outcome] = step(state, one)
    expect(await execute(counters, one)).toEqual(outcome)
    state = after
    const isNew = 'answers' in outcome && outcome.answers.some((answer) => answer.isNew)
    const what = isNew ? 'raised anew' : one.kind
    see('code' in outcome ? outcome.code : outcome.isReplayed ? 'replayed' : what)
    const { name } = { name: 'a', ...one }
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
  const rare = [
    ...['add', 'many', 'reset', 'raise', 'raised anew', 'define', 'delete', 'replayed'],
    ...['LIMIT_REACHED', 'OUT_OF_RANGE', 'BAD_USER_INPUT', 'IDEMPOTENCY_KEY_REUSED'],
  ]
  for (const what of meetsRareCases() ? rare : [])
    expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true])
})

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
