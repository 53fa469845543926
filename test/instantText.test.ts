import fc from 'fast-check'
import { expect, it } from 'vitest'
import { instantText } from '../src/graphql/instantText.ts'

it('writes every instant as toISOString does', () => {
  fc.assert(
    fc.property(fc.date({ noInvalidDate: true }), (at) => {
      expect(instantText(at)).toBe(at.toISOString())
    }),
    { numRuns: 2000 },
  )
  const year = fc.date({ min: new Date('1970-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
  fc.assert(
    fc.property(year, (at) => {
      expect(instantText(at)).toBe(at.toISOString())
    }),
    { numRuns: 2000 },
  )
})

it('writes no date that is none', () => {
  expect(() => instantText(new Date(Number.NaN))).toThrow(RangeError)
})
