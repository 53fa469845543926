// @module-tag slow
// @module-tag alone
import { expect, it } from 'vitest'
import { inParallel, upTo } from '../support/client/client.ts'
import { type MeasuredNth, SHORT_MS, startMeasuredNth } from '../support/server/ticks.ts'

const MANY = 'mutation($c: [CounterDeltaInput!]!) { incrementMany(changes: $c) { value } }'

/** A field under many aliases. */
function many(times: number, field: string): string {
  return upTo(times)
    .map((index) => `a${index}: ${field}`)
    .join(' ')
}

async function startFilled(): Promise<MeasuredNth> {
  const nth = await startMeasuredNth()
  await nth.ask(MANY, { c: upTo(1000).map((index) => ({ name: `c${index}` })) })
  return nth
}

const names = upTo(500).map((index) => `c${index}`)
const ids = names.map((name) => Buffer.from(`Counter:default\n${name}`).toString('base64url'))

/** How many callers send the same request at once. */
const CALLERS = 64

// As much as one request may have, or more.
it.each([
  [
    'six histories of 2 500 days',
    `{ counter(name: "c1") { ${many(6, 'history(period: DAY, last: 2500) { start value }')} } }`,
  ],
  [
    'more histories than there may be',
    `{ counter(name: "c1") { ${many(40, 'history(period: DAY, last: 2500) { value }')} } }`,
  ],
  [
    'a day of very many counters',
    'query($names: [String!]!) { counters(names: $names) { name history(period: HOUR, last: 24) { start end value } } }',
  ],
  [
    'eight pages of 500',
    `{ namespace { ${many(8, 'counters(first: 500) { nodes { name value updatedAt } }')} } }`,
  ],
  ['a page of very many values', `{ namespace { counters(first: 500) { nodes { ${many(52, 'value')} } } } }`],
  [
    'ids of very many counters',
    `query($names: [String!]!) { counters(names: $names) { ${many(58, 'id')} } }`,
  ],
  [
    'periods of very many counters',
    `query($names: [String!]!) { counters(names: $names) { ${many(19, 'periods { period keepDays }')} } }`,
  ],
  [
    'period totals of very many counters',
    `query($names: [String!]!) { counters(names: $names) { ${many(2, 'valueIn(period: DAY)')} } }`,
  ],
  [
    'a block of numbers',
    `mutation { nextInSequence(name: "s", count: 2000) { formattedValues ${many(10, 'values')} } }`,
  ],
  [
    'a cart and what was made of it',
    `mutation($c: [CounterDeltaInput!]!) { incrementMany(changes: $c) { ${many(28, 'value')} } }`,
  ],
  ['long names', `query($longNames: [String!]!) { ${many(20, 'counters(names: $longNames) { id }')} }`],
  [
    'histories that are each refused',
    `query($names: [String!]!) { counters(names: $names) { ${many(8, 'history(period: DAY, last: 6000) { value }')} } }`,
  ],
  ['what has a very long id', `query($id: ID!) { ${many(100, 'node(id: $id) { id }')} }`],
  ['lists of ids', `query($ids: [ID!]!) { ${many(60, 'nodes(ids: $ids) { id }')} }`],
  ['lists of wrong ids', `query($wrongIds: [ID!]!) { ${many(200, 'nodes(ids: $wrongIds) { id }')} }`],
  ['changes that are each refused', `mutation { ${many(600, 'increment(name: "") { value }')} }`],
  [
    'wrong ids at the end of a long document',
    `# ${'x'.repeat(900_000)}\n{ ${many(800, 'node(id: "x") { id }')} }`,
  ],
])('event loop: answers many callers of %s without holding up others', (_, query) => expectShort(query))

/** Sends a request again and again, from many callers at once, and expects that no tick is long. */
async function expectShort(query: string): Promise<void> {
  const nth = await startFilled()
  const c = upTo(1000).map((index) => ({ name: `c${index}` }))
  const variables = {
    ...(query.includes('$names') && { names }),
    ...(query.includes('$c:') && { c }),
    ...(query.includes('$longNames:') && { longNames: names.map((name) => name.padStart(191, '😀')) }),
    ...(query.includes('$ids:') && { ids }),
    ...(query.includes('$wrongIds:') && { wrongIds: ids.map((id) => `${id}?`) }),
    ...(query.includes('$id:') && { id: 'Q'.repeat(900_000) }),
  }
  const longest = await nth.longestTick(() => inParallel(CALLERS, CALLERS, () => nth.send(query, variables)))
  expect(longest).toBeLessThan(SHORT_MS)
  expect(nth.output()).not.toContain('"level":50')
}

it.each([
  [
    'fragments',
    `{ counter(name: "c") { ${upTo(900)
      .map((index) => `...F${index}`)
      .join(' ')} } } ${upTo(900)
      .map((index) => `fragment F${index} on Counter { name }`)
      .join(' ')}`,
  ],
  ['lines', `${'\n'.repeat(400_000)}{ ${many(20, 'unknown')} }`],
  ['fields of one name', `{ ${'counter(name: "c") { name value } '.repeat(400)} }`],
  [
    'unknown fields with long names',
    `{ ${upTo(90)
      .map((index) => 'x'.repeat(10_000) + index)
      .join(' ')} }`,
  ],
])('event loop: refuses a document of very many %s, at once', async (_, query) => {
  const nth = await startMeasuredNth()
  let times = 0
  const longest = await nth.longestTick(async () => {
    times += 1
    const { body } = await nth.post(JSON.stringify({ query: `${query} # ${times}` }))
    expect(body.errors?.[0]?.extensions.code).toMatch(/^GRAPHQL_(PARSE|VALIDATION)_FAILED$/)
    expect(body.errors?.length).toBeLessThan(12)
  })
  expect(longest).toBeLessThan(SHORT_MS)
})

it.each([
  [
    'aliases',
    `query($names: [String!]!) { counters(names: $names) { ${upTo(40)
      .map((index) => `${'x'.repeat(250)}${index}: value`)
      .join(' ')} } }`,
    names,
  ],
  [
    'names',
    `query($names: [String!]!) { counters(names: $names) { ${many(150, 'name')} } }`,
    names.map((name) => '😀'.repeat(180) + name),
  ],
])(
  'event loop: refuses a short request for an answer of very many megabytes by its long %s',
  async (_, query, names) => {
    const nth = await startMeasuredNth()
    expect(await nth.refusal(query, { names })).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
  },
)

it('event loop: reports the outcome of each of very many changes', { tags: 'quick' }, async () => {
  const nth = await startMeasuredNth()
  const { data, errors = [] } = await nth.send(
    `mutation { ${many(800, 'increment(name: "") { value }').replaceAll(' a', '\na')} }`,
  )
  expect(Object.values(data)).toEqual(Array(800).fill(null))
  expect(errors.map(({ path }) => path)).toEqual(upTo(800).map((index) => [`a${index}`]))
  expect(errors.map(({ locations }) => locations)).toEqual(
    upTo(800).map((line) => [{ line, column: line === 1 ? 12 : 1 }]),
  )
  expect(new Set(errors.map(({ extensions }) => extensions.code))).toEqual(new Set(['BAD_USER_INPUT']))
})
