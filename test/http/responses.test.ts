import { expect, it } from 'vitest'
import { startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const READ = '{ counter(name: "c") { value } }'
const INCREMENT = 'mutation { increment(name: "c") { value } }'
const JSON_TYPE = { 'content-type': 'application/json' }
const RESPONSE_TYPE = 'application/graphql-response+json'

const addressOf = (query: string) => `/graphql?${new URLSearchParams({ query })}`
const post = (query: string, headers = {}): RequestInit => {
  return { method: 'POST', headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify({ query }) }
}

it('GET: has a tag for the answer to a query, and reports that nothing has changed', async () => {
  const { url, ask } = await startService()
  const origin = 'http://localhost:5173'
  const get = (query: string, headers: Record<string, string> = {}) =>
    fetch(url + addressOf(query), { headers: { origin, ...headers } })
  const first = await get(READ)
  const tag = first.headers.get('etag') ?? ''
  expect(tag).toMatch(/^W\/"[\w-]{43}"$/)
  expect(await first.json()).toEqual({ data: { counter: { value: 0 } } })
  const same = await get(READ, { 'if-none-match': `"other", ${tag}` })
  expect([same.status, await same.text()]).toEqual([304, ''])
  for (const { headers } of [first, same]) {
    expect(headers.get('etag')).toBe(tag)
    expect(headers.get('cache-control')).toBe('private, no-cache')
    expect(headers.get('vary')).toBe('Origin, Authorization, Accept')
    expect(headers.get('access-control-allow-origin')).toBe(origin)
  }
  await ask(INCREMENT)
  const changed = await get(READ, { 'if-none-match': tag })
  expect([changed.status, await changed.json()]).toEqual([200, { data: { counter: { value: 1 } } }])
  for (const refused of ['{ node(id: "") { id } }', '{', INCREMENT])
    expect((await get(refused)).headers.get('etag')).toBe(null)
})

it('HEAD: is answered as GET, without the result', async () => {
  const { url } = await startProtected({ access: { anonymous: ['READ'] } })
  const [head, got] = await Promise.all(
    ['HEAD', 'GET'].map((method) => fetch(`${url}/graphql?query={__typename}`, { method })),
  )
  expect(await head?.text()).toBe('')
  for (const name of ['content-type', 'content-length', 'cache-control'])
    expect([head?.status, head?.headers.get(name)]).toEqual([200, got?.headers.get(name)])
})

it('Keep-Alive: keeps an idle connection for longer than the proxies before it', async () => {
  const { url } = await startService()
  expect((await fetch(url)).headers.get('keep-alive')).toBe('timeout=75')
})

it('Cache-Control: lets no cache store an answer with an error; JSON ends with a line end', async () => {
  const { url, createKey } = await startProtected({ access: { anonymous: ['READ', 'ADD'] } })
  const { secret } = await createKey([{ scopes: ['ADD'] }], { perMinute: 1 })
  const limited = { authorization: `Bearer ${secret}` }
  await fetch(`${url}/graphql`, post(INCREMENT, limited))
  const typename = addressOf('{ __typename }')
  const partly = '{ __typename counters(names: []) { value } }'
  const wrong = { headers: { authorization: 'Bearer nth_wrong' } }
  const events = { headers: { accept: 'text/event-stream' } }
  const cases: [status: number, path: string, init?: RequestInit][] = [
    [200, addressOf('{ counters(names: []) { value } }')],
    [200, addressOf(partly)],
    // From its second use, an operation is compiled.
    [200, addressOf(partly)],
    [200, addressOf('{ apiKeys { nodes { id } } }')],
    [200, addressOf('{')],
    [400, addressOf('{'), { headers: { accept: RESPONSE_TYPE } }],
    [400, '/graphql'],
    [400, `${typename}&variables={`],
    [405, addressOf(INCREMENT)],
    [405, '/graphql', { method: 'PUT', headers: JSON_TYPE, body: '{}' }],
    [406, typename, { headers: { accept: 'text/plain' } }],
    [401, typename, wrong],
    [401, `${typename}&key=nth_wrong`],
    [403, typename, { headers: { origin: 'https://evil.example' } }],
    [200, '/graphql', post(partly)],
    [200, '/graphql', post(partly, { accept: 'application/*' })],
    [200, '/graphql', post('{')],
    [415, '/graphql', post('{}', { 'content-type': 'text/plain' })],
    [413, '/graphql', post(' '.repeat(1_000_001))],
    [404, '/nowhere'],
    [405, '/', { method: 'POST' }],
    [401, '/metrics', wrong],
    [429, '/graphql', post(INCREMENT, limited)],
    [200, addressOf(partly), events],
    [404, '/nowhere', { headers: { accept: 'text/html' } }],
    [400, '/graphql', { method: 'HEAD' }],
    [405, addressOf(INCREMENT), { method: 'HEAD' }],
    [406, addressOf('subscription { counters(names: ["c"]) { value } }'), { method: 'HEAD', ...events }],
  ]
  for (const [status, path, init] of cases) {
    const { headers, ...response } = await readResponse(url + path, init)
    expect([path, response.status, headers.get('cache-control')]).toEqual([path, status, 'no-store'])
    if (response.text && headers.get('content-type')?.includes('json'))
      expect(response.text).toMatch(/^\{.*\}\n$/)
  }
  const { headers, text } = await readResponse(`${url}/graphql`, post('{ __typename }'))
  expect([headers.get('cache-control'), text.at(-1)]).toEqual([null, '\n'])
})

async function readResponse(address: string, init?: RequestInit) {
  const response = await fetch(address, init)
  const { status, headers } = response
  return { status, headers, text: await response.text() }
}
