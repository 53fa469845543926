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
])('refuses %s name everywhere, with the argument at fault', async (_, name) => {
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

it('takes names of up to 191 characters, whatever their bytes', async () => {
  const { ask } = await startService()
  for (const character of ['x', 'é', '😀']) {
    const name = character.repeat(191)
    expect((await ask(INCREMENT, { name })).increment.value).toBe(1)
  }
})

it.each([1.5, 9007199254740992, -9007199254740992, 1e300, '5', '', true, null, [1], {}])(
  'refuses %j as a delta, as a variable and as a literal',
  async (d) => {
    const { refusal } = await startService()
    expect(await refusal(BY, { d })).toEqual({ code: 'BAD_USER_INPUT', argument: 'delta' })
    const literal = JSON.stringify(d)
    expect(await refusal(`mutation { incrementBy(name: "c", delta: ${literal}) { value } }`)).toEqual({
      code: 'BAD_USER_INPUT',
      argument: 'delta',
    })
  },
)

/** Sends an operation with a number as it is written, in every way that a number can be sent. */
async function inEveryWay(url: string, number: string) {
  const query = 'query($n: Int!) { namespace { counters(first: $n) { nodes { name } } } }'
  const variables = `{"text":"\\"1.5, 2.5","n":${number}}`
  const body = JSON.stringify({ query }).replace(/}$/, `,"variables":${variables}}`)
  const parameters = new URLSearchParams({ query, variables })
  const requests: [path: string, init: RequestInit][] = [
    ['', { method: 'POST', headers: { 'content-type': 'application/json' }, body }],
    ['', { method: 'POST', headers: { 'content-type': 'application/json; charset=UTF-8 ' }, body }],
    ['', { method: 'POST', headers: { 'content-type': 'application/graphql+json' }, body }],
    ['', { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/*' }, body }],
    [`?${parameters}`, {}],
    [`?${parameters}`, { headers: { accept: 'application/graphql-response+json' } }],
    [`?${parameters}`, { headers: { accept: 'text/event-stream' } }],
  ]
  return Promise.all(
    requests.map(async ([path, init]) => {
      const response = await fetch(`${url}/graphql${path}`, init)
      return { status: response.status, text: await response.text() }
    }),
  )
}

it.each(['1.00000000000000000001', '9007199254740990.6', '1e-400', '10000000000000000001e-19', '-0.1e-999'])(
  'refuses the number %s, which JSON rounds to an integer, however it is sent',
  async (number) => {
    const { url } = await startService()
    for (const { text } of await inEveryWay(url, number)) {
      expect(text).not.toContain('"data":{')
      expect(text).toContain('"code":"BAD_USER_INPUT","argument":"first"')
    }
  },
)

it('does not mind a number that would be rounded where nobody reads it', async () => {
  const { post } = await startService()
  const query = 'query($n: Int) { namespace { counters(first: $n) { nodes { name } } } }'
  const body = JSON.stringify({ query, variables: { n: 1, other: 7 }, extensions: { at: 7 } })
  expect((await post(body.replaceAll('7', '1.00000000000000000001'))).body.errors).toBeUndefined()
})

it.each(['7.0', '7.00e0', '0.7e1', '70e-1', '7E+0'])(
  'takes the number %s for the integer that it is, however it is sent',
  async (number) => {
    const { url } = await startService()
    for (const { status, text } of await inEveryWay(url, number)) {
      expect([status, text]).toEqual([200, expect.stringContaining('"nodes":[]')])
    }
  },
)

it.each(['9007199254740993', '-9007199254740993', '9007199254740992.5', '1e16', '1e400', '1.5'])(
  'counts nothing for the number %s in a variable and as a literal',
  async (number) => {
    const { post, ask } = await startService()
    const body = JSON.stringify({ query: BY, variables: { d: 0 } }).replace(':0', `:${number}`)
    const literal = `mutation { incrementBy(name: "c", delta: ${number}) { value } }`
    for (const text of [body, JSON.stringify({ query: literal })]) {
      const [error] = (await post(text)).body.errors ?? []
      expect(error?.extensions.code).toBe('BAD_USER_INPUT')
    }
    expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 0 } })
  },
)

it.each([
  '{"a":"1.00000000000000000001","b":[1.5]}',
  '{"a":"\\\\","b":"\\" 1.00000000000000000001","c":0.5}',
  '[0.0, -0.00, 0e5, 1e300, 12.5, 100e-2]',
  '{"a": "no end: 1.00000000000000000001',
])('finds no number in %s that would be rounded', (json) => {
  expect(withoutRounding(json)).toBe(json)
})

it('looks for rounded numbers in a body of any form in time that grows with its length', () => {
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

it.each(['5', ''])('says of the text %j that it must be a number', async (d) => {
  const { send } = await startService()
  const literal = `mutation { incrementBy(name: "c", delta: ${JSON.stringify(d)}) { value } }`
  for (const { errors = [] } of [await send(BY, { d }), await send(literal)]) {
    expect(errors[0]?.message).toContain('must be a JSON number, not a string')
  }
})

it('names the argument of a wrong value inside a list, as a variable and as a literal', async () => {
  const { refusal } = await startService()
  const expected = { code: 'BAD_USER_INPUT', argument: 'names.2' }
  expect(
    await refusal('query($list: [String!]!) { counters(names: $list) { value } }', { list: ['a', 'b', 3] }),
  ).toEqual(expected)
  expect(await refusal('{ counters(names: ["a", "b", 3]) { value } }')).toEqual(expected)
})

it('refuses a variable that is missing, or null where an argument has a default', async () => {
  const { refusal } = await startService()
  expect(await refusal(BY)).toEqual({ code: 'BAD_USER_INPUT', argument: 'delta' })
  expect(
    await refusal('query($n: String) { counter(name: "c", namespace: $n) { value } }', { n: null }),
  ).toEqual({ code: 'BAD_USER_INPUT', argument: 'namespace' })
})

it('refuses lists that are empty or too long', async () => {
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
  [
    'origins',
    100,
    'createApiKey(label: "k", grants: [{ scopes: [READ] }], origins: [',
    '"https://a.example"',
    ']) { secret }',
  ],
  ['grants', 100, 'createApiKey(label: "k", grants: [', '{ scopes: [READ] }', ']) { secret }'],
  [
    'grants.0.names',
    100,
    'createApiKey(label: "k", grants: [{ scopes: [READ], names: [',
    '"a"',
    '] }]) { secret }',
  ],
])('refuses more items than a list may have: %s, %d', async (argument, limit, before, item, after) => {
  const { refusal } = await startService()
  const query = `mutation { ${before}${Array(limit + 1).fill(item)}${after} }`
  expect(await refusal(query)).toMatchObject({ code: 'BAD_USER_INPUT', argument, limit })
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
])('refuses %j as an id', async (id) => {
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

it('refuses unknown fields and operations', async () => {
  const { refusal, post } = await startService()
  expect(await refusal('{ nope }')).toEqual({ code: 'GRAPHQL_VALIDATION_FAILED' })
  expect(await refusal('{ counter { value } }')).toEqual({ code: 'GRAPHQL_VALIDATION_FAILED' })
  expect(await refusal('{')).toEqual({ code: 'GRAPHQL_PARSE_FAILED' })
  const { status, body } = await post(JSON.stringify({ query: '{ __typename }', operationName: 'Nope' }))
  expect([status, body.errors?.[0]?.extensions.code]).toEqual([400, 'OPERATION_RESOLUTION_FAILURE'])
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

it('answers fields in 100 levels, and refuses more, however many', async () => {
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
])('refuses a document %s', async (_, document, code) => {
  const { refusal } = await startService()
  expect(await refusal(document)).toMatchObject({ code })
})

it.each([
  ['texts of a block', 'mutation { nextInSequence(name: "s", count: 2000) {', 20, 'formattedValues', '} }'],
  ['counters', 'query($names: [String!]!) {', 300, 'counters(names: $names) { name }', '}'],
  ['pages', '{ namespace {', 50, 'counters(first: 500) { nodes { name } }', '} }'],
])('refuses to answer with more %s than fit in memory', async (_, start, times, field, end) => {
  const { send } = await startService()
  const fields = Array.from({ length: times }, (_, index) => `a${index}: ${field}`).join(' ')
  const variables = start.includes('$names') ? { names: Array(500).fill('a') } : undefined
  const { errors } = await send(`${start} ${fields} ${end}`, variables)
  expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
})

it('refuses more places than a request may read, also outside of lists', async () => {
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

it('takes no block whose numbers would be too many to list', async () => {
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

it.each([
  'application/json; charset="utf-8"',
  'application/json; charset= utf-8',
  'application/json ; charset=utf-8',
  'Application/JSON',
  ' APPLICATION/JSON;charset=UTF-8',
])('reads a body whose type is written %j', async (type) => {
  const { post } = await startService()
  const { status, body } = await post('{"query":"{ __typename }"}', { 'content-type': type })
  expect([status, body]).toEqual([200, { data: { __typename: 'Query' } }])
})

it('reads JSON and GraphQL behind a byte order mark', async () => {
  const { post } = await startService()
  for (const [text, type] of [
    ['{"query":"{ __typename }"}', 'application/json'],
    ['{ __typename }', 'application/graphql'],
  ] as const) {
    const { status, body } = await post(`\ufeff${text}`, { 'content-type': type })
    expect([status, body]).toEqual([200, { data: { __typename: 'Query' } }])
  }
})

it.each(['iso-8859-1', '"utf-16le"', 'utf-85', '', 'UTF-8x; charset=utf-8'])(
  'refuses a body in the charset %s, whatever its bytes are',
  async (charset) => {
    const { url } = await startService()
    for (const body of ['{"query":"{ __typename }"}', Buffer.from([0xe9])]) {
      const headers = { 'content-type': `application/json; charset=${charset}` }
      const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body })
      expect([response.status, (await response.json()).errors[0].extensions]).toEqual([
        415,
        { code: 'BAD_REQUEST' },
      ])
    }
  },
)

it('reports 200 of the errors below its fields, and null for each', async () => {
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

it('charges lists of ids before they are decoded', async () => {
  const { send } = await startService()
  const ids = upTo(500).map((index) => Buffer.from(`Counter:default\nc${index}`).toString('base64url'))
  const fields = upTo(7).map((index) => `a${index}: nodes(ids: $ids) { id }`)
  const { errors } = await send(`query ($ids: [ID!]!) { ${fields.join(' ')} }`, { ids })
  expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
})
