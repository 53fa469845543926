// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { apply, applyAll, type RowState } from '../../src/rules/counter.ts'
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
  return {
    value,
    definition: PLAIN,
    periodTotals: { DAY: 0 },
    subjects: undefined,
    counted: 0,
    added: 0n,
    revision: undefined,
    raised: 0,
    isDefined: false,
    isDeleted: false,
    fault: undefined,
  }
}

const AT = new Date(0)

it('refuses to count on from a value that is out of range itself', () => {
  const row = rowWith(2 ** 53)
  expect(apply(row, { kind: 'add', delta: -1 }, AT)).toMatchObject({ code: 'OUT_OF_RANGE' })
  apply(row, { kind: 'set', to: 0 }, AT)
  expect(row.value).toBe(0)
})

const bound = fc.option(fc.oneof(fc.integer({ min: -5, max: 5 }), fc.constantFrom(MAX, -MAX)))

it('applies several additions as a model does, or none of them', () => {
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
