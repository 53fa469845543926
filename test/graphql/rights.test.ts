import { expect, it } from 'vitest'
import { startProtected } from '../support/client/keys.ts'
import { collectStatements } from '../support/database/statements.ts'

const codesOf = (answer: { errors?: { extensions: { code: string } }[] }) =>
  answer.errors?.map(({ extensions }) => extensions.code)

it('lets callers without a key do nothing, and says so for each field', async () => {
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

it('lets callers without a key do what the configuration lists', async () => {
  const { as, admin } = await startProtected({ access: { anonymous: ['READ', 'ADD'] } })
  const anyone = as(undefined)
  expect(await anyone.ask('mutation { increment(name: "a") { value counter { value } } }')).toEqual({
    increment: { value: 1, counter: { value: 1 } },
  })
  expect(codesOf(await anyone.send('mutation { reset(name: "a") { value } }'))).toEqual(['UNAUTHENTICATED'])
  expect(await admin.ask('{ viewer { kind } }')).toEqual({ viewer: { kind: 'ADMIN' } })
})

it('leaves introspection to callers with any right, and shows the text of the schema to all', async () => {
  const { as, createKey, url } = await startProtected()
  const query = 'query { ...f } fragment f on Query { s: __schema { queryType { name } } }'
  for (const text of [query, '{ __type(name: "Counter") { name } viewer { kind } }']) {
    const { status, data, errors } = await as(undefined).send(text)
    expect([status, data, errors?.[0]?.extensions.code]).toEqual([401, undefined, 'UNAUTHENTICATED'])
  }
  const { secret } = await createKey([{ scopes: ['ADD'], namespace: 'shop' }])
  expect(await as(secret).ask(query)).toEqual({ s: { queryType: { name: 'Query' } } })
  expect(await as(undefined).ask('{ __typename }')).toEqual({ __typename: 'Query' })
  for (const path of ['/schema.graphql', '/', '/graphql']) {
    const response = await fetch(url + path, { headers: { accept: 'text/html' } })
    expect([path, response.status, response.headers.get('referrer-policy')]).toEqual([
      path,
      200,
      'no-referrer',
    ])
  }
})

it('does not reveal to callers without a key which books have a counter', async () => {
  const { admin, url } = await startProtected()
  await admin.ask('mutation { increment(namespace: "booksales", name: "Secret") { value } }')
  const statusOf = async (title: string) =>
    (await fetch(`${url}/book?title=${title}`, { headers: { accept: 'text/html' } })).status
  expect([await statusOf('Secret'), await statusOf('None')]).toEqual([200, 200])
})

it('answers a refused field in the same bytes whether a name exists or not', async () => {
  const { as, admin, createKey, post } = await startProtected()
  await admin.ask(
    'mutation { increment(name: "exists1") { value } nextInSequence(name: "exists1") { value } }',
  )
  const { secret } = await createKey([
    { scopes: ['READ', 'ADD', 'NUMBER', 'WRITE', 'DEFINE'], namespace: 'shop' },
  ])
  await as(secret).ask('{ viewer { kind } }')
  const fields = [
    '{ counter(name: "NAME") { value history(period: DAY) { value } } }',
    '{ counters(names: ["NAME", "other"]) { value } }',
    '{ sequence(name: "NAME") { format groups { nodes { lastValue } } } }',
    'mutation { increment(name: "NAME", idempotencyKey: "k") { value } }',
    'mutation { nextInSequence(name: "NAME") { value } }',
    'mutation { defineCounter(name: "NAME", definition: { minValue: 5 }) { minValue } }',
    'mutation { deleteCounter(name: "NAME") { previousValue } }',
  ]
  for (const field of fields) {
    const texts = []
    for (const name of ['exists1', 'missing']) {
      const query = field.replace('NAME', name)
      const { body } = await post(JSON.stringify({ query }), { authorization: `Bearer ${secret}` })
      texts.push(JSON.stringify(body))
    }
    expect(texts[0]).toBe(texts[1])
    expect(texts[0]).toContain('FORBIDDEN')
  }
})

it('refuses single elements of counters and nodes, and reads the others', async () => {
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

it('bounds what one request adds to a counter, over aliases and carts', async () => {
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

it('bounds the numbers of a call', async () => {
  const { as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['NUMBER'], maxCount: 3 }])
  const next = (count: number) =>
    as(secret).send(`mutation { nextInSequence(name: "s", count: ${count}) { value } }`)
  expect((await next(3)).data).toEqual({ nextInSequence: { value: 1 } })
  expect((await next(4)).errors?.[0]?.extensions).toMatchObject({ code: 'FORBIDDEN', limit: 3 })
})

it('lists what a grant covers, and leaderboards with the whole namespace only', async () => {
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

it('reveals a state only to those who may read it, and refuses before anything is changed', async () => {
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

it('keeps the idempotency keys of callers apart, and checks rights before a replay', async () => {
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

it('hides reservations of other sequences as if they did not exist', async () => {
  const { as, admin, createKey } = await startProtected()
  const define = (name: string) =>
    `${name}: defineSequence(name: "${name}", definition: { gapless: true }) { name }`
  await admin.ask(`mutation { ${define('mine')} ${define('other')} }`)
  const reserve = async (name: string) =>
    (await admin.ask(`mutation { reserveInSequence(name: "${name}") { id } }`)).reserveInSequence.id
  const [mine, other] = [await reserve('mine'), await reserve('other')]
  const { send, ask } = as((await createKey([{ scopes: ['NUMBER', 'READ'], names: ['mine'] }])).secret)
  const unknown = Buffer.from(`Reservation:${'0'.repeat(32)}`).toString('base64url')
  const texts = []
  for (const id of [other, unknown]) {
    const { data, errors } = await send(`mutation { confirmReservation(id: "${id}") { value } }`)
    texts.push(JSON.stringify({ data, errors }))
  }
  expect(texts[0]).toBe(texts[1])
  expect(texts[0]).toContain('NOT_FOUND')
  expect(
    await ask(
      `{ nodes(ids: ["${mine}", "${other}", "${unknown}"]) { ... on Reservation { value group { lastValue } } } }`,
    ),
  ).toEqual({
    nodes: [{ value: 1, group: { lastValue: 1 } }, null, null],
  })
  expect(await ask(`{ node(id: "${other}") { id } }`)).toEqual({ node: null })
  expect(await ask(`mutation { confirmReservation(id: "${mine}") { value } }`)).toEqual({
    confirmReservation: { value: 1 },
  })
})

it('rejects grants and keys that make no sense', async () => {
  const { admin } = await startProtected()
  const create = (grant: string, more = '') =>
    admin.refusal(`mutation { createApiKey(label: "x", grants: [${grant}]${more}) { secret } }`)
  const fine = '{ scopes: [READ] }'
  expect(await create('{ scopes: [] }')).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument: 'grants.0.scopes',
  })
  expect(await create('')).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'grants', limit: 1 })
  expect(await create('{ scopes: [ADMIN], namespace: "a" }')).toMatchObject({ argument: 'grants.0.scopes' })
  expect(await create('{ scopes: [READ], names: [] }')).toMatchObject({
    argument: 'grants.0.names',
    limit: 1,
  })
  expect(await create('{ scopes: [READ], names: ["a"], prefix: "b" }')).toMatchObject({
    argument: 'grants.0.names',
  })
  expect(await create('{ scopes: [READ], namespace: "" }')).toMatchObject({ argument: 'grants.0.namespace' })
  expect(await create('{ scopes: [ADD], maxDelta: 0 }')).toMatchObject({
    argument: 'grants.0.maxDelta',
    limit: 1,
  })
  expect(await create('{ scopes: [NUMBER], maxCount: 1000001 }')).toMatchObject({
    argument: 'grants.0.maxCount',
    limit: 1_000_000,
  })
  expect(await create(fine, ', origins: []')).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument: 'origins',
    limit: 1,
  })
  expect(await create(fine, ', origins: ["https://a.example/"]')).toMatchObject({ argument: 'origins.0' })
  expect(await create(fine, ', perMinute: 0')).toMatchObject({ argument: 'perMinute', limit: 1 })
  expect(await create(fine, ', expiresAt: "2020-01-01T00:00:00Z"')).toMatchObject({ argument: 'expiresAt' })
  expect(
    await admin.refusal('mutation { createApiKey(label: "", grants: [{ scopes: [READ] }]) { secret } }'),
  ).toMatchObject({ argument: 'label' })
  expect(await admin.refusal('mutation { revokeApiKey(id: "eA") { id } }')).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument: 'id',
  })
})

it('refuses long lists of names that are not granted at once, by one error or by their cost', async () => {
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

it('does not let a repeated restart read what comes next', async () => {
  const { admin, as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['WRITE'], namespace: 'shop' }])
  const restart = (key: string) =>
    `mutation { restartSequence(name: "s", namespace: "shop", nextValue: 100${key}) { name nextValue } }`
  expect(await as(secret).ask(restart(''))).toEqual({ restartSequence: { name: '', nextValue: 100 } })
  await admin.ask('mutation { nextInSequence(name: "s", namespace: "shop") { value } }')
  expect(await as(secret).refusal(restart(', idempotencyKey: "k"'))).toMatchObject({ code: 'FORBIDDEN' })
})

it('takes neither ids of keys nor expiries that are too large', async () => {
  const { admin } = await startProtected()
  const id = Buffer.from('ApiKey:9999999999999999').toString('base64url')
  expect(await admin.refusal(`mutation { revokeApiKey(id: "${id}") { id } }`)).toMatchObject({
    code: 'BAD_USER_INPUT',
  })
  const create = (at: string) =>
    `mutation { createApiKey(label: "x", grants: [{ scopes: [READ] }], expiresAt: "${at}") { secret } }`
  expect(await admin.refusal(create('9999-12-31T23:59:59.999-10:00'))).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument: 'expiresAt',
  })
})
