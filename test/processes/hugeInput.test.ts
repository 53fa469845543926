import { expect, it } from 'vitest'
import { SHORT_MS, startMeasuredNth } from '../support/server/ticks.ts'

const MANY = 'mutation($c: [CounterDeltaInput!]!) { incrementMany(changes: $c) { value } }'
const COUNTERS = 'query($n: [String!]!) { counters(names: $n) { value } }'
const DEFINE = 'mutation($d: CounterDefinitionInput!) { defineCounter(name: "c", definition: $d) { value } }'
const LIST = 'query($o: CounterOrder!) { namespace { counters(orderBy: $o) { nodes { name } } } }'
const ZONE = 'mutation($z: String!) { defineCounter(name: "c", definition: { timeZone: $z }) { value } }'
const TWENTY = `mutation(${letters('$_: [CounterDeltaInput!]!')}) { ${letters('_: incrementMany(changes: $_) { value }')} }`

/** A text for each of twenty letters. */
function letters(text: string): string {
  return [...'abcdefghijklmnopqrst'].map((letter) => text.replaceAll('_', letter)).join(' ')
}

it.each([
  ['empty objects', MANY, { c: Array(19_000).fill({}) }, 'changes', 10_000],
  ['empty names', MANY, { c: Array(19_000).fill({ name: '' }) }, 'changes', 10_000],
  ['numbers for names', COUNTERS, { n: Array(39_000).fill(1) }, 'names', 10_000],
  ['names', COUNTERS, { n: Array(39_000).fill('a') }, 'names', 10_000],
  ['lists within a list', COUNTERS, { n: Array(19_000).fill([]) }, 'names', 10_000],
  [
    'periods',
    DEFINE,
    { d: { periods: Array(19_000).fill({ period: 'DAY' }) } },
    'definition.periods',
    10_000,
  ],
  [
    'changes in twenty lists',
    TWENTY,
    Object.fromEntries([...'abcdefghijklmnopqrst'].map((letter) => [letter, Array(900).fill({ name: 'a' })])),
    'changes',
    10_000,
  ],
  ['changes for a cart', MANY, { c: Array(9900).fill({ name: 'a' }) }, 'changes', 1000],
  ['names for a list', COUNTERS, { n: Array(9900).fill('a') }, 'names', 500],
])(
  'huge input: refuses very many %s at once, also when it knows the document',
  async (_, query, variables, argument, limit) => {
    const nth = await startMeasuredNth()
    const text = JSON.stringify({ query, variables })
    const longest = await nth.longestTick(async () => {
      const { body } = await nth.post(text)
      expect(body.errors?.map(({ extensions }) => extensions)).toEqual([
        { code: 'BAD_USER_INPUT', argument, limit },
      ])
    })
    expect(longest).toBeLessThan(SHORT_MS)
    expect(await nth.ask('{ counter(name: "a") { value } }')).toEqual({ counter: { value: 0 } })
  },
)

/** Short texts, each different. */
const keys = Array.from({ length: 80_000 }, (_, index) => `k${index.toString(36)}`)

it.each([
  ['empty objects', `[${Array(320_000).fill('{}')}]`],
  ['objects of different shapes', `[${keys.map((key) => `{"${key}":1}`)}]`],
  ['members', `{${keys.map((key) => `"${key}":1`)}}`],
  ['lists, each within the other', '['.repeat(450_000) + ']'.repeat(450_000)],
])('huge input: refuses a body of very many %s before it is parsed', async (_, json) => {
  const nth = await startMeasuredNth()
  const text = `{"query": "{ __typename }", "variables": {"\\"": ${json}}}`
  const longest = await nth.longestTick(async () => {
    const { status, body } = await nth.post(text)
    expect(status).toBe(400)
    expect(body.errors?.map(({ extensions }) => extensions)).toEqual([
      { code: 'BAD_USER_INPUT', limit: 40_000 },
    ])
  })
  expect(longest).toBeLessThan(SHORT_MS)
})

it('huge input: accepts commas and brackets in names without limit', async () => {
  const nth = await startMeasuredNth()
  const names = Array.from({ length: 500 }, (_, index) => `"\\${',[{'.repeat(60)}${index}`)
  const data = await nth.ask('query($names: [String!]!) { counters(names: $names) { value } }', { names })
  expect(data.counters).toHaveLength(500)
})

it.each([
  ['changes', MANY, { c: Array(1000).fill({}) }, 'changes.0'],
  ['names', COUNTERS, { n: Array(500).fill(1) }, 'names.0'],
  [
    'unknown fields',
    MANY,
    { c: [Object.fromEntries(Array.from({ length: 200 }, (_, key) => [`k${key}`, 1]))] },
    'changes.0',
  ],
  ['a long enum value', LIST, { o: 'x'.repeat(900_000) }, 'orderBy'],
  ['a long time zone', ZONE, { z: 'Europe/Berlin'.repeat(60_000) }, 'definition.timeZone'],
])('huge input: answers wrong %s with one error, which is short', async (_, query, variables, argument) => {
  const nth = await startMeasuredNth()
  const text = JSON.stringify({ query, variables })
  const longest = await nth.longestTick(async () => {
    const { body } = await nth.post(text)
    expect(body.errors?.map(({ extensions }) => extensions)).toEqual([{ code: 'BAD_USER_INPUT', argument }])
    expect(JSON.stringify(body).length).toBeLessThan(600)
  })
  expect(longest).toBeLessThan(SHORT_MS)
  expect(nth.output()).not.toContain('"level":50')
})
