import { expect, it } from 'vitest'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const NEXT = `mutation($name: String! = "ticket", $group: String! = "", $count: Int! = 1) {
  nextInSequence(name: $name, group: $group, count: $count) {
    value formatted count step lastValue values formattedValues at
    group { name lastValue lastFormatted nextValue nextFormatted updatedAt sequence { name createdAt } }
  }
}`

it('nextInSequence: numbers the tickets of two boards', async () => {
  const { ask } = await startService()
  const formatted = []
  for (const group of ['MYBOARD', 'MYBOARD', 'OTHER', 'MYBOARD', 'OTHER']) {
    formatted.push((await ask(NEXT, { group })).nextInSequence.formatted)
  }
  expect(formatted).toEqual(['MYBOARD-1', 'MYBOARD-2', 'OTHER-1', 'MYBOARD-3', 'OTHER-2'])
})

it('nextInSequence: issues blocks without gaps, listed up to 10 000 numbers', async () => {
  const { ask } = await startService()
  const { nextInSequence: three } = await ask(NEXT, { group: 'B', count: 3 })
  expect(three).toMatchObject({
    value: 1,
    count: 3,
    step: 1,
    lastValue: 3,
    values: [1, 2, 3],
    formattedValues: ['B-1', 'B-2', 'B-3'],
    group: {
      name: 'B',
      lastValue: 3,
      lastFormatted: 'B-3',
      nextValue: 4,
      nextFormatted: 'B-4',
      updatedAt: three.at,
    },
  })
  const { nextInSequence: many } = await ask(NEXT, { group: 'B', count: 2000 })
  expect([many.values.length, many.values.at(-1), many.formattedValues.at(-1)]).toEqual([
    2000,
    2003,
    'B-2003',
  ])
  const { nextInSequence: most } = await ask(NEXT, { group: 'B', count: 1_000_000 })
  expect(most).toMatchObject({ value: 2004, lastValue: 1_002_003, values: null, formattedValues: null })
})

it.each([0, -1, 1_000_001])('nextInSequence: refuses a block of %i', async (count) => {
  const { refusal } = await startService()
  const limit = count < 1 ? 1 : 1_000_000
  expect(await refusal(NEXT, { count })).toEqual({ code: 'BAD_USER_INPUT', argument: 'count', limit })
})

it('sequence: is shown where it was never used', async () => {
  const { ask } = await startService()
  const { sequence } = await ask(
    '{ sequence(name: "new") { name namespace { name timeZone } createdAt group(name: "g") { name lastValue lastFormatted nextValue nextFormatted updatedAt } } }',
  )
  expect(sequence).toEqual({
    name: 'new',
    namespace: { name: 'default', timeZone: 'UTC' },
    createdAt: null,
    group: {
      name: 'g',
      lastValue: null,
      lastFormatted: null,
      nextValue: 1,
      nextFormatted: 'g-1',
      updatedAt: null,
    },
  })
})

it('nextInSequence: issues nothing from the row of a lost group that had the same id', async () => {
  const target = await freshDatabase()
  const key = { namespace: 'n', sequence: 's', group: 'g' }
  await openTestNth(target).sequences.next(key, 1)
  await query(target, 'update sequence_value set identity = identity + 1')
  const { sequences } = openTestNth(target, { timeoutMs: 1000 })
  await expect(sequences.next(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(await query(target, 'select value from sequence_value')).toEqual([{ value: 1 }])
})
