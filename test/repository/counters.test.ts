import { expect, it } from 'vitest'
import { query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

const BOOKS = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
]

it('increment: returns their own number to each buyer of the five books', async () => {
  const { ask } = await startService()
  for (const name of BOOKS) {
    for (const copy of [1, 2, 3]) {
      const { increment } = await ask(
        'mutation($name: String!) { increment(name: $name, namespace: "booksales") { value previousValue appliedDelta } }',
        { name },
      )
      expect(increment).toEqual({ value: copy, previousValue: copy - 1, appliedDelta: 1 })
    }
  }
  const { incrementBy } = await ask(
    'mutation { incrementBy(name: "Bulldozer", delta: 12, namespace: "booksales") { value } }',
  )
  expect(incrementBy.value).toBe(15)
  const { counters } = await ask(
    'query($names: [String!]!) { counters(names: $names, namespace: "booksales") { value } }',
    { names: BOOKS },
  )
  expect(counters.map(({ value }: { value: number }) => value)).toEqual([3, 3, 15, 3, 3])
})

it('counter: reads 0 for a name that was never written, and creates nothing', async () => {
  const { ask, target } = await startService()
  const { counter } = await ask(
    '{ counter(name: "new", namespace: "n") { name namespace { name timeZone } value createdAt updatedAt } }',
  )
  expect(counter).toEqual({
    name: 'new',
    namespace: { name: 'n', timeZone: 'UTC' },
    value: 0,
    createdAt: null,
    updatedAt: null,
  })
  expect(await query(target, 'select * from namespace')).toEqual([])
})

it.each([
  `it's "quoted"`,
  '\\',
  "\\' or 1=1 -- ",
  '100 %_',
  "'; DROP TABLE counter; --",
  '🦄'.repeat(191),
  '\u{10FFFF}',
  'null',
  '0',
])('increment: treats %j as a plain name', async (name) => {
  const { ask } = await startService()
  const { increment } = await ask(
    'mutation($name: String!) { increment(name: $name, namespace: $name) { value counter { id name namespace { name } } } }',
    { name },
  )
  expect(increment).toMatchObject({ value: 1, counter: { name, namespace: { name } } })
  const { node, namespace } = await ask(
    'query($id: ID!, $name: String!) { node(id: $id) { ... on Counter { name value } } namespace(name: $name) { counters(prefix: $name) { nodes { name } } } }',
    { id: increment.counter.id, name },
  )
  expect(node).toEqual({ name, value: 1 })
  expect(namespace.counters.nodes).toEqual([{ name }])
})

it('createdAt, updatedAt: returns when a counter was created and last changed, in UTC with milliseconds', async () => {
  const { ask } = await startService()
  const increment = 'mutation { increment(name: "c") { at counter { createdAt updatedAt } } }'
  const { increment: first } = await ask(increment)
  expect(first.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(Math.abs(Date.parse(first.at) - Date.now())).toBeLessThan(60_000)
  expect(first.counter).toEqual({ createdAt: first.at, updatedAt: first.at })
  const { increment: second } = await ask(increment)
  expect(second.counter).toEqual({ createdAt: first.at, updatedAt: second.at })
  expect((await ask('{ counter(name: "c") { createdAt updatedAt } }')).counter).toEqual(second.counter)
})

it('mutations: shows a read in a document the writes before it', async () => {
  const { ask } = await startService()
  const data = await ask(`mutation {
    a: increment(name: "c") { counter { value createdAt } }
    b: increment(name: "c") { counter { value createdAt } }
    c: reset(name: "c", to: 9) { counter { value } }
  }`)
  expect([data.a.counter.value, data.b.counter.value, data.c.counter.value]).toEqual([1, 2, 9])
  expect(data.b.counter.createdAt).toBe(data.a.counter.createdAt)
})

it('mutations: returns the results of changes beside a refused one', async () => {
  const { send } = await startService()
  const answer = await send(`mutation {
    a: increment(name: "c") { value }
    b: incrementBy(name: "c", delta: ${Number.MAX_SAFE_INTEGER}) { value }
    c: increment(name: "c") { value }
  }`)
  expect(answer.data).toEqual({ a: { value: 1 }, b: null, c: { value: 2 } })
  expect(answer.errors).toEqual([
    expect.objectContaining({ path: ['b'], extensions: { code: 'OUT_OF_RANGE', value: 1 } }),
  ])
})

it('nodes: reads objects again by their ids, once for each occurrence', async () => {
  const { ask } = await startService()
  await ask('mutation { increment(name: "c") { value } nextInSequence(name: "s", group: "g") { value } }')
  const { counter, sequence, namespace } = await ask(`{
    counter(name: "c") { id }
    sequence(name: "s") { id group(name: "g") { id } }
    namespace { id }
  }`)
  const ids = [counter.id, namespace.id, sequence.id, sequence.group.id, counter.id]
  const { nodes } = await ask(
    `query($ids: [ID!]!) { nodes(ids: $ids) {
      id __typename
      ... on Counter { value }
      ... on Namespace { name }
      ... on SequenceGroup { lastValue }
    } }`,
    { ids },
  )
  expect(nodes).toEqual([
    { id: ids[0], __typename: 'Counter', value: 1 },
    { id: ids[1], __typename: 'Namespace', name: 'default' },
    { id: ids[2], __typename: 'Sequence' },
    { id: ids[3], __typename: 'SequenceGroup', lastValue: 1 },
    { id: ids[0], __typename: 'Counter', value: 1 },
  ])
})
