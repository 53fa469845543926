import { expect, it } from 'vitest'
import { withoutRounding } from '../../src/rules/jsonNumbers.ts'
import { upTo } from '../support/client/client.ts'
import { startService } from '../support/server/service.ts'

const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'
const BY = 'mutation($d: SafeInt!) { incrementBy(name: "c", delta: $d) { value } }'

it.each([
  ['an empty', ''],
  ['a 192-character', 'x'.repeat(192)],
  ['a 192-emoji', '😀'.repeat(192)],
  ['a control-character', 'a\u0000b'],
  ['a line-end', 'a\nb'],
  ['a C1-control', 'a\u0085b'],
  ['a lone high surrogate', 'a\ud800b'],
  ['a lone low surrogate', '\udc00'],
])('names: %s one is refused everywhere, with the argument at fault', async (_, name) => {
  const { refusal } = await startService()
  const error = (argument: string) => expect.objectContaining({ code: 'BAD_USER_INPUT', argument })
  expect(await refusal(INCREMENT, { name })).toEqual(error('name'))
  const variables = { name, names: ['ok', name] }
  const fields = {
    namespace: '{ counter(name: "ok", namespace: $name) { value } }',
    'names.1': '{ counters(names: $names) { value } }',
    name: '{ sequence(name: $name) { name } }',
  }
  for (const [argument, selection] of Object.entries(fields)) {
    const type = argument === 'names.1' ? '$names: [String!]!' : '$name: String!'
    expect(await refusal(`query(${type}) ${selection}`, variables)).toEqual(error(argument))
  }
  if (name === '') return
  const next = 'mutation($name: String!) { nextInSequence(name: "s", group: $name) { value } }'
  expect(await refusal(next, { name })).toEqual(error('group'))
})

it('names: may have 191 characters, whatever their bytes', async () => {
  const { ask } = await startService()
  for (const character of ['x', 'é', '😀']) {
    const name = character.repeat(191)
    expect((await ask(INCREMENT, { name })).increment.value).toBe(1)
  }
})

it.each([
  ...['1.5', '9007199254740992', '-9007199254740993', '9007199254740992.5', '1e16', '1e300', '1e400'],
  ...['"5"', '""', 'true', 'null', '[1]', '{}'],
])('delta: %s is refused in a variable and as a literal, and counts nothing', async (delta) => {
  const { post, ask } = await startService()
  const body = JSON.stringify({ query: BY, variables: { d: 0 } }).replace(':0', `:${delta}`)
  const literal = JSON.stringify({ query: `mutation { incrementBy(name: "c", delta: ${delta}) { value } }` })
  for (const text of [body, literal]) {
    const [error] = (await post(text)).body.errors ?? []
    expect(error?.extensions).toEqual({ code: 'BAD_USER_INPUT', argument: 'delta' })
    if (delta.startsWith('"')) expect(error?.message).toContain('must be a JSON number, not a string')
  }
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 0 } })
})

/** Sends an operation with a number as it is written, by POST and by GET. */
async function sendWritten(url: string, number: string): Promise<string[]> {
  const query = 'query($n: Int!) { namespace { counters(first: $n) { nodes { name } } } }'
  const variables = `{"text":"\\"1.5, 2.5","n":${number}}`
  const body = JSON.stringify({ query }).replace(/}$/, `,"variables":${variables}}`)
  const headers = { 'content-type': 'application/json' }
  const responses = [
    await fetch(`${url}/graphql`, { method: 'POST', headers, body }),
    await fetch(`${url}/graphql?${new URLSearchParams({ query, variables })}`),
  ]
  return Promise.all(responses.map((response) => response.text()))
}

it.each(['1.00000000000000000001', '9007199254740990.6', '1e-400', '10000000000000000001e-19', '-0.1e-999'])(
  'numbers: %s is refused, which JSON rounds to an integer',
  async (number) => {
    const { url } = await startService()
    for (const text of await sendWritten(url, number)) {
      expect(text).not.toContain('"data":{')
      expect(text).toContain('"code":"BAD_USER_INPUT","argument":"first"')
    }
  },
)

it('numbers: may be rounded where nobody reads them', async () => {
  const { post } = await startService()
  const query = 'query($n: Int) { namespace { counters(first: $n) { nodes { name } } } }'
  const body = JSON.stringify({ query, variables: { n: 1, other: 7 }, extensions: { at: 7 } })
  expect((await post(body.replaceAll('7', '1.00000000000000000001'))).body.errors).toBeUndefined()
})

it('numbers: are integers however they are written', async () => {
  const { url } = await startService()
  for (const number of ['7.0', '7.00e0', '0.7e1', '70e-1', '7E+0'])
    for (const text of await sendWritten(url, number))
      expect([number, text]).toEqual([number, expect.stringContaining('"nodes":[]')])
})

it.each([
  '{"a":"1.00000000000000000001","b":[1.5]}',
  '{"a":"\\\\","b":"\\" 1.00000000000000000001","c":0.5}',
  '[0.0, -0.00, 0e5, 1e300, 12.5, 100e-2]',
  '{"a": "no end: 1.00000000000000000001',
])('withoutRounding: finds no number in %s that would be rounded', (json) => {
  expect(withoutRounding(json)).toBe(json)
})

it('withoutRounding: takes a time that grows with the length of a body, whatever is in it', () => {
  const length = 1_000_000
  for (const json of [
    `{"a":0.5,"b":"${'\\"'.repeat(length / 2)}`,
    `{"a":0.5,"b":${'"'.repeat(length)}`,
    `{"a":0.${'0'.repeat(length)}1}`,
    `{"a":${'1'.repeat(length)}}`,
    `{"a":0.5,"b":${'1'.repeat(length)}x`,
    `[${'1.5,'.repeat(length / 4)}`,
  ]) {
    const before = process.cpuUsage()
    withoutRounding(json)
    const { user } = process.cpuUsage(before)
    // What grows with the square of the length takes minutes.
    expect(user / 1000).toBeLessThan(5_000)
  }
})

it('lists: have a wrong value named by its place, as a variable and as a literal', async () => {
  const { refusal } = await startService()
  const expected = { code: 'BAD_USER_INPUT', argument: 'names.2' }
  expect(
    await refusal('query($list: [String!]!) { counters(names: $list) { value } }', { list: ['a', 'b', 3] }),
  ).toEqual(expected)
  expect(await refusal('{ counters(names: ["a", "b", 3]) { value } }')).toEqual(expected)
})

it('variables: are refused if they are missing, or null where an argument has a default', async () => {
  const { refusal } = await startService()
  expect(await refusal(BY)).toEqual({ code: 'BAD_USER_INPUT', argument: 'delta' })
  expect(
    await refusal('query($n: String) { counter(name: "c", namespace: $n) { value } }', { n: null }),
  ).toEqual({ code: 'BAD_USER_INPUT', argument: 'namespace' })
})

it('lists: are refused if they are empty or too long', async () => {
  const { refusal } = await startService()
  const counters = 'query($names: [String!]!) { counters(names: $names) { value } }'
  expect(await refusal(counters, { names: [] })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'names',
    limit: 1,
  })
  const tooMany = { code: 'BAD_USER_INPUT', limit: 500 }
  expect(await refusal(counters, { names: Array(501).fill('a') })).toEqual({ ...tooMany, argument: 'names' })
  expect(
    await refusal('query($ids: [ID!]!) { nodes(ids: $ids) { id } }', { ids: Array(501).fill('a') }),
  ).toEqual({ ...tooMany, argument: 'ids' })
})

it.each([
  '',
  'abc',
  '!!!',
  Buffer.from('Counter:a').toString('base64url'),
  Buffer.from('Counter:a\nb\nc').toString('base64url'),
  Buffer.from('Counter:\nb').toString('base64url'),
  Buffer.from(`Counter:a\n${'b'.repeat(192)}`).toString('base64url'),
  Buffer.from('Query:a').toString('base64url'),
  Buffer.from('__proto__:a').toString('base64url'),
  Buffer.from('constructor:a').toString('base64url'),
  `${Buffer.from('Counter:a\nb').toString('base64url')} `,
  `${Buffer.from('Counter:a\nb').toString('base64')}=`,
])('ids: %j is none', async (id) => {
  const { refusal } = await startService()
  expect(await refusal('query($id: ID!) { node(id: $id) { id } }', { id })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'id',
  })
  expect(await refusal('query($id: ID!) { nodes(ids: [$id]) { id } }', { id })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'ids.0',
  })
})

/** A document of a few lines that asks for 2^depth fields. */
function exponential(depth: number): string {
  const fragments = Array.from(
    { length: depth },
    (_, level) =>
      `fragment F${level} on Sequence { a: group { sequence { ...F${level + 1} } } b: group { sequence { ...F${level + 1} } } }`,
  )
  return `{ sequence(name: "s") { ...F0 } } ${fragments.join(' ')} fragment F${depth} on Sequence { name }`
}

/** A document with fields in so many levels, an even number. */
function nested(levels: number): string {
  const rounds = levels / 2 - 1
  return `{ sequence(name: "s") { ${'group { sequence { '.repeat(rounds)} name ${'} }'.repeat(rounds)} } }`
}

it('documents: may have fields in 100 levels, and no more', async () => {
  const { ask, refusal, faults } = await startService()
  expect(JSON.stringify(await ask(nested(100)))).toContain('{"name":"s"}')
  for (const levels of [102, 1000]) {
    expect(await refusal(nested(levels))).toEqual({ code: 'GRAPHQL_VALIDATION_FAILED' })
  }
  expect(faults).toEqual([])
})

it.each([
  ['of too many tokens', `{ ${'a '.repeat(10_001)} }`, 'GRAPHQL_PARSE_FAILED'],
  ['nested too deeply', `${'{ a '.repeat(4_900)}${'}'.repeat(4_900)}`, 'GRAPHQL_PARSE_FAILED'],
  [
    'with lists nested too deeply',
    `{ a(b: ${'['.repeat(4_900)}${']'.repeat(4_900)}) }`,
    'GRAPHQL_PARSE_FAILED',
  ],
  [
    'with values nested deeply, which are compared',
    `{ ${`counters(names: ${'['.repeat(1400)}${']'.repeat(1400)}) { value } `.repeat(2)} }`,
    'GRAPHQL_VALIDATION_FAILED',
  ],
  [
    'with a type nested deeply',
    `query($v: ${'['.repeat(4500)}Int${']'.repeat(4500)}) { counters(names: $v) { value } }`,
    'GRAPHQL_VALIDATION_FAILED',
  ],
  ['of too many fields by fragments', exponential(40), 'GRAPHQL_VALIDATION_FAILED'],
  ['with a fragment that uses itself', '{ ...A } fragment A on Query { ...A }', 'GRAPHQL_VALIDATION_FAILED'],
  ['of one field many times', `{ ${'__typename '.repeat(9_900)} }`, 'GRAPHQL_VALIDATION_FAILED'],
])('documents: one %s is refused', async (_, document, code) => {
  const { refusal } = await startService()
  expect(await refusal(document)).toMatchObject({ code })
})

it.each([
  ['texts of a block', 'mutation { nextInSequence(name: "s", count: 2000) {', 20, 'formattedValues', '} }'],
  ['counters', 'query($names: [String!]!) {', 300, 'counters(names: $names) { name }', '}'],
  ['pages', '{ namespace {', 50, 'counters(first: 500) { nodes { name } }', '} }'],
])('limits: a response may not have more %s than fit in memory', async (_, start, times, field, end) => {
  const { send } = await startService()
  const fields = Array.from({ length: times }, (_, index) => `a${index}: ${field}`).join(' ')
  const variables = start.includes('$names') ? { names: Array(500).fill('a') } : undefined
  const { errors } = await send(`${start} ${fields} ${end}`, variables)
  expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
})

it('limits: places are counted outside of lists, too', async () => {
  const { send } = await startService()
  const places = Array.from({ length: 49 }, (_, index) => `p${index}: place(lowestFirst: ${index % 2 === 1})`)
  const counters = Array.from({ length: 40 }, (_, index) => `c${index}: counter(name: "a") { ...P }`)
  const { errors = [] } = await send(
    `{ ${counters.join(' ')} } fragment P on Counter { ${places.join(' ')} }`,
  )
  expect(errors[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
  // A list has charged them before it was read.
  const listed = await send(
    'query($names: [String!]!) { a: counters(names: $names) { place } b: counters(names: $names) { place } }',
    {
      names: Array(500).fill('a'),
    },
  )
  expect(listed.errors).toBeUndefined()
})

it('limits: no block is taken whose numbers would be too many to list', async () => {
  const { send, ask } = await startService()
  const blocks = Array.from(
    { length: 12 },
    (_, index) => `b${index}: nextInSequence(name: "s", count: 2000) { ...F }`,
  )
  const { data, errors = [] } = await send(
    `mutation { ${blocks.join(' ')} } fragment F on SequenceNumbers { value formattedValues }`,
  )
  expect(Object.values<{ value: number } | null>(data).map((block) => block?.value)).toEqual([
    1,
    2001,
    4001,
    ...Array(9).fill(undefined),
  ])
  expect(errors.map(({ extensions }) => extensions)).toEqual(
    Array(9).fill({ code: 'BAD_USER_INPUT', limit: 30_000 }),
  )
  expect(await ask('{ sequence(name: "s") { group { lastValue } } }')).toEqual({
    sequence: { group: { lastValue: 6000 } },
  })
})

it('errors: are 200 at most below the fields of a response, with null for each', async () => {
  const { send } = await startService()
  const names = Array.from({ length: 500 }, (_, index) => `c${index}`)
  const { data, errors = [] } = await send(
    'query($names: [String!]!) { counters(names: $names) { history(period: DAY, last: -1) { value } } }',
    { names },
  )
  expect(data.counters).toEqual(Array(500).fill({ history: null }))
  expect(errors.map(({ path }) => path)).toEqual(
    Array.from({ length: 200 }, (_, index) => ['counters', index, 'history']),
  )
})

it('limits: lists of ids are charged before they are decoded', async () => {
  const { send } = await startService()
  const ids = upTo(500).map((index) => Buffer.from(`Counter:default\nc${index}`).toString('base64url'))
  const fields = upTo(7).map((index) => `a${index}: nodes(ids: $ids) { id }`)
  const { errors } = await send(`query ($ids: [ID!]!) { ${fields.join(' ')} }`, { ids })
  expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
})

it('aliases: may have 255 characters, and longer ones are refused before anything is counted', async () => {
  const { ask, send } = await startService()
  const increment = (alias: string) => `mutation { ${alias}: increment(name: "c") { value } }`
  const alias = 'a'.repeat(255)
  expect((await ask(increment(alias)))[alias]).toEqual({ value: 1 })
  // A response would repeat them for each item of a list.
  for (const document of [increment(`${alias}a`), `{ namespace { ${alias}a: name } }`])
    expect((await send(document)).errors).toMatchObject([
      {
        message: 'An alias may have at most 255 characters; one has 256.',
        extensions: { code: 'GRAPHQL_VALIDATION_FAILED' },
      },
    ])
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(1)
})
