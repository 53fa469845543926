import { expect, it } from 'vitest'
import { openWire } from '../support/client/wire.ts'
import { startService } from '../support/server/service.ts'

const QUERY = '?query={__typename}'
const BODY = '{"query":"{ __typename }"}'

/** Sends a request on a connection of its own, and returns the answer as it comes. */
async function exchange(url: string, line: string, headers: string[], body = ''): Promise<string> {
  const wire = openWire(url)
  const length = body ? [`Content-Length: ${Buffer.byteLength(body)}`] : []
  wire.write([line, ...headers, ...length, '', body].join('\r\n'))
  wire.end()
  return wire.ended()
}

const ofGet = (url: string, target: string, host = 'localhost') =>
  exchange(url, `GET ${target} HTTP/1.1`, [`Host: ${host}`, 'Accept: application/json'])

it.each([
  ['a way that a proxy writes it', 'http://localhost/graphql'],
  ['a port', 'http://127.0.0.1:4000/graphql'],
  ['capitals', 'HTTP://LOCALHOST/graphql'],
  ['https', 'https://localhost/graphql'],
])('answers to an absolute URL as to its path: %s', async (_, target) => {
  const { url } = await startService()
  expect(await ofGet(url, `${target}${QUERY}`)).toMatch(
    /^HTTP\/1.1 200 [\s\S]*\{"data":\{"__typename":"Query"\}\}/,
  )
  for (const type of ['application/json', 'application/graphql+json']) {
    const headers = ['Host: localhost', `Content-Type: ${type}`]
    const answer = await exchange(url, `POST ${target} HTTP/1.1`, headers, BODY)
    expect(answer).toMatch(/^HTTP\/1.1 200 [\s\S]*\{"data":\{"__typename":"Query"\}\}/)
  }
})

it('answers to an absolute URL of the health of a process', async () => {
  const { url } = await startService()
  for (const path of ['/health', '/ready', '/ready?x']) {
    expect(await ofGet(url, `http://localhost${path}`)).toMatch(/^HTTP\/1.1 200 [\s\S]*"status":/)
    expect(await ofGet(url, `http://evil.example${path}`)).toMatch(/^HTTP\/1.1 200 [\s\S]*"status":/)
  }
})

it('takes no comment of a document for a number that would be rounded', async () => {
  const { url } = await startService()
  const headers = ['Host: localhost', 'Content-Type: application/graphql']
  const document = '# version 1.00000000000000000001\n{ __typename }'
  expect(await exchange(url, 'POST /graphql HTTP/1.1', headers, document)).toMatch(
    /^HTTP\/1.1 200 [\s\S]*\{"data":\{"__typename":"Query"\}\}/,
  )
})

it('serves pages by an absolute URL, with and without a path', async () => {
  const { url } = await startService()
  for (const target of [
    'http://localhost',
    'http://localhost/',
    'http://localhost?x',
    'http://localhost/book',
  ]) {
    expect(await ofGet(url, target)).toMatch(/^HTTP\/1.1 200 [\s\S]*<!doctype html>/)
  }
})

it('looks at the host of an absolute URL, not at the header Host beside it', async () => {
  const { url } = await startService()
  expect(await ofGet(url, `http://evil.example/graphql${QUERY}`)).toMatch(/^HTTP\/1.1 403 [\s\S]*"FORBIDDEN"/)
  expect(await ofGet(url, `http://localhost/graphql${QUERY}`, 'evil.example')).toMatch(/^HTTP\/1.1 200 /)
})

it.each([
  'http://',
  'http:///graphql',
  'http://local host/graphql',
  'http://localhost:99999/graphql',
  'http://[::1/graphql',
  'http://user:secret@localhost/graphql',
  'http:localhost/graphql',
  'ftp://localhost/graphql',
  'file:///etc/passwd',
  'localhost/graphql',
  'graphql',
  '?query={__typename}',
  '*',
])('answers 400 to the malformed URL %j', async (target) => {
  const { url } = await startService()
  expect(await ofGet(url, target)).toMatch(/^HTTP\/1.1 400 /)
})

it.each([
  'localhost/x',
  'localhost?x',
  'localhost#x',
  'user@localhost',
  'localhost:99999',
  '[::1',
  'a b',
  '',
])('answers 400 to the Host %j', async (host) => {
  const { url } = await startService()
  expect(await ofGet(url, `/graphql${QUERY}`, host)).toMatch(/^HTTP\/1.1 400 /)
})

it.each([
  ['Host', 400, ['Host: localhost', 'Host: evil.example']],
  ['Host', 400, ['host: localhost', 'Accept: */*', 'HOST: localhost']],
  ['Authorization', 401, ['Host: localhost', 'Authorization: Bearer a', 'authorization: Bearer b']],
])('refuses two headers %s with %s', async (_, status, headers) => {
  const { url, ask } = await startService()
  const body = '{"query":"mutation { increment(name: \\"c\\") { value } }"}'
  for (const [line, sent] of [
    [`GET /graphql${QUERY} HTTP/1.1`, ''],
    ['GET / HTTP/1.1', ''],
    ['POST /graphql HTTP/1.1', body],
  ] as const) {
    const answer = await exchange(url, line, [...headers, 'Content-Type: application/json'], sent)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  }
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 0 } })
})

/** What an answer must never hold: a stack, or where the server's files are. */
const INTERNAL = /\n\s+at |node_modules|node:internal|file:\/\/|\.[cm]?[jt]s:\d/

it('answers none of many malformed requests with a stack or a path of the server', async () => {
  const { url, faults } = await startService()
  const targets = [
    ...['/graphql', '//graphql', '/graphql/', '/graphql//', '/graphql/..', '/graphql/%2e%2e', '/graphql;x=1'],
    ...[
      '//',
      '///',
      '//[',
      '//evil.example/graphql',
      '/\\',
      '/\\\\evil.example',
      '/%',
      '/%zz',
      '/%00',
      '/.',
      '/..',
    ],
    ...[
      '/graphql?',
      '/graphql?query',
      '/graphql?query=%',
      '/graphql?query=%zz',
      '/graphql?query={',
      '/graphql?#',
    ],
    ...['/graphql?query={__typename}&variables=%', '/graphql?query={__typename}&variables={', '/graphql?%'],
    ...[
      '/graphql?query={__typename}&variables=[]',
      '/graphql?query={__typename}&extensions=x',
      '/graphql?=&&==',
    ],
    ...['/graphql?query={__typename}&variables=null&operationName=', `/graphql?query=${'{a'.repeat(3000)}`],
    ...[
      '/graphql?query={__typename}&query={x}',
      '/graphql?__proto__[x]=1&query={__typename}',
      '/graphql?\xff',
    ],
    ...[
      'http://localhost/graphql?query={',
      'http://localhost//',
      'http://localhost/%',
      'http://localhost/graphql?%',
    ],
    ...[
      'http://',
      'http://:0',
      'http://%',
      'javascript:1',
      'data:,',
      '*',
      'a',
      '[',
      '\xff',
      '/\xff',
      '/shop.html',
    ],
  ]
  const methods = [
    'GET',
    'POST',
    'HEAD',
    'PUT',
    'DELETE',
    'PATCH',
    'TRACE',
    'PROPFIND',
    'OPTIONS',
    'QUERY',
    'CONNECT',
  ]
  const heads = [
    ['Host: localhost'],
    ['Host: localhost', 'Accept: text/event-stream', 'Content-Type: application/json'],
    ['Host: localhost', 'Accept: multipart/mixed', 'Content-Type: multipart/form-data; boundary=x'],
    ['Host: localhost', 'Accept: \xff', 'Content-Type: \xff', 'Origin: \xff'],
    ['Host: localhost', 'Content-Type: application/graphql', 'Content-Encoding: x'],
    ['Host: localhost', 'Upgrade: websocket', 'Expect: 100-continue', 'Idempotency-Key: "'],
    ['Host: \xff', 'Host: localhost'],
    ['Host: local_host:port'],
    ['No-Host: x'],
  ]
  const bodies = ['', BODY, '{', '{"query":"{"}', '{"query":"{ __typename }","variables":{"__proto__":1}}']
  const requests = targets.flatMap((target) =>
    methods.map((method, index) => {
      const head = heads[(index + target.length) % heads.length] ?? []
      return {
        line: `${method} ${target} HTTP/1.1`,
        head,
        body: bodies[(index * 3 + target.length) % bodies.length],
      }
    }),
  )
  const odd: string[] = []
  await Promise.all(
    requests.map(async ({ line, head, body }) => {
      const answer = await exchange(url, line, head, body)
      if (INTERNAL.test(answer) || /^HTTP\/1.1 5/.test(answer)) odd.push(`${line} ${head}: ${answer}`)
    }),
  )
  expect(odd).toEqual([])
  expect(faults).toEqual([])
})

it.each([
  ['GET /graphql HTTP/1.1', 'Sec-WebSocket-Key: bad', 400],
  ['POST /graphql HTTP/1.1', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 400],
  ['GET /nowhere HTTP/1.1', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 404],
])('answers a handshake that is none with a code: %s, %s', async (line, key, status) => {
  const { url } = await startService()
  const headers = [
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    key,
  ]
  const answer = await exchange(url, line, headers)
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*"code":"BAD_REQUEST"`))
})

it('answers requests that offer another protocol, such as h2c, as any other', async () => {
  const { url } = await startService()
  const offers = [
    'Connection: Upgrade, HTTP2-Settings',
    'Upgrade: h2c',
    'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA',
  ]
  const headers = ['Host: localhost', ...offers]
  const get = await exchange(url, 'GET /graphql?query={__typename} HTTP/1.1', headers)
  expect(get).toMatch(/^HTTP\/1.1 200 [\s\S]*\{"data":\{"__typename":"Query"\}\}/)
  const body = JSON.stringify({ query: 'mutation { increment(name: "a") { value } }' })
  const post = await exchange(
    url,
    'POST /graphql HTTP/1.1',
    [...headers, 'Content-Type: application/json'],
    body,
  )
  expect(post).toMatch(/^HTTP\/1.1 200 [\s\S]*\{"data":\{"increment":\{"value":1\}\}\}/)
})
