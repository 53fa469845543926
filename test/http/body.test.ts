import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createBodyReader } from '../../src/http/body.ts'
import { openWire, postHead } from '../support/client/wire.ts'
import { startFront } from '../support/server/front.ts'
import { createGate } from '../support/server/gate.ts'

const LIMIT = 1_000_000

/** A body that would count, of so many bytes. */
function bodyOf(bytes: number): string {
  const text = JSON.stringify({ query: 'mutation { increment(name: "c") { value } }' })
  return text.padEnd(bytes)
}

const TYPENAME = '{"query":"{ __typename }"}'
const READ_COUNTER = '{ counter(name: "c") { value } }'

it.each([
  ['JSON', {}],
  ['an event stream', { accept: 'text/event-stream' }],
  ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
])('body: may have 1 000 000 bytes at most, also in a request for or as %s', async (_, headers) => {
  const { post, ask } = await startFront()
  const { status, body } = await post(bodyOf(LIMIT + 1), headers)
  expect(status).toBe(413)
  expect(body.errors?.[0]?.extensions).toEqual({ code: 'REQUEST_ENTITY_TOO_LARGE', limit: LIMIT })
  expect((await ask(READ_COUNTER)).counter.value).toBe(0)
})

it('body: may have exactly 1 000 000 bytes', async () => {
  const { post } = await startFront()
  const { status, body } = await post(bodyOf(LIMIT))
  expect([status, body.data]).toEqual([200, { increment: { value: 1 } }])
})

it('body: is refused by the length that it announces, before any of it has come', async () => {
  const { url } = await startFront()
  const wire = openWire(url)
  wire.write(postHead(`Content-Length: ${LIMIT + 1}`))
  expect(await wire.received('REQUEST_ENTITY_TOO_LARGE')).toMatch(/^HTTP\/1.1 413 /)
})

it('body: of unknown length is refused as soon as it is too long', async () => {
  const { url } = await startFront()
  const wire = openWire(url)
  const chunk = `${(LIMIT + 1).toString(16)}\r\n${bodyOf(LIMIT + 1)}\r\n`
  wire.write(postHead('Transfer-Encoding: chunked'), chunk)
  expect(await wire.received('REQUEST_ENTITY_TOO_LARGE')).toMatch(/^HTTP\/1.1 413 /)
})

it.each(['announced', 'chunked'])(
  'body: (%s) can be sent to its end when it was refused, and others after it',
  async (kind) => {
    const { url } = await startFront()
    const wire = openWire(url)
    const body = bodyOf(5 * LIMIT)
    if (kind === 'announced') wire.write(postHead(`Content-Length: ${body.length}`), body)
    else {
      const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
      wire.write(postHead('Transfer-Encoding: chunked'), chunk)
    }
    wire.write(postHead(`Content-Length: ${TYPENAME.length}`), TYPENAME)
    const text = await wire.received('{"data":{"__typename":"Query"}}')
    expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
  },
)

it('body: may arrive in parts within a letter of several bytes', async () => {
  const { url } = await startFront()
  const wire = openWire(url)
  const bytes = Buffer.from(
    JSON.stringify({ query: 'mutation { increment(name: "é😀") { counter { name } } }' }),
  )
  const middle = bytes.indexOf('é') + 1
  wire.write(postHead(`Content-Length: ${bytes.length}`), bytes.subarray(0, middle))
  const other = openWire(url)
  other.write(postHead(`Content-Length: ${TYPENAME.length}`), TYPENAME)
  await other.received('Query')
  wire.write(bytes.subarray(middle))
  expect(await wire.received('}}}}')).toContain('"name":"é😀"')
})

it.each([
  ['body', postHead('Content-Length: 100').concat('{"query"')],
  ['chunked body', postHead('Transfer-Encoding: chunked').concat('9\r\n{"query":\r\n')],
  ['head', 'POST /graphql HTTP/1.1\r\nHost: localhost\r\n'],
  ['refused body', postHead(`Content-Length: ${2 * LIMIT}`).concat('{"query"')],
])('body: does not keep a connection that waits for a %s for ever', async (part, text) => {
  const { url } = await startFront({ arrivalMs: 300 })
  const wire = openWire(url)
  wire.write(text)
  expect(await wire.ended()).toMatch(part === 'refused body' ? /^HTTP\/1.1 413 / : /^HTTP\/1.1 408 /)
})

it('body: may end with its connection in the middle', async () => {
  const { url, ask, faults } = await startFront()
  for (const head of ['Content-Length: 100', 'Transfer-Encoding: chunked', `Content-Length: ${2 * LIMIT}`]) {
    const wire = openWire(url)
    wire.write(postHead(head), head.startsWith('T') ? '9\r\n{"query":\r\n' : '{"query":')
    // The server has read what was sent before it reads another connection's request.
    await ask('{ __typename }')
    wire.destroy()
  }
  expect((await ask('{ __typename }')).__typename).toBe('Query')
  expect(faults).toEqual([])
})

it('body: counts although its sender went away after it', async () => {
  const gate = createGate()
  const { url, ask, faults } = await startFront(gate)
  const wire = openWire(url)
  const body = bodyOf(0)
  wire.write(postHead(`Content-Length: ${body.length}`), body)
  await gate.reached(1)
  wire.destroy()
  await ask('{ __typename }')
  gate.open()
  await expect.poll(async () => (await ask(READ_COUNTER)).counter.value).toBe(1)
  expect(faults).toEqual([])
})

it('body: is not awaited when its sender has already left', async () => {
  const read = new Promise((resolve) => {
    const server = createServer()
    const readBody = createBodyReader(server, { reserve: () => true, graceMs: 1000, unauthorizedMs: 1000 })
    server.on('request', async (request) => {
      request.on('error', () => undefined)
      if (!request.destroyed) await new Promise((closed) => request.on('close', closed))
      resolve(await readBody(request, true))
    })
    onTestFinished(() => void server.close())
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      const socket = connect(port, '127.0.0.1')
      socket.write('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"query":')
      server.on('request', () => socket.destroy())
    })
  })
  expect(await read).toBeUndefined()
})

it('body: is not awaited when it arrives too slowly', async () => {
  const { url } = await startFront({ graceMs: 300 })
  const wire = openWire(url)
  wire.write(postHead('Content-Length: 900000'), '{'.padEnd(100))
  const answer = await wire.ended()
  expect(answer).toMatch(/^HTTP\/1.1 408 [\s\S]*\r\nconnection: close\r\n/i)
  expect(answer).toContain('too slowly')
})

it('body: is awaited when it arrives in parts, but steadily', async () => {
  const { url } = await startFront({ graceMs: 100 })
  const wire = openWire(url)
  const body = bodyOf(LIMIT / 2)
  wire.write(postHead(`Content-Length: ${body.length}`))
  const began = performance.now()
  let sent = 0
  await expect
    .poll(
      () => {
        wire.write(body.slice(sent, sent + 5_000))
        sent += 5_000
        return performance.now() - began
      },
      { interval: 10, timeout: 30_000 },
    )
    .toBeGreaterThan(500)
  wire.write(body.slice(sent))
  await wire.received('"value":1')
})

const NOBODY = { access: { adminKey: 'a-secret-of-the-administrator-0123456789' } }

it('body: of a caller who may do nothing may have 16 kB', async () => {
  const { post } = await startFront(NOBODY)
  const viewer = JSON.stringify({ query: '{ viewer { kind } }' })
  const small = await post(viewer.padEnd(16_000))
  expect([small.status, small.body.data]).toEqual([200, { viewer: { kind: 'ANONYMOUS' } }])
  const large = await post(viewer.padEnd(16_001))
  expect([large.status, large.body.errors?.[0]]).toEqual([
    413,
    {
      message: expect.stringContaining('API key'),
      extensions: { code: 'REQUEST_ENTITY_TOO_LARGE', limit: 16_000 },
    },
  ])
})

it('body: of a caller who may do nothing is awaited for a shorter time', async () => {
  const { url } = await startFront({ ...NOBODY, unauthorizedMs: 300 })
  const wire = openWire(url)
  wire.write(postHead('Content-Length: 16000'), '{'.padEnd(15_999))
  expect(await wire.ended()).toMatch(/^HTTP\/1.1 408 [\s\S]*too slowly/)
})

it('body: is charged for what has arrived of it while it is incomplete', async () => {
  // Half of it is for requests. Complete, each of these bodies would need 80 times its size.
  const { url, ask } = await startFront({ heapBytes: 8_000_000 })
  const wires = Array.from({ length: 60 }, () => openWire(url))
  const body = bodyOf(15_000)
  for (const wire of wires) wire.write(postHead(`Content-Length: ${body.length}`), body.slice(0, -1))
  // The server has read what was sent before it reads another connection's request.
  await ask('{ __typename }')
  for (const wire of wires) {
    wire.write(body.slice(-1))
    expect(await wire.received('}}')).toMatch(/^HTTP\/1.1 200 /)
  }
})

it('body: has a bound of memory for all incomplete ones, also of clients without limits', async () => {
  const { url, ask } = await startFront({ heapBytes: 8_000_000 })
  const wires = Array.from({ length: 60 }, () => openWire(url))
  for (const wire of wires) wire.write(postHead('Content-Length: 900000'), '{'.padEnd(100_000))
  expect(await Promise.any(wires.map((wire) => wire.received('UNAVAILABLE')))).toMatch(/^HTTP\/1.1 503 /)
  // Small requests have room in the other half.
  expect((await ask(READ_COUNTER)).counter.value).toBe(0)
})
