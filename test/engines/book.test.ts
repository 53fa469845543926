import { expect, it } from 'vitest'
import { balanceOf } from './book.ts'

const answers = (...spans: [after: number, upTo: number][]) => spans.map(([after, upTo]) => ({ after, upTo }))

it('finds nothing wrong with numbers that are all stored, also if nobody learnt of the last', () => {
  expect(balanceOf({ answers: answers([3, 4], [0, 2], [2, 3]), unknown: 0 }, 4)).toEqual({
    twice: 0,
    lost: 0,
    excess: 0,
  })
  expect(balanceOf({ answers: answers([0, 2], [3, 4]), unknown: 2 }, 5)).toEqual({
    twice: 0,
    lost: 0,
    excess: 0,
  })
})

it('finds numbers that were given twice', () => {
  expect(balanceOf({ answers: answers([0, 3], [2, 4]), unknown: 0 }, 4)).toEqual({
    twice: 1,
    lost: 0,
    excess: 0,
  })
  expect(balanceOf({ answers: answers([0, 4], [1, 2], [2, 3]), unknown: 0 }, 4).twice).toBe(2)
})

it('finds numbers that were given and are not stored', () => {
  expect(balanceOf({ answers: answers([0, 3], [3, 5]), unknown: 9 }, 4)).toEqual({
    twice: 0,
    lost: 1,
    excess: 0,
  })
})

it('finds what is stored and nobody can have requested', () => {
  expect(balanceOf({ answers: answers([0, 3]), unknown: 1 }, 5)).toEqual({ twice: 0, lost: 0, excess: 1 })
})
