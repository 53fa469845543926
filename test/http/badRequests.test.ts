import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { openWire } from '../support/client/wire.ts'
import { startService } from '../support/server/service.ts'

const TYPENAME = '?query={__typename}'
const INCREMENT = '{"query":"mutation { increment(name: \\"c\\") { value } }"}'
const JSON_TYPE = 'Content-Type: application/json'
const HASH = '0'.repeat(64)

type RawRequest = [line: string, headers: string[], body?: string | Buffer | undefined]

/** Sends a request as it stands on a connection of its own, and returns the response as it comes. */
async function exchange(url: string, [line, headers, body = '']: RawRequest): Promise<string> {
  const wire = openWire(url)
  const length = body.length > 0 ? [`Content-Length: ${Buffer.byteLength(body)}`] : []
  wire.write([`${line} HTTP/1.1`, ...headers, ...length, '', ''].join('\r\n'), body)
  wire.end()
  return wire.ended()
}

const get = (target: string, host = 'localhost'): RawRequest => [
  `GET ${target}`,
  [`Host: ${host}`, 'Accept: application/json'],
]
const post = (body: string | Buffer = INCREMENT, ...headers: string[]): RawRequest => {
  return ['POST /graphql', ['Host: localhost', ...headers], body]
}
const postAs = (type: string, body?: string | Buffer) => post(body, `Content-Type: ${type}`)
const handshake = (line: string, key: string): RawRequest => [
  line,
  [
    ...['Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    `Sec-WebSocket-Key: ${key}`,
  ],
]

/** Requests that are refused with a status, and with the code BAD_REQUEST unless another one is named. */
const REFUSED: [what: string, status: number, requests: RawRequest[], code?: string | null][] = [
  [
    'what is not an object with a query',
    400,
    [
      ...['{broken', '', 'null', '5', '"text"', '[]', '{}', `[${INCREMENT}]`, '{"query":5}'],
      '{"query":"{ __typename }","variables":"x"}',
      '{"query":"{ __typename }","extra":1}',
      ...['{"query":["{ __typename }"]}', '{"query":"{ __typename }","variables":[]}'],
      // What is no hash of a persisted query.
      '{"extensions":{"persistedQuery":5}}',
      '{"extensions":{"persistedQuery":{"version":1}}}',
      `{"extensions":{"persistedQuery":{"version":2,"sha256Hash":"${HASH}"}}}`,
      `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":["${HASH}"]}}}`,
      `{"query":5,"extensions":{"persistedQuery":{"version":1,"sha256Hash":"${HASH}"}}}`,
    ].map((body) => post(body, JSON_TYPE)),
  ],
  ['variables of a GET that are not JSON', 400, [get(`/graphql${TYPENAME}&variables={broken`)]],
  [
    'a type that a page of any origin could send',
    415,
    [
      postAs('application/x-www-form-urlencoded', 'query=mutation{increment(name:"c"){value}}'),
      postAs('multipart/form-data; boundary=x', '--x\r\ncontent-disposition: form-data\r\n\r\n{}\r\n--x--'),
      postAs('text/plain'),
      post(),
    ],
  ],
  [
    'another charset, whatever the bytes are',
    415,
    ['iso-8859-1', '"utf-16le"', 'utf-85', '', 'UTF-8x; charset=utf-8'].flatMap((charset) =>
      [INCREMENT, Buffer.from([0xe9])].map((body) => postAs(`application/json; charset=${charset}`, body)),
    ),
  ],
  [
    'a compressed body',
    415,
    ['gzip', 'br', 'GZIP', 'identity, gzip'].map((encoding) =>
      post(gzipSync(INCREMENT), JSON_TYPE, `Content-Encoding: ${encoding}`),
    ),
  ],
  [
    'what is not UTF-8, which would make one name of two',
    400,
    ['caf\xe9', 'caf\xe8', 'half a pair \xed\xa0\x80'].flatMap((name) => [
      postAs('application/json', Buffer.from(INCREMENT.replace('c\\"', `${name}\\"`), 'latin1')),
      postAs(
        'application/graphql',
        Buffer.from(`mutation { increment(name: "${name}") { value } }`, 'latin1'),
      ),
    ]),
  ],
  [
    'an Accept that it does not support',
    406,
    ['text/html', 'text/plain', 'multipart/mixed', 'application/json;q=0'].map((accept) =>
      post(INCREMENT, JSON_TYPE, `Accept: ${accept}`),
    ),
  ],
  [
    'other methods',
    405,
    ['PUT /graphql', 'DELETE /graphql', 'POST /'].map((line) => [line, ['Host: localhost', JSON_TYPE], '{}']),
  ],
  ['other paths', 404, ['/nope', '/graphql/more', '/../package.json', '/shop.html'].map((path) => get(path))],
  [
    'a mutation by GET',
    405,
    [get('/graphql?query=mutation{increment(name:"c"){value}}')],
    'OPERATION_RESOLUTION_FAILURE',
  ],
  [
    'a Host to which a page of any site could direct a request',
    403,
    [
      get(`/graphql${TYPENAME}`, 'evil.example'),
      get(`/graphql${TYPENAME}`, 'localhost.evil.example:4000'),
      get(`http://evil.example/graphql${TYPENAME}`),
    ],
    'FORBIDDEN',
  ],
  [
    'a malformed Host',
    400,
    [
      ...[
        'no host!',
        'localhost/x',
        'localhost?x',
        'localhost#x',
        'user@localhost',
        'localhost:99999',
        '[::1',
      ],
      ...['a b', ''],
    ].map((host) => get(`/graphql${TYPENAME}`, host)),
  ],
  [
    'a malformed URL',
    400,
    [
      ...[
        'http:///graphql',
        'http://localhost:99999/graphql',
        'http://[::1/graphql',
        'http:localhost/graphql',
      ],
      ...['http://user:secret@localhost/graphql', 'ftp://localhost/graphql', 'file:///etc/passwd', 'http://'],
      ...['http://local host/graphql', 'localhost/graphql', 'graphql', '?query={__typename}', '*'],
    ].map((target) => get(target)),
    // Node itself refuses some of them.
    null,
  ],
  [
    'two Host headers',
    400,
    [
      [`GET /graphql${TYPENAME}`, ['Host: localhost', 'Host: evil.example']],
      ['GET /', ['host: localhost', 'Accept: */*', 'HOST: localhost']],
      post(INCREMENT, JSON_TYPE, 'Host: localhost'),
    ],
    null,
  ],
  [
    'two Idempotency-Key headers, different or not',
    400,
    ['a', 'b'].map((key) => post(INCREMENT, JSON_TYPE, 'Idempotency-Key: a', `Idempotency-Key: ${key}`)),
    'BAD_USER_INPUT',
  ],
  ['several credentials', 400, [['POST /graphql?key=a', ['Host: localhost', 'Authorization: Bearer b']]]],
  [
    'two Authorization headers',
    401,
    [post(INCREMENT, JSON_TYPE, 'Authorization: Bearer a', 'authorization: Bearer b')],
    'UNAUTHENTICATED',
  ],
  [
    'a handshake of WebSockets without a key, or by POST',
    400,
    [handshake('GET /graphql', 'bad'), handshake('POST /graphql', 'dGhlIHNhbXBsZSBub25jZQ==')],
  ],
  ['a handshake at another path', 404, [handshake('GET /nowhere', 'dGhlIHNhbXBsZSBub25jZQ==')]],
]

it.each(REFUSED)('requests: refuses %s with %d, and counts nothing', async (_, status, requests, code) => {
  const { url, ask, faults } = await startService()
  for (const request of requests) {
    const response = await exchange(url, request)
    const received = /"code":"(\w+)"/.exec(response)?.[1]
    expect([request, response.slice(9, 12)]).toEqual([request, String(status)])
    if (code !== null) expect([request, received]).toEqual([request, code ?? 'BAD_REQUEST'])
  }
  expect(await ask('{ namespace { counters { nodes { name } } } }')).toEqual({
    namespace: { counters: { nodes: [] } },
  })
  expect(faults).toEqual([])
})

const ABSOLUTE = ['http://localhost', 'http://127.0.0.1:4000', 'HTTP://LOCALHOST', 'https://localhost']
const BODY = '{"query":"{ __typename }"}'
const H2C = [
  ...['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA'],
  JSON_TYPE,
]

const ANSWERED: [what: string, requests: RawRequest[]][] = [
  [
    'an absolute URL as its path',
    ABSOLUTE.flatMap((origin) => [
      get(`${origin}/graphql${TYPENAME}`),
      [`POST ${origin}/graphql`, ['Host: localhost', JSON_TYPE], BODY],
    ]),
  ],
  [
    'the host of an absolute URL, whatever the header Host says',
    [get(`http://localhost/graphql${TYPENAME}`, 'evil.example')],
  ],
  [
    'its own hosts, and that of an allowed origin',
    ['localhost:4000', '127.0.0.1', '[::1]:4000', 'shop.example'].map((host) =>
      get(`/graphql${TYPENAME}`, host),
    ),
  ],
  [
    'JSON, however its type is written',
    [
      ...['application/json; charset="utf-8"', 'application/json; charset= utf-8', 'Application/JSON'],
      ...[
        'application/json ; charset=utf-8',
        ' APPLICATION/JSON;charset=UTF-8',
        'application/json; any=thing',
      ],
      'application/graphql+json',
    ].map((type) => postAs(type, BODY)),
  ],
  [
    'a document alone, in whose comments no number is rounded',
    [postAs('application/graphql', '# version 1.00000000000000000001\n{ __typename }')],
  ],
  [
    'what is behind a byte order mark',
    [postAs('application/json', `\ufeff${BODY}`), postAs('application/graphql', '\ufeff{ __typename }')],
  ],
  ['a body that says that it is not compressed', [post(BODY, JSON_TYPE, 'Content-Encoding: identity')]],
  [
    'an offer of another protocol, such as h2c, as any other request',
    [[`GET /graphql${TYPENAME}`, ['Host: localhost', ...H2C]], post(BODY, ...H2C)],
  ],
]

it.each(ANSWERED)('requests: answers %s', async (_, requests) => {
  const { url } = await startService({ allowedOrigins: ['https://shop.example'] })
  for (const request of requests) {
    const response = await exchange(url, request)
    expect([request, response]).toEqual([
      request,
      expect.stringMatching(/^HTTP\/1.1 200 [\s\S]*\{"data":\{"__typename":"Query"\}\}/),
    ])
  }
})

it('requests: serve pages, the schema and the health of a process by an absolute URL', async () => {
  const { url } = await startService()
  for (const target of [
    'http://localhost',
    'http://localhost/',
    'http://localhost?x',
    'http://localhost/book',
  ])
    expect(await exchange(url, get(target))).toMatch(/^HTTP\/1.1 200 [\s\S]*<!doctype html>/)
  for (const path of ['/health', '/ready', '/ready?x'])
    for (const origin of ['http://localhost', 'http://evil.example'])
      expect(await exchange(url, get(origin + path))).toMatch(/^HTTP\/1.1 200 [\s\S]*"status":/)
  expect(await exchange(url, get('http://localhost/schema.graphql'))).toMatch(/^HTTP\/1.1 200 /)
})

it('requests: are told where a body is not JSON', async () => {
  const { post } = await startService()
  const [error] = (await post('{"query": nope}')).body.errors ?? []
  expect(error?.message).toMatch(/^The request is not valid JSON: [^"]+'o'.$/)
})

/** What a response must never hold: a stack, or where the server's files are. */
const INTERNAL = /\n\s+at |node_modules|node:internal|file:\/\/|\.[cm]?[jt]s:\d/

const TARGETS =
  `/graphql //graphql /graphql/ /graphql// /graphql/.. /graphql/%2e%2e /graphql;x=1 // /// //[ /. /..
  //evil.example/graphql /\\ /\\\\evil.example /% /%zz /%00 /\xff /shop.html \xff * a [ http:// http://:0 http://%
  /graphql? /graphql?query /graphql?query=% /graphql?query=%zz /graphql?query={ /graphql?# /graphql?% /graphql?\xff
  /graphql?query={__typename}&variables=% /graphql?query={__typename}&variables={ /graphql?=&&==
  /graphql?query={__typename}&variables=[] /graphql?query={__typename}&extensions=x javascript:1 data:,
  /graphql?query={__typename}&variables=null&operationName= /graphql?query=${'{a'.repeat(3000)}
  /graphql?query={__typename}&query={x} /graphql?__proto__[x]=1&query={__typename} http://localhost/graphql?%
  http://localhost/graphql?query={ http://localhost// http://localhost/%`.split(/\s+/)
const METHODS = 'GET POST HEAD PUT DELETE PATCH TRACE PROPFIND OPTIONS QUERY CONNECT'.split(' ')
const HEADS = [
  ['Host: localhost'],
  ['Host: localhost', 'Accept: text/event-stream', JSON_TYPE],
  ['Host: localhost', 'Accept: multipart/mixed', 'Content-Type: multipart/form-data; boundary=x'],
  ['Host: localhost', 'Accept: \xff', 'Content-Type: \xff', 'Origin: \xff'],
  ['Host: localhost', 'Content-Type: application/graphql', 'Content-Encoding: x'],
  ['Host: localhost', 'Upgrade: websocket', 'Expect: 100-continue', 'Idempotency-Key: "'],
  ['Host: \xff', 'Host: localhost'],
  ['Host: local_host:port'],
  ['No-Host: x'],
]
const BODIES = [
  ...['', BODY, '{', '{"query":"{"}', '{"query":"{ __typename }","variables":{"__proto__":1}}'],
  '{"query":null,"operationName":{},"extensions":5}',
  '{"query":"{ __typename }","operationName":5,"extensions":[]}',
]

it('requests: reveal no stack and no path of the server in a response, however malformed they are', async () => {
  const { url, faults } = await startService()
  const requests = TARGETS.flatMap((target) =>
    METHODS.map((method, index): RawRequest => {
      const head = HEADS[(index + target.length) % HEADS.length] ?? []
      return [`${method} ${target}`, head, BODIES[(index * 3 + target.length) % BODIES.length]]
    }),
  )
  const odd: string[] = []
  await Promise.all(
    requests.map(async (request) => {
      const response = await exchange(url, request)
      if (INTERNAL.test(response) || /^HTTP\/1.1 5/.test(response)) odd.push(`${request}: ${response}`)
    }),
  )
  expect(odd).toEqual([])
  expect(faults).toEqual([])
})
