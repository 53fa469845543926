import { expect, it } from 'vitest'
import { startProtected } from '../support/client/keys.ts'
import { collectStatements } from '../support/database/statements.ts'

const codesOf = (answer: { errors?: { extensions: { code: string } }[] }) =>
  answer.errors?.map(({ extensions }) => extensions.code)

it('anonymous callers: may do nothing, and are told so for each field', async () => {
  const { as, admin } = await startProtected()
  await admin.ask('mutation { increment(name: "a") { value } }')
  const statements = collectStatements()
  const answer = await as(undefined).send(
    '{ a: counter(name: "a") { value } b: counter(name: "b") { value } viewer { kind grants { scopes } } }',
  )
  expect(answer.data).toEqual({ a: null, b: null, viewer: { kind: 'ANONYMOUS', grants: [] } })
  expect(codesOf(answer)).toEqual(['UNAUTHENTICATED', 'UNAUTHENTICATED'])
  expect(answer.errors?.map(({ path }) => path)).toEqual([['a'], ['b']])
  expect(codesOf(await as(undefined).send('mutation { increment(name: "a") { value } }'))).toEqual([
    'UNAUTHENTICATED',
  ])
  expect(statements).toEqual([])
})

it('anonymous callers: may do what the configuration lists', async () => {
  const { as, admin } = await startProtected({ access: { anonymous: ['READ', 'ADD'] } })
  const anyone = as(undefined)
  expect(await anyone.ask('mutation { increment(name: "a") { value counter { value } } }')).toEqual({
    increment: { value: 1, counter: { value: 1 } },
  })
  expect(codesOf(await anyone.send('mutation { reset(name: "a") { value } }'))).toEqual(['UNAUTHENTICATED'])
  expect(await admin.ask('{ viewer { kind } }')).toEqual({ viewer: { kind: 'ADMIN' } })
})

it('introspection: is for callers with any right, and the text of the schema for all', async () => {
  const { as, createKey, url } = await startProtected()
  const query = 'query { ...f } fragment f on Query { s: __schema { queryType { name } } }'
  for (const text of [query, '{ __type(name: "Counter") { name } viewer { kind } }']) {
    const { status, data, errors } = await as(undefined).send(text)
    expect([status, data, errors?.[0]?.extensions.code]).toEqual([401, undefined, 'UNAUTHENTICATED'])
  }
  const { secret } = await createKey([{ scopes: ['ADD'], namespace: 'shop' }])
  expect(await as(secret).ask(query)).toEqual({ s: { queryType: { name: 'Query' } } })
  expect(await as(undefined).ask('{ __typename }')).toEqual({ __typename: 'Query' })
  expect((await fetch(`${url}/schema.graphql`)).status).toBe(200)
})

it('counters, nodes: have null for elements that are not granted, and read the others', async () => {
  const { as, admin, createKey } = await startProtected()
  await admin.ask('mutation { a: increment(name: "a-1") { value } b: increment(name: "b-1") { value } }')
  const { data: ids } = await as((await createKey([{ scopes: ['READ'] }])).secret).send(
    '{ a: counter(name: "a-1") { id } b: counter(name: "b-1") { id } }',
  )
  const { secret } = await createKey([{ scopes: ['READ'], prefix: 'a-' }])
  const queries = [
    '{ counters(names: ["b-1", "a-1", "b-2", "a-1"]) { value } }',
    `{ nodes(ids: ["${ids.b.id}", "${ids.a.id}", "${ids.b.id}", "${ids.a.id}"]) { ... on Counter { value } } }`,
  ]
  for (const query of queries) {
    for (const _ of [1, 2, 3]) {
      const { data, errors } = await as(secret).send(query)
      const [field = ''] = Object.keys(data)
      expect(data[field]).toEqual([null, { value: 1 }, null, { value: 1 }])
      const locations = [{ line: 1, column: 3 }]
      expect(errors).toMatchObject([
        { path: [field, 0], locations, extensions: { code: 'FORBIDDEN' } },
        { path: [field, 2], locations, extensions: { code: 'FORBIDDEN' } },
      ])
    }
  }
})

it('maxDelta: bounds what one request adds to a counter, over aliases and carts', async () => {
  const { as, admin, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'], maxDelta: 5 }])
  const { send } = as(secret)
  const add = (name: string, delta: number) => `incrementBy(name: "${name}", delta: ${delta}) { value }`
  expect(
    (await send(`mutation { a: ${add('c', 3)} b: ${add('c', 2)} d: ${add('d', 5)} }`)).errors,
  ).toBeUndefined()
  const over = await send(`mutation { a: ${add('c', 3)} b: ${add('c', 3)} d: ${add('d', 5)} }`)
  expect(over.data).toEqual({ a: { value: 8 }, b: null, d: { value: 10 } })
  expect(over.errors?.[0]).toMatchObject({
    message: 'The credentials include the scope ADD for this name only up to 5.',
    extensions: { code: 'FORBIDDEN', limit: 5 },
  })
  const cart = (...deltas: number[]) =>
    `incrementMany(changes: [${deltas.map((delta) => `{ name: "c", delta: ${delta} }`)}]) { value }`
  expect((await send(`mutation { ${cart(2, 3)} }`)).errors).toBeUndefined()
  const cartOver = await send(`mutation { ${cart(2, 1, 3)} }`)
  expect(cartOver.errors?.[0]?.extensions).toMatchObject({ code: 'FORBIDDEN', limit: 5, index: 2 })
  const both = await send(`mutation { a: ${add('c', 4)} ${cart(1, 1)} }`)
  expect(both.data).toMatchObject({ a: { value: 17 }, incrementMany: null })
  for (const delta of [0, -1, 6])
    expect(codesOf(await send(`mutation { ${add('c', delta)} }`))).toEqual(['FORBIDDEN'])
  expect((await send(`mutation { ${add('c', -1)} }`)).errors?.[0]?.message).toBe(
    'The credentials do not include the scope WRITE for this name.',
  )
  // A negative element must not make room for a larger one.
  expect(codesOf(await send(`mutation { ${cart(9, -8)} }`))).toEqual(['FORBIDDEN'])
  expect(await admin.ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 17 } })
})

it('maxCount: bounds the numbers of a call', async () => {
  const { as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['NUMBER'], maxCount: 3 }])
  const next = (count: number) =>
    as(secret).send(`mutation { nextInSequence(name: "s", count: ${count}) { value } }`)
  expect((await next(3)).data).toEqual({ nextInSequence: { value: 1 } })
  expect((await next(4)).errors?.[0]?.extensions).toMatchObject({ code: 'FORBIDDEN', limit: 3 })
})

it('lists: show what a grant covers, and leaderboards with the whole namespace only', async () => {
  const { as, admin, createKey } = await startProtected()
  await admin.ask(`mutation {
    a: increment(namespace: "one", name: "a-1") { value }
    b: increment(namespace: "one", name: "b-1") { value }
    c: increment(namespace: "two", name: "a-1") { value }
    d: increment(namespace: "three", name: "a-1") { value }
  }`)
  const { secret } = await createKey([
    { scopes: ['READ'], namespace: 'one', prefix: 'a-' },
    { scopes: ['READ'], namespace: 'two' },
    { scopes: ['ADD'], namespace: 'three' },
    { scopes: ['READ'], namespace: 'never used' },
  ])
  const { ask, send } = as(secret)
  const names = '{ nodes { name } }'
  expect(await ask(`{ namespaces ${names} }`)).toEqual({
    namespaces: { nodes: [{ name: 'one' }, { name: 'two' }] },
  })
  const list = (namespace: string, more: string) =>
    send(`{ namespace(name: "${namespace}") { name timeZone counters${more} ${names} } }`)
  expect((await list('one', '(prefix: "a-")')).data.namespace).toMatchObject({
    counters: { nodes: [{ name: 'a-1' }] },
    timeZone: 'UTC',
  })
  for (const more of ['', '(prefix: "a")', '(prefix: "b-")', '(orderBy: VALUE_DESC)']) {
    const answer = await list('one', more)
    expect(answer.data.namespace).toEqual({ name: 'one', timeZone: 'UTC', counters: null })
    expect(codesOf(answer)).toEqual(['FORBIDDEN'])
  }
  expect((await list('two', '(orderBy: VALUE_DESC)')).data.namespace.counters).toEqual({
    nodes: [{ name: 'a-1' }],
  })
  expect(codesOf(await list('three', ''))).toEqual(['FORBIDDEN'])
  const named = await createKey([{ scopes: ['READ'], namespace: 'one', names: ['a-1'] }])
  expect(
    codesOf(await as(named.secret).send(`{ namespace(name: "one") { counters(prefix: "a-1") ${names} } }`)),
  ).toEqual(['FORBIDDEN'])
  expect(
    await as(named.secret).ask('{ counter(namespace: "one", name: "a-1") { value namespace { id name } } }'),
  ).toMatchObject({ counter: { value: 1 } })
})

it('mutations: reveal a state only with READ, and are refused before anything is changed', async () => {
  const { as, admin, createKey } = await startProtected()
  await admin.ask('mutation { incrementBy(name: "c", delta: 7) { value } }')
  const definer = as((await createKey([{ scopes: ['DEFINE'] }])).secret)
  expect(
    await definer.ask(
      'mutation { defineCounter(name: "c", definition: { maxValue: 9 }) { id name maxValue namespace { timeZone } } }',
    ),
  ).toMatchObject({ defineCounter: { maxValue: 9 } })
  const query =
    'mutation { defineCounter(name: "c", definition: { maxValue: 99 }) { ...f } } fragment f on Counter { v: value }'
  expect(codesOf(await definer.send(query))).toEqual(['FORBIDDEN'])
  expect(await admin.ask('{ counter(name: "c") { maxValue } }')).toEqual({ counter: { maxValue: 9 } })
  expect(
    codesOf(
      await definer.send('mutation { defineNamespace(definition: {}) { counters { nodes { value } } } }'),
    ),
  ).toEqual(['FORBIDDEN'])
  const writer = as((await createKey([{ scopes: ['WRITE', 'NUMBER'] }])).secret)
  await writer.ask('mutation { nextInSequence(name: "s") { value } }')
  expect(codesOf(await writer.send('mutation { restartSequence(name: "s") { lastValue } }'))).toEqual([
    'FORBIDDEN',
  ])
})

it('idempotencyKey: is apart for each caller, and replayed only with the right', async () => {
  const { as, admin, createKey } = await startProtected()
  const first = await createKey([{ scopes: ['ADD'] }])
  const second = await createKey([{ scopes: ['ADD'] }])
  const query = 'mutation { increment(name: "c", idempotencyKey: "same") { value replayed } }'
  const results = []
  for (const { secret } of [first, first, second]) results.push((await as(secret).ask(query)).increment)
  results.push((await admin.ask(query)).increment)
  expect(results).toEqual([
    { value: 1, replayed: false },
    { value: 1, replayed: true },
    { value: 2, replayed: false },
    { value: 3, replayed: false },
  ])
  const { secret } = await createKey([{ scopes: ['READ'] }])
  expect(codesOf(await as(secret).send(query))).toEqual(['FORBIDDEN'])
})

it.each([
  {
    kind: 'Reservation',
    scope: 'NUMBER',
    define: (name: string) => `defineSequence(name: "${name}", definition: { gapless: true }) { name }`,
    create: (name: string) => `reserveInSequence(name: "${name}") { id }`,
    uses: ['confirmReservation', 'releaseReservation'],
    selection: 'group { lastValue }',
    selected: { group: { lastValue: 1 } },
  },
  {
    kind: 'Hold',
    scope: 'HOLD',
    define: (name: string) => `reset(name: "${name}") { value }`,
    create: (name: string) => `hold(changes: [{ name: "${name}" }]) { id }`,
    uses: ['confirmHold', 'releaseHold', 'extendHold'],
    selection: 'deltas { delta }',
    selected: { deltas: [{ delta: 1 }] },
  },
])('$kind: is hidden as if it did not exist if it is of another name', async (row) => {
  const { kind, scope, define, create, uses, selection, selected } = row
  const { as, admin, createKey } = await startProtected()
  const open = async (name: string) => {
    const { made } = await admin.ask(`mutation { ${define(name)} made: ${create(name)} }`)
    return made.id
  }
  const [mine, other] = [await open('mine'), await open('other')]
  const unknown = Buffer.from(`${kind}:${'0'.repeat(32)}`).toString('base64url')
  const { send, ask } = as((await createKey([{ scopes: [scope, 'ADD', 'READ'], names: ['mine'] }])).secret)
  for (const use of uses) {
    const [refused, missing] = [other, unknown].map((id) =>
      send(`mutation { ${use}(id: "${id}") { __typename } }`),
    )
    expect(await refused).toEqual(await missing)
    expect((await refused)?.errors?.[0]?.extensions).toEqual({ code: 'NOT_FOUND' })
  }
  const nodes = `{ nodes(ids: ["${mine}", "${other}", "${unknown}"]) { ... on ${kind} { ${selection} } } }`
  expect(await ask(nodes)).toEqual({ nodes: [selected, null, null] })
  expect(await ask(`{ node(id: "${other}") { id } }`)).toEqual({ node: null })
  const own = await send(`mutation { ${uses[0]}(id: "${mine}") { __typename } }`)
  expect(own.errors).toBeUndefined()
})

const READ_GRANT = '{ scopes: [READ] }'
const pastLimit = (item: string) => Array(101).fill(item)

it.each<[argument: string, grants: unknown, more?: string | undefined, limit?: number]>([
  ['grants', '', undefined, 1],
  ['grants', pastLimit(READ_GRANT), undefined, 100],
  ['grants.0.scopes', '{ scopes: [] }'],
  ['grants.0.scopes', '{ scopes: [ADMIN], namespace: "a" }'],
  ['grants.0.names', '{ scopes: [READ], names: [] }', undefined, 1],
  ['grants.0.names', `{ scopes: [READ], names: [${pastLimit('"a"')}] }`, undefined, 100],
  ['grants.0.names', '{ scopes: [READ], names: ["a"], prefix: "b" }'],
  ['grants.0.namespace', '{ scopes: [READ], namespace: "" }'],
  ['grants.0.maxDelta', '{ scopes: [ADD], maxDelta: 0 }', undefined, 1],
  ['grants.0.maxCount', '{ scopes: [NUMBER], maxCount: 1000001 }', undefined, 1_000_000],
  ['grants.0.onceOnly', '{ scopes: [WRITE], onceOnly: true }'],
  ['origins', READ_GRANT, ', origins: []', 1],
  ['origins', READ_GRANT, `, origins: [${pastLimit('"https://a.example"')}]`, 100],
  ['origins.0', READ_GRANT, ', origins: ["https://a.example/"]'],
  ['perMinute', READ_GRANT, ', perMinute: 0', 1],
  ['expiresAt', READ_GRANT, ', expiresAt: "2020-01-01T00:00:00Z"'],
  ['expiresAt', READ_GRANT, ', expiresAt: "9999-12-31T23:59:59.999-10:00"'],
])('createApiKey: refuses invalid %s', async (argument, grants, more = '', limit) => {
  const { admin } = await startProtected()
  const create = `mutation { createApiKey(label: "x", grants: [${grants}]${more}) { secret } }`
  const details = { code: 'BAD_USER_INPUT', argument, ...(limit !== undefined && { limit }) }
  expect(await admin.refusal(create)).toEqual(details)
})

it('createApiKey: needs a label; revokeApiKey: needs the id of a key', async () => {
  const { admin } = await startProtected()
  const create = 'mutation { createApiKey(label: "", grants: [{ scopes: [READ] }]) { secret } }'
  expect(await admin.refusal(create)).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'label' })
  for (const id of ['eA', Buffer.from('ApiKey:9999999999999999').toString('base64url')])
    expect(await admin.refusal(`mutation { revokeApiKey(id: "${id}") { id } }`)).toMatchObject({
      code: 'BAD_USER_INPUT',
      argument: 'id',
    })
})

it('counters, nodes: refuse long lists of names that are not granted by one error, or by their cost', async () => {
  const { as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], prefix: 'mine' }])
  const names = Array.from({ length: 500 }, (_, index) => `n${index}`)
  const aliases = Array.from({ length: 20 }, (_, index) => `a${index}: counters(names: $names) { value }`)
  const query = `query ($names: [String!]!) { ${aliases.join(' ')} }`
  const anonymous = await as(undefined).send(query, { names })
  expect(codesOf(anonymous)).toEqual(aliases.map(() => 'UNAUTHENTICATED'))
  const { errors = [] } = await as(secret).send(query, { names })
  const costly = errors.filter(({ extensions }) => extensions.code === 'BAD_USER_INPUT')
  expect(costly).toHaveLength(19)
  expect(costly[0]?.extensions.limit).toBe(30_000)
  const wrong = await as(secret).refusal('{ counters(names: ["other", "mine", ""]) { value } }')
  expect(wrong).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'names.2' })
  const long = await as(secret).refusal(`{ nodes(ids: [${'"x" '.repeat(9000)}]) { id } }`)
  expect(long).toMatchObject({ code: 'BAD_USER_INPUT', limit: 500 })
})

it('restartSequence: does not let a repeat read what comes next', async () => {
  const { admin, as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['WRITE'], namespace: 'shop' }])
  const restart = (key: string) =>
    `mutation { restartSequence(name: "s", namespace: "shop", nextValue: 100${key}) { name nextValue } }`
  expect(await as(secret).ask(restart(''))).toEqual({ restartSequence: { name: '', nextValue: 100 } })
  await admin.ask('mutation { nextInSequence(name: "s", namespace: "shop") { value } }')
  expect(await as(secret).refusal(restart(', idempotencyKey: "k"'))).toMatchObject({ code: 'FORBIDDEN' })
})
