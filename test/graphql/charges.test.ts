import { expect, it, vi } from 'vitest'
import { Gate } from '../../src/graphql/gate.ts'
import { startService } from '../support/server/service.ts'

it('charges a read of a field as much outside of lists as for an item of one', async () => {
  const { ask, post } = await startService()
  await ask(
    'mutation { increment(name: "c", subject: "s") { value } nextInSequence(name: "s", group: "g", subject: "s") { value } }',
  )
  const costOf = async (query: string) => {
    const { body } = await post(JSON.stringify({ query, extensions: { cost: true } }))
    expect(body.errors).toBeUndefined()
    return (body.extensions as { cost: { values: number } }).cost.values
  }
  /** Of a field of a counter, or below one of a sequence, in comparison with the cheapest. */
  const counterCost = async (field: string) =>
    (await costOf(`{ counter(name: "c") { ${field} } }`)) - (await costOf('{ counter(name: "c") { value } }'))
  const sequenceCost = async (field: string) =>
    (await costOf(`{ sequence(name: "s") { ${field} } }`)) -
    (await costOf('{ sequence(name: "s") { name } }'))
  const costs = {
    valueIn: await counterCost('valueIn(period: DAY)'),
    history: await counterCost('history(period: DAY, last: 1) { value }'),
    changeOf: await counterCost('changeOf(subject: "s") { value }'),
    place: await counterCost('place'),
    twoHistories: await counterCost(
      'history(period: DAY, last: 1) { value } week: history(period: DAY, last: 7) { value }',
    ),
    group: await sequenceCost('group(name: "g") { lastValue }'),
    groups: await sequenceCost('group(name: "g") { lastValue } other: group(name: "h") { lastValue }'),
    sequence: await sequenceCost('group(name: "g") { sequence { name } }'),
    numbersOf: await sequenceCost('group(name: "g") { numbersOf(subject: "s") { value } }'),
  }
  expect(costs).toEqual({
    valueIn: 22,
    history: 7,
    changeOf: 22,
    place: 20,
    twoHistories: 26,
    group: 10,
    groups: 20,
    sequence: 15,
    numbersOf: 32,
  })
  // The list charges the field itself as well, and the item of a history its buckets when it is read.
  const listed = (await costOf('{ counters(names: ["c"]) { changeOf(subject: "s") { value } } }')) - 4
  expect(listed).toBe(costs.changeOf + 2)
})

it('has no turn for an item of a list besides those of the list', async () => {
  const { ask } = await startService()
  const names = Array.from({ length: 100 }, (_, index) => `s${index}`)
  const ids = names.map((name) => Buffer.from(`Sequence:default\n${name}`).toString('base64url'))
  const turns = vi.spyOn(Gate.prototype, 'untilRoom')
  await ask(`{ nodes(ids: ${JSON.stringify(ids)}) { ... on Sequence { group { lastValue } } } }`)
  expect(turns.mock.calls.length).toBeLessThanOrEqual(3)
})
