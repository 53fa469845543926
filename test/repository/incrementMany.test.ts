import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const MANY = `mutation($changes: [CounterDeltaInput!]!) {
  incrementMany(changes: $changes) { value previousValue appliedDelta counter { name value } }
}`

function namesOf(count: number): string[] {
  return upTo(count).map((index) => `c${index}`)
}

it('incrementMany: answers in the order given, the same counter again included', async () => {
  const { ask } = await startService()
  const changes = [{ name: 'b', delta: 2 }, { name: 'a' }, { name: 'b', delta: -3 }, { name: 'a', delta: 0 }]
  expect((await ask(MANY, { changes })).incrementMany).toEqual([
    { value: 2, previousValue: 0, appliedDelta: 2, counter: { name: 'b', value: -1 } },
    { value: 1, previousValue: 0, appliedDelta: 1, counter: { name: 'a', value: 1 } },
    { value: -1, previousValue: 2, appliedDelta: -3, counter: { name: 'b', value: -1 } },
    { value: 1, previousValue: 1, appliedDelta: 0, counter: { name: 'a', value: 1 } },
  ])
  const { counters } = await ask('{ counters(names: ["a", "b"]) { value } }')
  expect(counters).toEqual([{ value: 1 }, { value: -1 }])
})

it('incrementMany: changes nothing if one change is refused, and says which one', async () => {
  const { ask, refusal } = await startService()
  await ask('mutation { defineCounter(name: "rare", definition: { maxValue: 2 }) { maxValue } }')
  await ask(MANY, { changes: [{ name: 'rare' }, { name: 'a', delta: 7 }] })
  const changes = [{ name: 'a' }, { name: 'rare' }, { name: 'b' }, { name: 'rare' }]
  expect(await refusal(MANY, { changes })).toEqual({ code: 'LIMIT_REACHED', limit: 2, value: 1, index: 3 })
  expect(await refusal(MANY, { changes: [{ name: 'a', delta: Number.MAX_SAFE_INTEGER }] })).toEqual({
    code: 'OUT_OF_RANGE',
    value: 7,
    index: 0,
  })
  const { counters } = await ask('{ counters(names: ["a", "b", "rare"]) { value createdAt } }')
  expect(counters).toMatchObject([{ value: 7 }, { value: 0, createdAt: null }, { value: 1 }])
})

it('incrementMany: refuses a cart in the transaction that finds the bound, whatever else is in it', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define({ namespace: 'n', name: 'rare' }, { maxValue: 1 })
  const cart = () =>
    counters.incrementMany(
      'n',
      ['a', 'rare', 'b'].map((name) => ({ name, delta: 1 })),
    )
  await cart()
  const statements = collectStatements()
  await expect(cart()).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
  expect(statements).toHaveLength(2)
})

it('incrementMany: refuses one cart without harm to others in the same flush', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define({ namespace: 'n', name: 'rare' }, { maxValue: 10 })
  const carts = await Promise.all(
    upTo(25).map(() =>
      counters
        .incrementMany('n', [
          { name: 'a', delta: 1 },
          { name: 'rare', delta: 1 },
          { name: 'b', delta: 2 },
        ])
        .then(
          (changes) => changes.map(({ value }) => value),
          ({ code, details }) => [code, details.index],
        ),
    ),
  )
  expect(carts).toEqual([
    ...upTo(10).map((index) => [index, index, 2 * index]),
    ...upTo(15).map(() => ['LIMIT_REACHED', 1]),
  ])
})

it.each([
  ['no change', [], { argument: 'changes', limit: 1 }],
  ['1 001 changes', namesOf(1001).map((name) => ({ name })), { argument: 'changes', limit: 1000 }],
  ['a long name', [{ name: 'a'.repeat(192) }], { argument: 'changes.0.name', limit: 191 }],
  ['a fraction', [{ name: 'a' }, { name: 'a', delta: 0.5 }], { argument: 'changes.1.delta' }],
  ['a change of nothing', [{ delta: 1 }], { argument: 'changes.0' }],
  ['null', [null], { argument: 'changes.0' }],
])('incrementMany: refuses %s', async (_, changes, details) => {
  const { ask, refusal } = await startService()
  for (const __ of upTo(3)) {
    expect(await refusal(MANY, { changes })).toEqual({ code: 'BAD_USER_INPUT', ...details })
  }
  expect(await ask('{ counter(name: "a") { value } }')).toEqual({ counter: { value: 0 } })
})

it('incrementMany: takes 1 000 changes, as variables and as literals', async () => {
  const { ask } = await startService()
  const names = namesOf(1000)
  const literals = names.map((name) => `{ name: "${name}" }`).join(' ')
  for (const times of upTo(3)) {
    const { incrementMany } =
      times % 2
        ? await ask(MANY, { changes: names.map((name) => ({ name })) })
        : await ask(`mutation { incrementMany(changes: [${literals}]) { value valueIn(period: DAY) } }`)
    expect(incrementMany[999]).toMatchObject({ value: times, ...(times % 2 === 0 && { valueIn: times }) })
    expect(incrementMany.map(({ value }: { value: number }) => value)).toEqual(names.map(() => times))
  }
})

it('incrementMany: refuses lists that would be too long before it counts', async () => {
  const { ask, refusal } = await startService()
  const fields = upTo(60)
    .map((index) => `a${index}: counter { value name }`)
    .join(' ')
  const changes = namesOf(1000).map((name) => ({ name }))
  const document = `mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { ${fields} } }`
  expect(await refusal(document, { changes })).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
  expect(await ask('{ counter(name: "c1") { value } }')).toEqual({ counter: { value: 0 } })
})
