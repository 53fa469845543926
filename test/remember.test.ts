import { expect, it } from 'vitest'
import { remember } from '../src/http/connections/remember.ts'

/** A function that notes what it is asked. */
function noting() {
  const asked: string[] = []
  const length = remember((text) => {
    asked.push(text)
    return text.length > 2 ? text.length : undefined
  })
  return { asked, length }
}

it('asks once for each text, also where the answer is none', () => {
  const { asked, length } = noting()
  expect(['abc', 'a', 'abc', 'a'].map(length)).toEqual([3, undefined, 3, undefined])
  expect(asked).toEqual(['abc', 'a'])
})

it('remembers a few short texts, whatever callers send', () => {
  const { asked, length } = noting()
  const long = 'x'.repeat(10_000)
  length(long)
  length(long)
  expect(asked).toEqual([long, long])
  length('first')
  for (let index = 0; index < 1000; index += 1) length(`text ${index}`)
  asked.length = 0
  length('first')
  expect(asked).toEqual(['first'])
})
