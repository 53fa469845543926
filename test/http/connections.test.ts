import { expect, it } from 'vitest'
import { countRequests, openWire, postHead } from '../support/client/wire.ts'
import { startFront } from '../support/server/front.ts'
import { createGate } from '../support/server/gate.ts'

const INCREMENT = 'mutation { increment(name: "c") { value } }'
const READ_COUNTER = '{ counter(name: "c") { value } }'
const TYPENAME = '{ __typename }'
const SUBSCRIPTION = '{"query":"subscription { counters(names: [\\"c\\"]) { value } }"}'

/** A whole request, as it goes over the wire. */
function requestOf(query: string, padding = 0): string {
  const body = JSON.stringify({ query }).padEnd(padding)
  return postHead(`Content-Length: ${body.length}`) + body
}

const valuesIn = (text: string) => [...text.matchAll(/"value":(\d+)/g)].map(([, value]) => Number(value))

it('connections: begin their requests one after another, and answer them in order', async () => {
  const gate = createGate()
  const { url, ask } = await startFront(gate)
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT).repeat(5))
  await gate.reached(1)
  await ask(TYPENAME)
  expect(gate.begun()).toBe(1)
  gate.open()
  expect(valuesIn(await wire.received('"value":5'))).toEqual([1, 2, 3, 4, 5])
})

it('connections: are not read ahead while an answer is awaited, and all requests are answered in the end', {
  tags: 'slow',
}, async () => {
  const gate = createGate()
  const { url, ask } = await startFront(gate)
  const wire = openWire(url)
  const parsed = countRequests()
  const request = requestOf(TYPENAME)
  const count = 3_000
  wire.write(requestOf(INCREMENT), request.repeat(count), requestOf(INCREMENT))
  await gate.reached(1)
  const otherRequests = 20
  for (let time = 0; time < otherRequests; time += 1) await ask(TYPENAME)
  // Node reads 64 kB at a time.
  expect(parsed() - otherRequests).toBeLessThanOrEqual(2 * Math.ceil(65_536 / request.length))
  gate.open()
  const text = await wire.received('"value":2')
  expect(text.match(/"__typename":"Query"/g)).toHaveLength(count)
})

it('connections: have the body of a request read that waited for its turn', async () => {
  const gate = createGate()
  const { url, ask } = await startFront(gate)
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT), requestOf(TYPENAME).repeat(3), requestOf(INCREMENT, 900_000))
  await gate.reached(1)
  await ask(TYPENAME)
  gate.open()
  expect(valuesIn(await wire.received('"value":2'))).toEqual([1, 2])
})

it('connections: begin nothing more for a caller who has gone', async () => {
  const gate = createGate()
  const { url, ask, faults } = await startFront(gate)
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT).repeat(5))
  await gate.reached(1)
  wire.reset()
  await ask(TYPENAME)
  gate.open()
  await expect.poll(async () => (await ask(READ_COUNTER)).counter.value).toBe(1)
  // Whatever was to come after it would have come by now.
  await ask(INCREMENT)
  expect([gate.begun(), faults]).toEqual([2, []])
})

it('closing: ends a connection with the answer in flight, and begins nothing more on it', async () => {
  const gate = createGate()
  const { url, close, faults } = await startFront(gate)
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT).repeat(2))
  await gate.reached(1)
  const closed = close()
  gate.open()
  const text = await wire.ended()
  await closed
  expect(text.match(/HTTP\/1.1 \d+|Connection: \S+/gi)).toEqual(['HTTP/1.1 200', 'Connection: close'])
  expect([gate.begun(), faults]).toEqual([1, []])
})

it.each([
  [
    'the head of a page of another origin',
    ['POST /graphql HTTP/1.1\r\n', 'Host: localhost\r\nOrigin: https://shop.example\r\n\r\n'],
  ],
  [
    // What opened then would keep the server from closing.
    'the body of a subscription',
    [postHead('Accept: text/event-stream', `Content-Length: ${SUBSCRIPTION.length}`), SUBSCRIPTION],
  ],
])('closing: refuses what arrives later, such as %s', async (_, [before = '', after = '']) => {
  const { url, ask, close, faults } = await startFront()
  const wire = openWire(url)
  wire.write(before)
  await ask(TYPENAME)
  const closed = close()
  wire.write(after)
  const text = await wire.ended()
  await closed
  expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 503'])
  expect(faults).toEqual([])
})

it.each([1, 3])(
  'connections: answer %i requests of a caller who says that it has sent all',
  async (count) => {
    const gate = createGate()
    const { url, ask } = await startFront(gate)
    const wire = openWire(url)
    wire.write(requestOf(INCREMENT).repeat(count))
    wire.end()
    await gate.reached(1)
    await ask(TYPENAME)
    gate.open()
    const text = await wire.ended()
    expect(text.match(/HTTP\/1.1 200/g)).toHaveLength(count)
    expect(valuesIn(text)).toHaveLength(count)
  },
)

it('memory: requests without room are refused with 503, not executed, and accepted later', async () => {
  const gate = createGate()
  const { url, ask } = await startFront({ ...gate, heapBytes: 120_000 })
  const wires = Array.from({ length: 10 }, () => openWire(url))
  for (const wire of wires) wire.write(requestOf(INCREMENT))
  const refused = await Promise.any(wires.map((wire) => wire.received('}]}')))
  expect(refused).toMatch(/^HTTP\/1.1 503 /)
  expect(refused).toMatch(/\r\nretry-after: 1\r\n/)
  expect(JSON.parse(refused.slice(refused.indexOf('{'))).errors).toEqual([
    {
      message: expect.stringContaining('this one was not executed'),
      extensions: { code: 'UNAVAILABLE', retryable: true, retryAfterMs: 1000 },
    },
  ])
  gate.open()
  const answers = await Promise.all(wires.map((wire) => wire.received(/"value":\d+|UNAVAILABLE/)))
  const done = answers.flatMap(valuesIn).length
  expect(done).toBeGreaterThan(1)
  expect((await ask(READ_COUNTER)).counter.value).toBe(done)
  // The same connections serve again.
  for (const [index, wire] of wires.entries()) {
    wire.write(requestOf(`{ a${index}: __typename }`))
    await wire.received(`{"a${index}":"Query"}`)
  }
})

it('memory: has room for small requests when large ones have taken theirs', async () => {
  const gate = createGate()
  const { url, ask, post } = await startFront({ ...gate, heapBytes: 20_000_000 })
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT, 200_000))
  await gate.reached(1)
  const large = JSON.stringify({ query: INCREMENT }).padEnd(200_000)
  const { status, body } = await post(large)
  expect([status, body.errors?.[0]?.extensions.code]).toEqual([503, 'UNAVAILABLE'])
  await ask(TYPENAME)
  gate.open()
  await wire.received('"value":1')
  expect((await post(large)).body.data.increment.value).toBe(2)
})

it('memory: has room for any request that is alone', async () => {
  const { post } = await startFront({ heapBytes: 1_000_000 })
  const { status } = await post(JSON.stringify({ query: INCREMENT }).padEnd(1_000_000))
  expect(status).toBe(200)
})

it('memory: a connection ends on which more requests wait than there is room for', async () => {
  const gate = createGate()
  const { url, ask } = await startFront({ ...gate, heapBytes: 400_000 })
  const wire = openWire(url)
  wire.write(requestOf(INCREMENT))
  await gate.reached(1)
  wire.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(1000))
  expect(await wire.ended()).toBe('')
  // What was begun is finished.
  gate.open()
  await expect.poll(async () => (await ask(READ_COUNTER)).counter.value).toBe(1)
})

const PROXY = {
  access: { trustedProxies: ['127.0.0.1'], adminKey: undefined, anonymous: ['ADMIN' as const] },
}

/** A whole request of a client behind a proxy. */
function forwarded(client: string, query: string, padding = 0): string {
  return requestOf(query, padding).replace('Host:', `X-Forwarded-For: ${client}\r\nHost:`)
}

it('memory: no client takes what another one needs', async () => {
  const gate = createGate()
  const { url } = await startFront({ ...gate, ...PROXY, heapBytes: 4_000_000 })
  const wires = Array.from({ length: 100 }, () => openWire(url))
  for (const wire of wires) wire.write(forwarded('192.0.2.1', INCREMENT))
  expect(await Promise.any(wires.map((wire) => wire.received('}]}')))).toMatch(/^HTTP\/1.1 503 /)
  const other = openWire(url)
  other.write(forwarded('192.0.2.2', TYPENAME, 5_000))
  expect(await other.received('}}')).toMatch(/^HTTP\/1.1 200 /)
  gate.open()
  await Promise.all(wires.map((wire) => wire.received(/"value":\d+|UNAVAILABLE/)))
})

it('memory: pages and health are answered when requests use all of it, and /ready is 503', async () => {
  const gate = createGate()
  const { url } = await startFront({ ...gate, heapBytes: 120_000 })
  const wires = Array.from({ length: 10 }, () => openWire(url))
  for (const wire of wires) wire.write(requestOf(INCREMENT))
  await Promise.any(wires.map((wire) => wire.received('UNAVAILABLE')))
  const statusOf = async (path: string) =>
    (await fetch(url + path, { headers: { accept: 'text/html' } })).status
  expect(await statusOf('/')).toBe(200)
  expect(await statusOf('/graphql')).toBe(200)
  expect(await statusOf('/health')).toBe(200)
  const { status, headers } = await fetch(`${url}/ready`)
  expect([status, headers.get('cache-control')]).toEqual([503, 'no-store'])
  gate.open()
  await Promise.all(wires.map((wire) => wire.received(/"value":\d+|UNAVAILABLE/)))
  await expect.poll(() => statusOf('/ready')).toBe(200)
})

it('memory: no connection ends whose client waits for a few answers while others use all of it', async () => {
  const gate = createGate()
  const { url } = await startFront({ ...gate, heapBytes: 120_000 })
  const pipelining = openWire(url)
  pipelining.write(requestOf(INCREMENT))
  await gate.reached(1)
  const wires = Array.from({ length: 10 }, () => openWire(url))
  for (const wire of wires) wire.write(requestOf(INCREMENT))
  await Promise.any(wires.map((wire) => wire.received('UNAVAILABLE')))
  pipelining.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(3))
  gate.open()
  const text = await pipelining.received(/(200 OK[\s\S]*){4}/)
  expect(valuesIn(text)).toHaveLength(1)
})
