import { expect, it } from 'vitest'
import { Gate } from '../../src/graphql/gate.ts'
import { upTo } from '../support/client/client.ts'
import { startFront } from '../support/server/front.ts'
import { startService } from '../support/server/service.ts'

it('charges: of a field are as high outside of lists as for an item of one', async () => {
  const { ask, post } = await startService()
  await ask(
    'mutation { increment(name: "c", subject: "s") { value } nextInSequence(name: "s", group: "g", subject: "s") { value } }',
  )
  const costOf = async (query: string) => {
    const fragment = 'fragment F on Sequence { group(name: "g") { lastValue } }'
    const document = query.includes('...F') ? `${query} ${fragment}` : query
    const { body } = await post(JSON.stringify({ query: document, extensions: { cost: true } }))
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
    groups: await sequenceCost('...F ... { other: group(name: "h") { lastValue } }'),
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

it('charges: an item of a list has no turn besides those of the list', async () => {
  let turns = 0
  const gate = new (class extends Gate {
    override untilRoom(...work: Parameters<Gate['untilRoom']>) {
      turns += 1
      return super.untilRoom(...work)
    }
  })(10_000)
  const { ask } = await startFront({ gate })
  const ids = upTo(100).map((index) => Buffer.from(`Sequence:default\ns${index}`).toString('base64url'))
  await ask(`{ nodes(ids: ${JSON.stringify(ids)}) { ... on Sequence { group { lastValue } } } }`)
  expect(turns).toBeGreaterThan(0)
  expect(turns).toBeLessThanOrEqual(3)
})
