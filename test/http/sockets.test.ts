import { once } from 'node:events'
import { connect } from 'node:net'
import { createClient } from 'graphql-ws'
import { expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { type Message, openSocket } from '../support/client/sockets.ts'
import { frame, openWire } from '../support/client/wire.ts'
import { startFront } from '../support/server/front.ts'

const VALUES = 'subscription ($names: [String!]!) { counters(names: $names) { name value } }'
const increment = (name: string) => `mutation { increment(name: "${name}") { value } }`
const next = (id: string, ...counters: object[]) => ({ type: 'next', id, payload: { data: { counters } } })

it('WebSockets: send what is there, then what changes, of several subscriptions on one connection', async () => {
  const { url, ask } = await startFront()
  const socket = await openSocket(url)
  await socket.init()
  socket.subscribe('1', VALUES, { names: ['a', 'b'] })
  expect(await socket.next()).toEqual(next('1', { name: 'a', value: 0 }, { name: 'b', value: 0 }))
  socket.subscribe('two "quoted"', VALUES, { names: ['a'] })
  expect(await socket.next()).toEqual(next('two "quoted"', { name: 'a', value: 0 }))
  await ask(increment('b'))
  expect(await socket.next()).toEqual(next('1', { name: 'b', value: 1 }))
  socket.send({ type: 'complete', id: '1' })
  await ask(increment('b'))
  await ask(increment('a'))
  expect(await socket.next()).toEqual(next('two "quoted"', { name: 'a', value: 1 }))
  // Its id is free again.
  socket.subscribe('1', VALUES, { names: ['b'] })
  expect(await socket.next()).toEqual(next('1', { name: 'b', value: 2 }))
})

it('WebSockets: serve the client of graphql-ws', async () => {
  const { url, ask } = await startFront()
  const client = createClient({ url: `${url.replace('http', 'ws')}/graphql`, webSocketImpl: WebSocket })
  const events = client.iterate({ query: VALUES, variables: { names: ['a'] } })
  expect((await events.next()).value).toEqual({ data: { counters: [{ name: 'a', value: 0 }] } })
  await ask(increment('a'))
  expect((await events.next()).value).toEqual({ data: { counters: [{ name: 'a', value: 1 }] } })
  await events.return?.()
  await client.dispose()
})

it.each([
  ['a query', '{ counter(name: "a") { value } }', 'OPERATION_RESOLUTION_FAILURE'],
  ['a mutation', increment('a'), 'OPERATION_RESOLUTION_FAILURE'],
  ['no GraphQL', '{', 'GRAPHQL_PARSE_FAILED'],
  ['an unknown field', 'subscription { no }', 'GRAPHQL_VALIDATION_FAILED'],
  ['a wrong argument', 'subscription { counters(names: []) { value } }', 'BAD_USER_INPUT'],
])('WebSockets: answer %s with an error, and go on', async (_, query, code) => {
  const { url, ask, faults } = await startFront()
  const socket = await openSocket(url)
  await socket.init()
  for (const id of ['1', '2', '3']) {
    socket.subscribe(id, query)
    expect(await socket.next()).toMatchObject({ type: 'error', id, payload: [{ extensions: { code } }] })
  }
  socket.subscribe('1', VALUES, { names: ['a'] })
  expect(await socket.next()).toEqual(next('1', { name: 'a', value: 0 }))
  expect(await ask('{ counter(name: "a") { value } }')).toEqual({ counter: { value: 0 } })
  expect(faults).toEqual([])
})

const INIT = '{"type":"connection_init"}'
const subscribing = (id: string, query = 'subscription { counters(names: ["a"]) { value } }') =>
  JSON.stringify({ type: 'subscribe', id, payload: { query } })

it.each([
  ['no JSON', ['{'], 4400],
  ['another message', ['{"type":"stop"}'], 4400],
  ['a list', ['[]'], 4400],
  ['null', ['null'], 4400],
  ['a subscription without a document', [INIT, '{"type":"subscribe","id":"1","payload":{}}'], 4400],
  ['too many values', [INIT, `[${'[],'.repeat(50_000)}[]]`], 4400],
  ['bytes', [Buffer.from(INIT)], 4400],
  ['a subscription before its init', [subscribing('1')], 4401],
  ['a second init', [INIT, INIT], 4429],
  ['a long init', [JSON.stringify({ type: 'connection_init', payload: { x: 'x'.repeat(20_000) } })], 4400],
  ['an id twice', [INIT, subscribing('1'), subscribing('1')], 4409],
  ['too much', [INIT, `"${'x'.repeat(1_000_001)}"`], 1009],
  ['a long id', [INIT, ...Array(2).fill(subscribing('x'.repeat(900_000)))], 4400],
])('WebSockets: close when they receive %s', async (_, messages: (string | Buffer)[], code) => {
  const { url, faults } = await startFront()
  const socket = await openSocket(url)
  for (const message of messages) socket.socket.send(message)
  expect((await socket.closed).code).toBe(code)
  expect(faults).toEqual([])
})

it('WebSockets: close if their client speaks another protocol, or says nothing', async () => {
  const { url } = await startFront({ initMs: 50 })
  await expect(openSocket(url, { protocol: 'graphql-ws' })).rejects.toThrow('Server sent no subprotocol')
  expect(await (await openSocket(url, { protocol: '' })).closed).toMatchObject({ code: 4406 })
  expect(await (await openSocket(url)).closed).toMatchObject({ code: 4408 })
})

it('WebSockets: close if their client doesn’t answer, and no others', async () => {
  const { url, ask } = await startFront({ heartbeatMs: 50 })
  const silent = await openSocket(url)
  await silent.init()
  silent.socket.removeAllListeners('message')
  const alive = await openSocket(url)
  await alive.init()
  alive.subscribe('1', VALUES, { names: ['a'] })
  await alive.next()
  expect((await silent.closed).code).toBe(1006)
  await ask(increment('a'))
  expect(await alive.next()).toEqual(next('1', { name: 'a', value: 1 }))
})

it('credentials: come with the init, the header or the address', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], names: ['a'] }])
  const origin = 'https://shop.example'
  const page = await createKey([{ scopes: ['READ'], names: ['a'] }], { origins: [origin] })
  const ways = [
    [{}, { Authorization: `Bearer ${secret}` }],
    [{}, { authorization: `bearer ${secret}` }],
    [{ headers: { authorization: `Bearer ${secret}` } }, undefined],
    [{ headers: { authorization: `Bearer ${ADMIN_KEY}x` } }, { Authorization: `Bearer ${secret}` }],
    [{ path: `/graphql?key=${page.secret}`, origin }, undefined],
    [{ origin }, { Authorization: `Bearer ${page.secret}` }],
  ] as const
  for (const [options, payload] of ways) {
    const socket = await openSocket(url, options)
    await socket.init(payload)
    socket.subscribe('1', VALUES, { names: ['a', 'b'] })
    expect(await socket.next()).toMatchObject({
      payload: { data: { counters: [{ value: 0 }, null] }, errors: [{ extensions: { code: 'FORBIDDEN' } }] },
    })
  }
})

it.each([
  ['wrong credentials', {}, { Authorization: 'Bearer wrong' }, 4401],
  ['no text', {}, { Authorization: 7 }, 4401],
  ['what is no text', {}, { Authorization: { toString: 7 } }, 4401],
  ['a page without a key', { origin: 'https://evil.example' }, {}, 4403],
  ['a page with a key for servers', { origin: 'https://evil.example' }, 'KEY', 4403],
] as const)('credentials: close the connection of %s', async (_, options, payload, code) => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'] }])
  const socket = await openSocket(url, options)
  socket.send({
    type: 'connection_init',
    payload: payload === 'KEY' ? { Authorization: `Bearer ${secret}` } : payload,
  })
  const { code: closed, reason } = await socket.closed
  expect([closed, Buffer.byteLength(reason) > 10]).toEqual([code, true])
})

it('credentials: close the connection of a key that is revoked', async () => {
  const { url, admin, createKey } = await startProtected()
  const { secret, id } = await createKey([{ scopes: ['READ'] }])
  const [watching, idle] = [await openSocket(url), await openSocket(url)]
  for (const socket of [watching, idle]) await socket.init({ Authorization: `Bearer ${secret}` })
  watching.subscribe('1', VALUES, { names: ['a'] })
  await watching.next()
  await admin.ask('mutation ($id: ID!) { revokeApiKey(id: $id) { id } }', { id })
  expect(await watching.closed).toMatchObject({ code: 4401 })
  idle.subscribe('1', VALUES, { names: ['a'] })
  expect(await idle.closed).toMatchObject({ code: 4401 })
})

it('limits: a WebSocket counts as one stream, with at most 200 operations', async () => {
  const { url, createKey } = await startProtected({
    maxStreams: 2,
    access: { trustedProxies: ['127.0.0.1'] },
  })
  const { secret } = await createKey([{ scopes: ['READ'] }])
  const headers = { 'x-forwarded-for': '203.0.113.7' }
  const payload = { Authorization: `Bearer ${secret}` }
  const [first, second] = [await openSocket(url, { headers }), await openSocket(url, { headers })]
  for (const socket of [first, second]) await socket.init(payload)
  const third = await openSocket(url, { headers })
  third.send({ type: 'connection_init', payload })
  expect(await third.closed).toMatchObject({ code: 1013, reason: expect.stringMatching(/^Too many sub/) })
  const elsewhere = await openSocket(url, { headers: { 'x-forwarded-for': '203.0.113.8' } })
  await elsewhere.init(payload)
  for (let id = 0; id < 201; id++) first.subscribe(String(id), VALUES, { names: ['a'] })
  const answers: Message[] = []
  while (answers.length < 201) answers.push(await first.next())
  const refused = answers.filter(({ type }) => type === 'error')
  expect(refused).toMatchObject([
    { id: '200', payload: [{ extensions: { code: 'RATE_LIMITED', limit: 200 } }] },
  ])
  first.socket.close()
  await first.closed
  await expect
    .poll(async () => {
      const again = await openSocket(url, { headers })
      again.send({ type: 'connection_init', payload })
      return (await Promise.race([again.next(), again.closed])) as object
    })
    .toEqual({ type: 'connection_ack' })
})

it('WebSockets: send the newest state to a client that has not read', async () => {
  const { url, ask } = await startFront()
  const socket = await openSocket(url)
  await socket.init()
  const names = upTo(500).map((name) => `${name}`.padStart(150, 'x'))
  const ids = upTo(20).map(String)
  for (const id of ids) socket.subscribe(id, VALUES, { names })
  for (const _ of ids) await socket.next()
  socket.socket.pause()
  await ask('mutation ($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }', {
    changes: names.map((name) => ({ name, delta: 1 })),
  })
  const newest = 30
  for (let to = 2; to <= newest; to++)
    await ask(`mutation { resetAll(namespace: "default", to: ${to}) { resetCount } }`)
  socket.socket.resume()
  const last = new Map<string | undefined, number>()
  while (ids.some((id) => last.get(id) !== newest)) {
    const { id, payload } = await socket.next()
    const { counters } = (payload as { data: { counters: { name: string; value: number }[] } }).data
    const value = counters.find(({ name }) => name === names[0])?.value ?? last.get(id) ?? 0
    expect(value).toBeGreaterThanOrEqual(last.get(id) ?? 0)
    last.set(id, value)
  }
  // Not one event for each change.
  expect(socket.messages.length).toBeLessThan(ids.length * (newest - 1))
})

it('WebSockets: close when the server stops, so that their clients come back', async () => {
  const { url, close } = await startFront()
  const [watching, idle, silent] = [await openSocket(url), await openSocket(url), await openSocket(url)]
  for (const socket of [watching, idle]) await socket.init()
  watching.subscribe('1', VALUES, { names: ['a'] })
  await watching.next()
  await close()
  for (const { closed } of [watching, idle, silent]) expect(await closed).toMatchObject({ code: 1001 })
})

it('WebSockets: are refused at other paths and for other hosts', async () => {
  const { url } = await startFront()
  for (const [path, headers, status] of [
    ['/', {}, 404],
    ['/graphqlx', {}, 404],
    ['/graphql', { host: 'evil.example' }, 403],
    ['/graphql?key=a&key=b', {}, 400],
  ] as const)
    await expect(openSocket(url, { path, headers })).rejects.toThrow(`Unexpected server response: ${status}`)
})

const upgrade = (path = '/graphql') =>
  [
    ...[`GET ${path} HTTP/1.1`, 'Host: 127.0.0.1', 'Connection: Upgrade', 'Upgrade: websocket'],
    ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='],
    ...[
      'Sec-WebSocket-Protocol: graphql-transport-ws',
      'Sec-WebSocket-Extensions: permessage-deflate',
      '',
      '',
    ],
  ].join('\r\n')

it('upgrades: may be left by their clients before they are refused', async () => {
  const { url, ask } = await startFront()
  for (let index = 0; index < 200; index += 1) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(upgrade('/'), () => socket.resetAndDestroy())
    await once(socket, 'close')
  }
  expect(await ask('{ counter(name: "a") { value } }')).toEqual({ counter: { value: 0 } })
})

it('compression: is not negotiated, and closes a connection', async () => {
  const { url } = await startFront()
  const wire = openWire(url)
  wire.write(upgrade(), frame('x', { isCompressed: true }))
  const text = await wire.ended()
  expect(text).toMatch(/^HTTP\/1.1 101 /)
  expect(text).not.toMatch(/deflate/)
})

it('ping frames: are answered', async () => {
  const { url } = await startFront({ heartbeatMs: 50 })
  const socket = await openSocket(url)
  await socket.init()
  // What a ping frame leaves behind would look like a message that doesn't end.
  const heartbeats = () => socket.messages.filter(({ type }) => type === 'ping').length
  while (heartbeats() < 5) {
    const pong = once(socket.socket, 'pong')
    socket.socket.ping('a')
    expect(String((await pong)[0])).toBe('a')
  }
})

it('ping frames: break a connection that sends many at once', async () => {
  const { url } = await startFront()
  const wire = openWire(url)
  wire.write(Buffer.concat([Buffer.from(upgrade()), ...Array(1000).fill(frame('a', { opcode: 9 }))]))
  await wire.ended()
})

it('WebSockets: give back all memory that they were charged for', { tags: 'slow' }, async () => {
  const access = { trustedProxies: ['127.0.0.1'], anonymous: ['READ' as const] }
  const { url, post, faults } = await startFront({ heapBytes: 8_000_000, access })
  const headers = { 'x-forwarded-for': '192.0.2.1' }
  /** How many streams the memory of the client has room for. */
  const countRoom = async () => {
    const streams: Awaited<ReturnType<typeof subscribe>>[] = []
    do {
      const document = `subscription { counters(names: ["${streams.length}"]) { value } }`
      streams.push(await subscribe(url, document, { headers }))
    } while (streams.at(-1)?.status === 200)
    for (const stream of streams) stream.close()
    return streams.length
  }
  const room = await countRoom()
  expect(room).toBeGreaterThan(10)
  const [init, operation] = [frame(INIT), frame(subscribing('1'))]
  const head = upgrade().replace('Host', 'X-Forwarded-For: 192.0.2.1\r\nHost')
  const messages: (string | Buffer)[][] = [
    [],
    [init, operation],
    [init, operation, frame('{"type":"complete","id":"1"}'), operation],
    [init, frame('x'.repeat(1000), { length: 900_000 })],
    [init, frame('"', { isLast: false }), frame('', { opcode: 9 }), frame('x', { opcode: 0, isLast: false })],
    [init, ...Array(3000).fill(frame('{"type":"ping"}'))],
    Array(3000).fill(frame('{}')),
    [init, ...Array(300).fill(operation)],
    [frame('x', { isCompressed: true }), frame('y'.repeat(50_000))],
  ]
  for (const time of upTo(5)) {
    const wires = messages.map((parts) => {
      const wire = openWire(url)
      wire.write(head, ...parts)
      return wire
    })
    await Promise.all(wires.map((wire) => wire.received(/^HTTP.*\r\n/)))
    await wires[1]?.received(/"next"|"error"|HTTP\/1.1 [45]/)
    for (const [index, wire] of wires.entries()) (index + time) % 2 ? wire.destroy() : wire.reset()
  }
  await expect.poll(countRoom).toBe(room)
  // A request that needs more than there is, is answered only if nothing else is charged.
  const large = '{"query":"{ __typename }"}'.padEnd(1_000_000)
  await expect.poll(async () => (await post(large)).status).toBe(200)
  expect(faults).toEqual([])
})
