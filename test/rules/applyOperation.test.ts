// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RowState } from '../../src/rules/addition.ts'
import type { Definition } from '../../src/rules/counter.ts'
import { apply, applyAll } from '../../src/rules/counterOperations.ts'
import { NthError } from '../../src/rules/errors.ts'
import { type ModelState, rowOf, step } from '../support/model/model.ts'
import { PLAIN } from '../support/model/plain.ts'
import { runSize } from '../support/random.ts'

const RUNS = runSize(500, 2000)

const MAX = Number.MAX_SAFE_INTEGER

const number = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.maxSafeInteger(),
  fc.constantFrom(MAX, -MAX, MAX - 1, 1 - MAX),
)

function rowWith(value: number): RowState {
  return Object.assign(new RowState(PLAIN), { value, periodTotals: { DAY: 0 } })
}

const AT = new Date(0)

it('apply: refuses to count on from a value that is out of range itself', () => {
  const row = rowWith(2 ** 53)
  expect(apply(row, { kind: 'add', delta: -1 }, AT)).toMatchObject({ code: 'OUT_OF_RANGE' })
  apply(row, { kind: 'set', to: 0 }, AT)
  expect(row.value).toBe(0)
})

const bound = fc.option(fc.oneof(fc.integer({ min: -5, max: 5 }), fc.constantFrom(MAX, -MAX)))

it('applyAll: applies several additions as a model does, or none of them', () => {
  const seen = new Set<string>()
  const names = ['a', 'b']
  const bounded = fc.record({
    value: number,
    min: bound,
    max: bound,
    saturates: fc.boolean(),
    slots: fc.constant(1),
    added: fc.constant(0),
  })
  const fitting = bounded.filter(
    ({ value, min, max }) => (min === null || value >= min) && (max === null || value <= max),
  )
  const changes = fc.array(fc.record({ name: fc.constantFrom(...names), delta: number }), {
    minLength: 1,
    maxLength: 9,
  })
  fc.assert(
    fc.property(fitting, fitting, changes, (a, b, requested) => {
      const before: ModelState = { rows: { a, b }, keys: {} }
      const [after, outcome] = step(before, { kind: 'many', changes: requested })
      const rows = new Map(
        names.map((name) => {
          const { value, min, max, saturates } = rowOf(before.rows, name)
          const bounds = {
            minValue: min,
            maxValue: max,
            overflow: saturates ? 'SATURATE' : 'REJECT',
          } as const
          return [name, { ...rowWith(value), definition: { ...PLAIN, ...bounds } }]
        }),
      )
      const changes = requested.flatMap(({ name, delta }) => {
        const row = rows.get(name)
        return row ? [{ row, operation: { kind: 'add', delta } as const }] : []
      })
      const issued = applyAll(changes, AT)
      seen.add(issued instanceof NthError ? issued.code : 'done')
      if (issued instanceof NthError) {
        expect({ code: issued.code, ...issued.details }).toEqual(outcome)
      } else {
        const answers = issued.map(({ definition, valuesIn, ...rest }) => ({ ...rest, added: valuesIn?.DAY }))
        expect({ answers, isReplayed: false }).toEqual(outcome)
      }
      for (const [name, row] of rows) {
        const count = requested.filter((change) => change.name === name).length
        expect(row.value).toBe(rowOf(after.rows, name).value)
        expect(Number(row.added)).toBe(rowOf(after.rows, name).added)
        expect(row.periodTotals).toEqual({ DAY: rowOf(after.rows, name).added })
        expect(row.counted).toBe(issued instanceof NthError ? 0 : count)
      }
    }),
    { numRuns: RUNS },
  )
  expect([...seen].toSorted()).toEqual(['LIMIT_REACHED', 'OUT_OF_RANGE', 'done'])
})

it('uncount: takes a subject back where nothing can be subtracted, and subtracts nothing', () => {
  const first = { value: 1, at: AT, valuesIn: {} }
  const rowAt = (value: number, definition: Partial<Definition>, total = 0): RowState => ({
    ...rowWith(value),
    definition: { ...PLAIN, ...definition },
    periodTotals: { DAY: total },
    subjects: new Map([['ann', first]]),
  })
  const rows = [
    rowAt(0, { minValue: 0 }),
    rowAt(0, { minValue: 0, overflow: 'SATURATE' }),
    rowAt(-MAX, {}),
    rowAt(5, {}, -MAX),
  ]
  for (const row of rows) {
    const { value, periodTotals } = row
    const done = apply(row, { kind: 'uncount', subject: 'ann' }, AT)
    expect(done).toMatchObject({ value, previousValue: value, appliedDelta: 0, valuesIn: periodTotals })
    expect(done).not.toHaveProperty('isUncounted')
    // It is written, but readers see no new state.
    expect(row).toMatchObject({ value, periodTotals, added: 0n, counted: 1, raised: 0 })
    expect(row.subjects?.size).toBe(0)
    expect(apply(row, { kind: 'uncount', subject: 'ann' }, AT)).toMatchObject({ isUncounted: true })
  }
})

it('reset(forgetSubjects:): forgets subjects only if it is applied', () => {
  const row = { ...rowWith(3), definition: { ...PLAIN, minValue: 0 } }
  const forgetting = { kind: 'set', newSalt: 'ab' } as const
  expect(apply(row, { ...forgetting, to: -1 }, AT)).toMatchObject({ code: 'LIMIT_REACHED' })
  expect(apply(row, { ...forgetting, to: 1, expected: { value: 2 } }, AT)).toMatchObject({ code: 'CONFLICT' })
  expect(apply(row, { kind: 'set', to: 2 }, AT)).toMatchObject({ value: 2 })
  expect(row.newSalt).toBeUndefined()
  expect(apply(row, { ...forgetting, to: 1 }, AT)).toMatchObject({ value: 1, previousValue: 2 })
  expect(row.newSalt).toBe('ab')
})

it.each<[string, Partial<RowState>, number, Partial<Definition>, unknown]>([
  ['to more', { value: 4 }, 5, {}, 5],
  ['to the same', { value: 4 }, 4, {}, 'kept'],
  ['to less', { value: 4 }, 3, {}, 'kept'],
  ['from below 0 to 0', { value: -4 }, 0, {}, 0],
  ['to 0 if there is none', { isNew: true }, 0, {}, 0],
  ['to below 0 if there is none', { isNew: true }, -4, {}, -4],
  ['to the end of the range', { value: -MAX }, MAX, {}, MAX],
  ['to the other end of the range if there is none', { isNew: true }, -MAX, {}, -MAX],
  ['to a bound', { value: 4 }, 9, { maxValue: 9 }, 9],
  ['beyond a bound', { value: 4 }, 10, { maxValue: 9 }, 'LIMIT_REACHED'],
  ['beyond a bound that saturates', { value: 4 }, 10, { maxValue: 9, overflow: 'SATURATE' }, 'LIMIT_REACHED'],
  ['to less, which is out of bounds', { value: 4 }, 0, { minValue: 1 }, 'kept'],
  ['to more from out of bounds', { value: -4 }, 0, { minValue: 1 }, 'LIMIT_REACHED'],
])('raise: raises a counter %s, and no total of a period', (_, before, to, definition, expected) => {
  const row = { ...rowWith(0), ...before, definition: { ...PLAIN, ...definition }, periodTotals: { DAY: 7 } }
  const { value: previousValue, isNew } = row
  const result = apply(row, { kind: 'raise', to }, AT)
  const isApplied = expected === to
  if (isApplied)
    expect(result).toMatchObject({ value: to, previousValue, appliedDelta: null, valuesIn: { DAY: 7 } })
  else if (result instanceof NthError) expect(result.code).toBe(expected)
  else expect([expected, result]).toMatchObject(['kept', { value: previousValue, previousValue }])
  const value = isApplied ? to : previousValue
  const written = Number(isApplied)
  expect(row).toMatchObject({ value, periodTotals: { DAY: 7 }, added: 0n, counted: written, raised: written })
  expect(result).toEqual(
    isNew ? expect.objectContaining({ isNew }) : expect.not.objectContaining({ isNew: true }),
  )
})

it('raise: raises a counter that is not there with a definition, which the value must suit, and no other', () => {
  const change = { minValue: 5, maxValue: 9 }
  const row = { ...rowWith(0), isNew: true }
  expect(apply(row, { kind: 'raise', to: 4, change }, AT)).toMatchObject({ code: 'LIMIT_REACHED' })
  expect(apply(row, { kind: 'raise', to: 7, change: { minValue: 8, maxValue: 5 } }, AT)).toMatchObject({
    code: 'BAD_USER_INPUT',
  })
  expect(row).toMatchObject({ definition: PLAIN, isNew: true, isDefined: false, counted: 0, raised: 0 })
  expect(apply(row, { kind: 'raise', to: 7, change }, AT)).toMatchObject({ value: 7, isNew: true })
  expect(row).toMatchObject({ definition: change, isNew: false, isDefined: true, counted: 1 })
  expect(apply(row, { kind: 'raise', to: 8, change: { maxValue: null } }, AT)).toMatchObject({ value: 8 })
  expect(row).toMatchObject({ definition: change })
})
