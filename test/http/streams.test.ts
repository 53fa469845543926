import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished, vi } from 'vitest'
import { invalidCredential } from '../../src/http/errors.ts'
import { Stream } from '../../src/http/stream.ts'
import { upTo } from '../support/client/client.ts'
import { type Sent, subscribe } from '../support/client/events.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { openSocket, subscribeOnSocket } from '../support/client/sockets.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openSwitchboard } from '../support/database/switchboard.ts'
import { startFront } from '../support/server/front.ts'
import { startService } from '../support/server/service.ts'
import { soon } from '../support/soon.ts'

const VALUES =
  'subscription ($names: [String!]!) { counters(names: $names, namespace: "shop") { name value } }'
const a = { variables: { names: ['a'] } }
const bearer = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } })
const increment = (name: string) => `mutation { increment(namespace: "shop", name: "${name}") { value } }`

const codesOf = (sent: Sent) =>
  typeof sent === 'string' ? sent : sent.errors?.map(({ extensions }) => extensions.code)

it('rights: a subscription to nothing but what is not granted is refused, with a status, without a statement', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'shop', prefix: 'a' }])
  const { secret: adder } = await createKey([{ scopes: ['ADD'], namespace: 'shop' }])
  const outside = { variables: { names: ['b', 'c'] } }
  const statements = collectStatements()
  for (const [options, status, code] of [
    [a, 401, 'UNAUTHENTICATED'],
    [{ ...a, ...bearer(`${ADMIN_KEY}!`) }, 401, 'UNAUTHENTICATED'],
    [{ ...a, ...bearer(adder) }, 403, 'FORBIDDEN'],
    [{ ...outside, ...bearer(secret) }, 403, 'FORBIDDEN'],
  ] as const) {
    const stream = await subscribe(url, VALUES, options)
    expect([stream.status, (await stream.body()).errors?.[0]?.extensions.code]).toEqual([status, code])
    if (status === 401) expect(stream.headers['www-authenticate']).toContain('Bearer')
    const isWrong = status === 401 && 'headers' in options
    const [answer] = [await subscribeOnSocket(url, VALUES, options)].flat()
    expect(answer).toMatchObject(isWrong ? { code: 4401 } : { extensions: { code } })
  }
  expect(statements).toEqual([])
})

it('rights: a name that is not granted is null beside an error, in the first event only', async () => {
  const { url, admin, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'shop', prefix: 'a' }])
  const options = { variables: { names: ['b', 'a', 'b', 'a1'] }, ...bearer(secret) }
  const stream = await subscribe(url, VALUES, options)
  const socket = await openSocket(url, bearer(secret))
  await socket.init()
  socket.subscribe('1', VALUES, options.variables)
  const first = await stream.next()
  expect(codesOf(first)).toEqual(['FORBIDDEN'])
  expect(first).toMatchObject({
    data: { counters: [null, { name: 'a', value: 0 }, { name: 'a1', value: 0 }] },
    errors: [{ path: ['counters', 0] }],
  })
  expect((await socket.next()).payload).toEqual(first)
  await admin.ask(increment('b'))
  await admin.ask(increment('a1'))
  const second = { data: { counters: [{ name: 'a1', value: 1 }] } }
  expect(await stream.next()).toEqual(second)
  expect((await socket.next()).payload).toEqual(second)
})

it('rights: callers with other rights share no event', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'shop', names: ['a'] }])
  const names = { variables: { names: ['a', 'b'] } }
  const [all, some] = [
    await subscribe(url, VALUES, { ...names, ...bearer(ADMIN_KEY) }),
    await subscribe(url, VALUES, { ...names, ...bearer(secret) }),
  ]
  expect(codesOf(await all.next())).toBeUndefined()
  expect(codesOf(await some.next())).toEqual(['FORBIDDEN'])
  for (const [key, payload] of [
    [ADMIN_KEY, { data: { counters: [{ name: 'a' }, { name: 'b' }] } }],
    [secret, { data: { counters: [{ name: 'a' }, null] }, errors: [{ extensions: { code: 'FORBIDDEN' } }] }],
  ] as const)
    expect(await subscribeOnSocket(url, VALUES, { ...names, ...bearer(key) })).toMatchObject(payload)
})

it('rights: the streams of a key end when it is revoked, in every process, or expires', async () => {
  const target = await freshDatabase()
  const [first, second] = [await startProtected({ target }), await startProtected({ target })]
  const rights = [{ scopes: ['READ'], namespace: 'shop' }]
  const { secret, id } = await first.createKey(rights)
  const { secret: other } = await first.createKey(rights)
  /** The stream of a key that lives as short as this machine lets it be used. */
  const openExpiring = async (lifetimeMs = 1500): ReturnType<typeof subscribe> => {
    const expiresAt = new Date(Date.now() + lifetimeMs)
    const { secret: expiring } = await first.createKey(rights, { expiresAt })
    const stream = await subscribe(first.url, VALUES, { ...a, ...bearer(expiring) })
    return stream.status === 200 ? stream : openExpiring(4 * lifetimeMs)
  }
  const streams = [
    await subscribe(first.url, VALUES, { ...a, ...bearer(secret) }),
    await subscribe(second.url, VALUES, { ...a, ...bearer(secret) }),
    await openExpiring(),
  ]
  const kept = await subscribe(first.url, VALUES, { ...a, ...bearer(other) })
  for (const stream of [...streams, kept]) await stream.data()
  await first.admin.ask(`mutation { revokeApiKey(id: "${id}") { id } }`)
  for (const stream of streams) {
    expect(codesOf(await stream.next())).toEqual(['UNAUTHENTICATED'])
    expect(await stream.next()).toBe('complete')
  }
  await first.admin.ask(increment('a'))
  expect(await kept.data()).toEqual({ counters: [{ name: 'a', value: 1 }] })
})

it('limits: the streams of a key at an address are limited, and no others', async () => {
  const { url, createKey } = await startProtected({
    maxStreams: 2,
    access: { adminKey: ADMIN_KEY, trustedProxies: ['127.0.0.1'] },
  })
  const rights = [{ scopes: ['READ'], namespace: 'shop' }]
  const [one, other] = [await createKey(rights), await createKey(rights)]
  const open = (secret: string, client: string) =>
    subscribe(url, VALUES, { ...a, headers: { ...bearer(secret).headers, 'x-forwarded-for': client } })
  const streams = [await open(one.secret, '192.0.2.1'), await open(one.secret, '192.0.2.1')]
  const refused = await open(one.secret, '192.0.2.1')
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '10'])
  expect((await refused.body()).errors?.[0]).toMatchObject({
    message:
      'Too many subscriptions: the limit is 2 for these credentials and this address. Close one first.',
    extensions: { code: 'RATE_LIMITED', limit: 2, retryable: true },
  })
  for (const stream of [await open(one.secret, '192.0.2.2'), await open(other.secret, '192.0.2.1')])
    expect(stream.status).toBe(200)
  streams[0]?.close()
  await expect.poll(async () => (await open(one.secret, '192.0.2.1')).status).toBe(200)
})

/** A subscription with so many fields. */
const fieldsOf = (count: number, name = 'a') =>
  `subscription { counters(namespace: "shop", names: ["${name}"]) { ${upTo(count)
    .map((n) => `a${n}:id`)
    .join(' ')} } }`

const behindProxy = {
  heapBytes: 100_000_000,
  access: { trustedProxies: ['127.0.0.1'], anonymous: ['ADMIN' as const] },
}

it('limits: the memory that the streams of an address keep is bounded, and others have theirs', async () => {
  // Streams may keep a quarter of it. Each of these documents needs about 1 MB.
  const { url } = await startFront(behindProxy)
  const open = (name: string, client: string) =>
    subscribe(url, fieldsOf(600, name), { method: 'POST', headers: { 'x-forwarded-for': client } })
  const opened = []
  for (let index = 0; index < 30; index += 1) opened.push(await open(`a${index}`, '192.0.2.1'))
  const refused = opened.filter(({ status }) => status !== 200)
  expect(opened.length - refused.length).toBeGreaterThan(5)
  expect(refused.length).toBeGreaterThan(5)
  for (const { status, headers, body } of refused) {
    expect([status, headers['retry-after']]).toEqual([429, '10'])
    expect((await body()).errors?.[0]?.extensions).toMatchObject({ code: 'RATE_LIMITED', retryable: true })
  }
  expect((await open('b', '192.0.2.2')).status).toBe(200)
  for (const stream of opened) stream.close()
  await expect.poll(async () => (await open('c', '192.0.2.1')).status).toBe(200)
})

it('limits: the memory that all streams keep is bounded, also of clients without limits', async () => {
  const { url, ask } = await startFront({ heapBytes: 20_000_000 })
  const open = (index: number) => subscribe(url, fieldsOf(600, `a${index}`), { method: 'POST' })
  const streams = []
  for (let index = 0; index < 10; index += 1) streams.push(await open(index))
  const refused = streams.filter(({ status }) => status === 503)
  expect(refused.length).toBeGreaterThan(2)
  expect((await refused[0]?.body())?.errors?.[0]?.extensions.code).toBe('UNAVAILABLE')
  // Requests have a budget of their own: a large one as well.
  const names = upTo(300).map((name) => String(name).padEnd(150, 'x'))
  expect(
    (await ask('query ($names: [String!]!) { counters(names: $names) { value } }', { names })).counters,
  ).toHaveLength(300)
})

it('limits: a document is kept once for all of its streams', { tags: 'slow' }, async () => {
  const { url } = await startFront({ heapBytes: 20_000_000 })
  const document = fieldsOf(600)
    .replace('subscription', 'subscription ($names: [String!]!)')
    .replace('["a"]', '$names')
  for (let index = 0; index < 20; index += 1) {
    const stream = await subscribe(url, document, { method: 'POST', variables: { names: [`a${index}`] } })
    expect(stream.status).toBe(200)
  }
})

it('limits: one client may watch half of the names of a process at most', async () => {
  const { url, createKey } = await startProtected({
    access: { adminKey: ADMIN_KEY, trustedProxies: ['127.0.0.1'] },
  })
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'shop' }])
  const open = (part: number, client: string) =>
    subscribe(url, VALUES, {
      variables: { ...a.variables, names: upTo(500).map((name) => `${part} ${name}`) },
      headers: { ...bearer(secret).headers, 'x-forwarded-for': client },
      method: 'POST',
    })
  const streams = await Promise.all(upTo(20).map((part) => open(part, '192.0.2.1')))
  expect(streams.map(({ status }) => status)).toEqual(Array(20).fill(200))
  const refused = await open(21, '192.0.2.1')
  expect(refused.status).toBe(429)
  expect((await refused.body()).errors?.[0]).toMatchObject({
    message: expect.stringMatching(/^Too many names in subscriptions: the limit is 10000 for these/),
    extensions: { code: 'RATE_LIMITED', limit: 10_000 },
  })
  expect((await open(21, '192.0.2.2')).status).toBe(200)
  streams[0]?.close()
  await expect.poll(async () => (await open(21, '192.0.2.1')).status).toBe(200)
})

it('streams: replace what a client has not read yet with the newest state', { tags: 'slow' }, async () => {
  const { url, ask } = await startService()
  // Some of these events are more than the sockets keep for a client that doesn't read.
  const names = upTo(500).map((name) => `${name}`.padStart(190, 'n'))
  const open = (fields: string) =>
    subscribe(url, `subscription ($names: [String!]!) { counters(names: $names) { ${fields} } }`, {
      variables: { names },
      method: 'POST',
    })
  const [deaf, reading] = [await open('name value a: name b: name c: name'), await open('value')]
  deaf.response.pause()
  const last = 40
  for (const time of upTo(last)) {
    await ask('mutation ($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }', {
      changes: names.map((name) => ({ name, delta: 1 })),
    })
    await reading.until(({ counters }) => counters.some(({ value }: { value: number }) => value === time))
  }
  deaf.response.resume()
  const values = new Map(names.map((name) => [name, 0]))
  let events = 0
  for (; [...values.values()].some((value) => value < last); events += 1)
    for (const { name, value } of (await deaf.data()).counters) {
      expect(value).toBeGreaterThanOrEqual(values.get(name) ?? 0)
      values.set(name, value)
    }
  expect(events).toBeLessThan(last)
})

it('streams: have heartbeats while nothing changes', async () => {
  const { url } = await startFront({ heartbeatMs: 50 })
  const stream = await subscribe(url, VALUES, a)
  await stream.data()
  await expect.poll(() => stream.comments.length).toBeGreaterThan(2)
  expect(new Set(stream.comments)).toEqual(new Set([':']))
})

it.each([false, true])(
  'streams: close when the client ends its side; after the first event: %s',
  async (isStarted) => {
    const { url } = await startFront()
    const query = encodeURIComponent('subscription { counters(names: ["a"]) { value } }')
    const head = `GET /graphql?query=${query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n`
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
    onTestFinished(() => void socket.destroy())
    const closed = once(socket, 'close')
    socket.write(head)
    if (isStarted) expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1.1 200 /)
    socket.end()
    socket.resume()
    await soon('the end of the connection', closed)
  },
)

it('streams: are broken without an end when the server stops, so that their clients come back', async () => {
  const { url, close } = await startFront()
  const streams = await Promise.all(Array.from({ length: 5 }, () => subscribe(url, VALUES, a)))
  for (const stream of streams) await stream.data()
  // By itself: what is still open after ten seconds is broken in any case.
  const closed = soon('the end', close(), 9000)
  for (const stream of streams) expect(await stream.next()).toBe('broken')
  await closed
})

it('streams: go on after the database was away, of which new subscribers are told', async () => {
  const database = await freshDatabase()
  const switchboard = await openSwitchboard(database)
  const { url, ask, faults } = await startService({ target: switchboard.target, writeTimeoutMs: 2000 })
  await ask(increment('a'))
  const stream = await subscribe(url, VALUES, a)
  await stream.data()
  // Nothing listens there.
  switchboard.switchTo({ ...database, socketPath: '/nowhere.sock' })
  const refused = await subscribe(url, VALUES, { variables: { names: ['b'] } })
  expect([refused.status, (await refused.body()).errors?.[0]?.extensions.code]).toEqual([503, 'UNAVAILABLE'])
  switchboard.switchTo(database)
  await expect
    .poll(async () => (await ask(increment('a')).catch(() => undefined))?.increment.value)
    .toBeGreaterThan(1)
  const [last] = (await stream.until(({ counters }) => counters[0].value > 1)).slice(-1)
  expect(last.counters).toHaveLength(1)
  expect(faults).toEqual([])
})

it('reads: are one statement a tick for all that is watched, and none while nobody watches', async () => {
  const { url, ask } = await startService()
  const names = Array.from({ length: 10 }, (_, index) => `n${index}`)
  for (const name of ['a', ...names]) await ask(increment(name))
  const streams = await Promise.all(
    names.map((name) => subscribe(url, VALUES, { variables: { names: ['a', name] } })),
  )
  for (const stream of streams) await stream.data()
  const statements = collectStatements()
  const began = performance.now()
  // One poll each 300 ms, of all names.
  await expect.poll(() => statements.length).toBeGreaterThanOrEqual(5)
  expect(statements.length).toBeLessThanOrEqual((performance.now() - began) / 300 + 1)
  for (const stream of streams) stream.close()
  await expect
    .poll(async () => {
      statements.length = 0
      await pause(700)
      return statements
    })
    .toEqual([])
})

it.each([true, false])(
  'streams: are broken, and send nothing, if they ended before they started: %s',
  (isThere) => {
    // The caller plays no part here.
    const stream = new Stream({} as Stream['caller'], {} as Stream['owner'], () => undefined)
    // Such as by a revocation, while the first event was read.
    stream.fail(invalidCredential())
    const sink = { start: () => isThere, send: vi.fn(() => true), fail: vi.fn(), break: vi.fn() }
    stream.start(sink)
    stream.write('{}', () => undefined)
    expect([sink.break.mock.calls.length, sink.send.mock.calls.length]).toEqual([1, 0])
  },
)
