import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { openWire } from '../support/client/wire.ts'
import { startService } from '../support/server/service.ts'

const INCREMENT = JSON.stringify({ query: 'mutation { increment(name: "c") { value } }' })

it.each([
  '{broken',
  '',
  'null',
  '5',
  '"text"',
  '[]',
  '{}',
  `[${INCREMENT}]`,
  '{"query":5}',
  '{"query":"{ __typename }","variables":"x"}',
  '{"query":"{ __typename }","extra":1}',
])('answers 400 to the body %j', async (text) => {
  const { post } = await startService()
  const { status, body } = await post(text)
  expect([status, body.errors?.[0]?.extensions.code]).toEqual([400, 'BAD_REQUEST'])
})

it('says where a body is not JSON', async () => {
  const { post } = await startService()
  const { body } = await post('{"query": nope}')
  expect(body.errors).toEqual([
    {
      message: expect.stringMatching(/^The request is not valid JSON: [^"]+'o'.$/),
      extensions: { code: 'BAD_REQUEST' },
    },
  ])
})

it.each([
  ['application/x-www-form-urlencoded', 'query=mutation{increment(name:"c"){value}}'],
  [
    'multipart/form-data; boundary=x',
    '--x\r\ncontent-disposition: form-data; name="query"\r\n\r\n{}\r\n--x--',
  ],
  ['text/plain', INCREMENT],
  ['', INCREMENT],
])('refuses a POST as %j, which a page of any origin could send', async (type, text) => {
  const { post, ask } = await startService()
  const { status, body } = await post(text, { 'content-type': type })
  expect([status, body.errors?.[0]?.extensions]).toEqual([415, { code: 'BAD_REQUEST' }])
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(0)
})

it('reads by GET, and refuses to write by it', async () => {
  const { url, ask } = await startService()
  const get = async (parameters: Record<string, string>) => {
    const response = await fetch(`${url}/graphql?${new URLSearchParams(parameters)}`)
    return { status: response.status, allow: response.headers.get('allow'), body: await response.json() }
  }
  expect(await get({ query: '{ counter(name: "c") { value } }' })).toMatchObject({
    status: 200,
    body: { data: { counter: { value: 0 } } },
  })
  expect(await get({ query: 'mutation { increment(name: "c") { value } }' })).toMatchObject({
    status: 405,
    allow: 'POST',
    body: { errors: [{ extensions: { code: 'OPERATION_RESOLUTION_FAILURE' } }] },
  })
  // Nor when it knows the document.
  await ask('mutation { increment(name: "c") { value } }')
  expect((await get({ query: 'mutation { increment(name: "c") { value } }' })).status).toBe(405)
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(1)
  expect(await get({ query: '{ __typename }', variables: '{broken' })).toMatchObject({
    status: 400,
    body: { errors: [{ extensions: { code: 'BAD_REQUEST' } }] },
  })
})

it('refuses other methods and paths', async () => {
  const { url } = await startService()
  for (const [method, path, status] of [
    ['PUT', '/graphql', 405],
    ['DELETE', '/graphql', 405],
    ['POST', '/', 405],
    ['GET', '/nope', 404],
    ['GET', '/graphql/more', 404],
    ['GET', '/../package.json', 404],
    ['GET', '/shop.html', 404],
  ] as const) {
    const response = await fetch(`${url}${path}`, { method })
    expect([method, path, response.status]).toEqual([method, path, status])
    expect((await response.json()).errors[0].extensions.code).toBe('BAD_REQUEST')
  }
})

it('says 400 for what was not executed to clients that know application/graphql-response+json, 200 to others', async () => {
  const { post } = await startService()
  for (const query of [
    '{',
    '{ nope }',
    '{ counter(name: 1) { value } }',
    'query($n: String!) { counter(name: $n) { value } }',
  ]) {
    const body = JSON.stringify({ query })
    expect((await post(body, { accept: 'application/graphql-response+json' })).status).toBe(400)
    expect((await post(body, { accept: 'application/json' })).status).toBe(200)
  }
  const refused = JSON.stringify({ query: 'mutation { increment(name: "") { value } }' })
  expect((await post(refused, { accept: 'application/graphql-response+json' })).status).toBe(200)
})

it('refuses an answer type that it does not support, before it counts', async () => {
  const { post, ask } = await startService()
  const { status, body } = await post(INCREMENT, { accept: 'text/plain' })
  expect([status, body.errors?.[0]?.extensions]).toEqual([406, { code: 'BAD_REQUEST' }])
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(0)
})

/** Sends a request as it stands, and returns the answer as it comes. */
function exchange(url: string, ...lines: string[]): Promise<string> {
  const wire = openWire(url)
  wire.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`)
  return wire.ended()
}

it.each([
  ['no host!', 400, 'BAD_REQUEST'],
  ['evil.example', 403, 'FORBIDDEN'],
  ['localhost.evil.example:4000', 403, 'FORBIDDEN'],
])('refuses the Host %j, which a page of any site could direct here', async (host, status, code) => {
  const { url } = await startService()
  const answer = await exchange(url, 'GET /graphql?query={__typename} HTTP/1.1', `Host: ${host}`)
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(answer).toContain(`"code":"${code}"`)
})

it.each(['localhost:4000', '127.0.0.1', '[::1]:4000', 'shop.example'])(
  'answers to the Host %j',
  async (host) => {
    const { url } = await startService({ allowedOrigins: ['https://shop.example'] })
    const answer = await exchange(url, 'GET /graphql?query={__typename} HTTP/1.1', `Host: ${host}`)
    expect(answer).toMatch(/^HTTP\/1.1 200 /)
  },
)

it('understands a request that names the whole address', async () => {
  const { url } = await startService()
  const answer = await exchange(url, `GET ${url}/schema.graphql HTTP/1.1`, 'Host: localhost')
  expect(answer).toMatch(/^HTTP\/1.1 200 /)
})

it.each([
  ['http://localhost:5173', true],
  ['http://127.0.0.1', true],
  ['http://[::1]:8080', true],
  ['https://shop.example', true],
  ['https://localhost:5173', false],
  ['http://localhost.evil.example', false],
  ['https://evil.example', false],
  ['null', false],
])('lets pages of %s call: %s', async (origin, isAllowed) => {
  const { url } = await startService({ allowedOrigins: ['https://shop.example'] })
  const preflight = await fetch(`${url}/graphql`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    },
  })
  const request = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { origin, 'content-type': 'application/json' },
    body: '{"query":"{ __typename }"}',
  })
  expect(request.status).toBe(isAllowed ? 200 : 403)
  for (const { headers } of [preflight, request]) {
    expect(headers.get('access-control-allow-origin')).toBe(isAllowed ? origin : null)
    expect(headers.get('access-control-allow-credentials')).toBeNull()
    expect(headers.get('vary')).toContain('Origin')
  }
  expect(preflight.headers.get('access-control-allow-headers')).toBe(isAllowed ? 'content-type' : null)
})

it('lets a page that may call read a refusal, too', async () => {
  const { url } = await startService()
  for (const [path, status] of [
    ['/nope', 404],
    ['/graphql?query={', 200],
    ['/graphql', 400],
  ] as const) {
    const response = await fetch(`${url}${path}`, { headers: { origin: 'http://localhost:5173' } })
    expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([
      status,
      'http://localhost:5173',
    ])
  }
})

it('serves its schema and the shop', async () => {
  const { url } = await startService()
  const schema = await fetch(`${url}/schema.graphql`)
  expect(schema.headers.get('content-type')).toMatch(/^text\/plain/)
  expect(await schema.text()).toContain('increment(')
  const shop = await fetch(url)
  expect(shop.headers.get('content-type')).toMatch(/^text\/html/)
  const again = await fetch(url, { headers: { 'if-none-match': shop.headers.get('etag') ?? '' } })
  expect(again.status).toBe(304)
})

it('keeps an idle connection for longer than the proxies before it', async () => {
  const { url } = await startService()
  const { headers } = await fetch(url)
  expect(headers.get('keep-alive')).toBe('timeout=75')
})

it.each<[string, string, RequestInit]>([
  ['an answer', '/graphql', { method: 'POST', body: '{"query":"{ __typename }"}' }],
  ['an error of a field', '/graphql', { method: 'POST', body: '{"query":"{ node(id: \\"\\") { id } }"}' }],
  ['a refused document', '/graphql', { method: 'POST', body: '{"query":"{"}' }],
  ['a refused body', '/graphql', { method: 'POST', body: '{' }],
  ['an answer to a GET', '/graphql?query={__typename}', {}],
  ['a refused GET', '/graphql?query={', {}],
  ['another method', '/graphql', { method: 'PUT', body: '{}' }],
  ['an unknown path', '/nowhere', {}],
])('ends %s with a line end', async (_, path, init) => {
  const { url } = await startService()
  const response = await fetch(`${url}${path}`, {
    ...init,
    headers: { 'content-type': 'application/json' },
  })
  const text = await response.text()
  expect(text).toMatch(/^\{.*\}\n$/)
  const length = response.headers.get('content-length')
  if (length !== null) expect(Number(length)).toBe(Buffer.byteLength(text))
})

it('gives answers to queries by GET a tag, and says that nothing has changed', async () => {
  const { url, ask } = await startService()
  const origin = 'http://localhost:5173'
  const get = (query: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/graphql?query=${encodeURIComponent(query)}`, { headers: { origin, ...headers } })
  const query = '{ counter(name: "c") { value } }'
  const first = await get(query)
  const tag = first.headers.get('etag') ?? ''
  expect(tag).toMatch(/^W\/"[\w-]{43}"$/)
  expect(await first.json()).toEqual({ data: { counter: { value: 0 } } })
  const same = await get(query, { 'if-none-match': `"other", ${tag}` })
  expect([same.status, await same.text()]).toEqual([304, ''])
  for (const { headers } of [first, same]) {
    expect(headers.get('etag')).toBe(tag)
    expect(headers.get('cache-control')).toBe('private, no-cache')
    expect(headers.get('vary')).toBe('Origin, Authorization, Accept')
    expect(headers.get('access-control-allow-origin')).toBe(origin)
  }
  await ask('mutation { increment(name: "c") { value } }')
  const changed = await get(query, { 'if-none-match': tag })
  expect([changed.status, await changed.json()]).toEqual([200, { data: { counter: { value: 1 } } }])
  for (const refused of ['{ node(id: "") { id } }', '{', 'mutation { increment(name: "c") { value } }']) {
    expect((await get(refused)).headers.get('etag')).toBe(null)
  }
})

it('answers HEAD as GET, without the result', async () => {
  const { url } = await startProtected({ access: { anonymous: ['READ'] } })
  const [head, got] = await Promise.all(
    ['HEAD', 'GET'].map((method) => fetch(`${url}/graphql?query={__typename}`, { method })),
  )
  expect(await head?.text()).toBe('')
  for (const name of ['content-type', 'content-length', 'cache-control'])
    expect([head?.status, head?.headers.get(name)]).toEqual([200, got?.headers.get(name)])
})

it('lets no cache store an answer with an error', async () => {
  const { url, createKey } = await startProtected({ access: { anonymous: ['READ', 'ADD'] } })
  const limited = await createKey([{ scopes: ['ADD'] }], { perMinute: 1 })
  const json = { 'content-type': 'application/json' }
  const get = (query: string) => `/graphql?query=${encodeURIComponent(query)}`
  const post = (query: string, headers = {}): RequestInit => ({
    method: 'POST',
    headers: { ...json, ...headers },
    body: JSON.stringify({ query }),
  })
  const wrongField = '{ counters(names: []) { value } }'
  const partly = '{ __typename counters(names: []) { value } }'
  const cases: [status: number, path: string, init?: RequestInit][] = [
    [200, get(wrongField)],
    [200, get(partly)],
    // From its second use, an operation is compiled.
    [200, get(partly)],
    [200, get('{ apiKeys { nodes { id } } }')],
    [200, get('{')],
    [200, get(partly), { headers: { accept: 'text/event-stream' } }],
    [400, get('{'), { headers: { accept: 'application/graphql-response+json' } }],
    [400, '/graphql'],
    [400, `${get('{ __typename }')}&variables={`],
    [405, get('mutation { increment(name: "c") { value } }')],
    [405, '/graphql', { method: 'PUT', headers: json, body: '{}' }],
    [400, '/graphql', { method: 'HEAD' }],
    [405, get('mutation { increment(name: "c") { value } }'), { method: 'HEAD' }],
    [
      406,
      get('subscription { counters(names: ["c"]) { value } }'),
      { method: 'HEAD', headers: { accept: 'text/event-stream' } },
    ],
    [406, get('{ __typename }'), { headers: { accept: 'text/plain' } }],
    [401, get('{ __typename }'), { headers: { authorization: 'Bearer nth_wrong' } }],
    [401, `${get('{ __typename }')}&key=nth_wrong`],
    [403, get('{ __typename }'), { headers: { origin: 'https://evil.example' } }],
    [200, '/graphql', post(partly)],
    [200, '/graphql', post(partly, { accept: 'application/*' })],
    [200, '/graphql', post('{')],
    [415, '/graphql', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{}' }],
    [413, '/graphql', { method: 'POST', headers: json, body: ' '.repeat(1_000_001) }],
    [404, '/nowhere'],
    [404, '/nowhere', { headers: { accept: 'text/html' } }],
    [405, '/', { method: 'POST' }],
    [401, '/metrics', { headers: { authorization: 'Bearer nth_wrong' } }],
  ]
  const key = { authorization: `Bearer ${limited.secret}` }
  await fetch(`${url}/graphql`, post('mutation { increment(name: "c") { value } }', key))
  cases.push([429, '/graphql', post('mutation { increment(name: "c") { value } }', key)])
  for (const [status, path, init] of cases) {
    const response = await fetch(url + path, init)
    await response.text()
    expect([status, path, response.headers.get('cache-control')]).toEqual([response.status, path, 'no-store'])
  }
  const { headers } = await fetch(`${url}/graphql`, post('{ __typename }'))
  expect(headers.get('cache-control')).toBeNull()
})

it('says once of each origin that was refused how to allow it, and of no more than twenty', async () => {
  const { url, warnings } = await startService()
  const call = (origin: string) => fetch(`${url}/graphql?query={__typename}`, { headers: { origin } })
  for (const origin of [
    'https://shop.example',
    'http://localhost:5173',
    'https://shop.example',
    'null',
    'x',
    url,
  ]) {
    await call(origin)
  }
  expect(warnings).toEqual([
    'The origin https://shop.example is not allowed. To allow it, add it to NTH_ALLOWED_ORIGINS.',
  ])
  for (const index of upTo(300)) await call(`https://shop${index}.example`)
  expect(warnings).toHaveLength(20)
})
