import { createClient, type NthError, type Subscription, type SubscriptionState } from 'nth-counters/client'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { startRelay } from '../support/client/relay.ts'
import { clientWith, refused, stopTimers, unavailable } from '../support/client/scriptedFetch.ts'
import { startService } from '../support/server/service.ts'

const WATCH = 'subscription ($names: [String!]!) { counters(names: $names) { id revision name value } }'
const INCREMENT = 'mutation { increment(name: "c") { value } }'

interface Watched {
  counters: ({ name: string; value: number } | null)[] | null
}

// Streams of events, as in Node before 22. `socket.test.ts` has the others.
beforeEach(() => {
  vi.stubGlobal('WebSocket', undefined)
  onTestFinished(() => void vi.unstubAllGlobals())
})

/** Subscribes until the test has finished, and collects what arrives. */
function watch(
  client: Pick<ReturnType<typeof createClient>, 'subscribe'>,
  names: string[],
  more: { signal?: AbortSignal; onData?: (data: Watched) => void } = {},
) {
  const data: Watched[] = []
  const errors: NthError[] = []
  const states: SubscriptionState[] = []
  const subscription: Subscription<{ names: string[] }> = client.subscribe<Watched, { names: string[] }>(
    WATCH,
    { names },
    {
      onData(received) {
        data.push(received)
        more.onData?.(received)
      },
      onError: (error) => void errors.push(error),
      onState: (state) => void states.push(state),
      ...(more.signal && { signal: more.signal }),
    },
  )
  onTestFinished(subscription.stop)
  return {
    ...subscription,
    data,
    errors,
    states,
    /** What each event says of each counter. */
    values: () =>
      data.map(({ counters }) => counters?.map((counter) => counter && [counter.name, counter.value])),
  }
}

/** A stream of events that a test writes. */
function openStream() {
  const encoder = new TextEncoder()
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start(opened) {
      controller = opened
    },
  })
  return {
    response: new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } }),
    write: (text: string | Uint8Array) =>
      controller?.enqueue(typeof text === 'string' ? encoder.encode(text) : text),
    break: () => controller?.error(new TypeError('network error')),
    end: () => controller?.close(),
  }
}

const event = (result: object) => `event: next\ndata: ${JSON.stringify(result)}\n\n`
const state = (revision: number, more: object = {}) => ({
  data: { counters: [{ id: 'c', revision, name: 'c', value: revision }] },
  ...more,
})

/** Lets what is ready run, without a timer. */
const settled = () => vi.advanceTimersByTimeAsync(0)

it('subscribe: passes on everything, then what changes, until it is stopped', async () => {
  const { url, ask } = await startService()
  const live = watch(createClient({ url: `${url}/graphql` }), ['c', 'd'])
  expect(live.states).toEqual(['connecting'])
  await expect.poll(live.values).toEqual([
    [
      ['c', 0],
      ['d', 0],
    ],
  ])
  await ask(INCREMENT)
  await expect.poll(live.values).toEqual([
    [
      ['c', 0],
      ['d', 0],
    ],
    [['c', 1]],
  ])
  live.stop()
  expect(live.states).toEqual(['connecting', 'open', 'ended'])
  live.retryNow()
  live.update({ names: ['d'] })
  live.stop()
  expect(live.states).toEqual(['connecting', 'open', 'ended'])
  expect(live.errors).toEqual([])
})

it('subscribe: goes on with other variables, and not for the same', async () => {
  const { url } = await startService()
  const live = watch(createClient({ url: `${url}/graphql` }), ['c'])
  await expect.poll(live.values).toEqual([[['c', 0]]])
  live.update({ names: ['c'] })
  expect(live.states).toEqual(['connecting', 'open'])
  live.update({ names: ['d'] })
  await expect.poll(live.values).toEqual([[['c', 0]], [['d', 0]]])
})

it('subscribe: ends with its signal', async () => {
  const { url } = await startService()
  const controller = new AbortController()
  const client = createClient({ url: `${url}/graphql` })
  const live = watch(client, ['c'], { signal: controller.signal })
  await expect.poll(live.values).toHaveLength(1)
  controller.abort()
  expect(live.states).toEqual(['connecting', 'open', 'ended'])
  expect(watch(client, ['c'], { signal: controller.signal }).states).toEqual(['ended'])
})

it('subscribe: may be stopped by its own event', async () => {
  const { url } = await startService()
  const live = watch(createClient({ url: `${url}/graphql` }), ['c'], { onData: () => live.stop() })
  await expect.poll(() => live.states).toEqual(['connecting', 'open', 'ended'])
})

it('subscribe: opens the stream again when its connection breaks, quietly, and says so if it can not', async () => {
  const { url, ask } = await startService()
  const relay = await startRelay(url)
  const live = watch(createClient({ url: `${relay.url}/graphql` }), ['c'])
  await expect.poll(live.values).toEqual([[['c', 0]]])
  relay.cut()
  await ask(INCREMENT)
  await expect.poll(relay.refused).toBeGreaterThan(1)
  expect(live.states.slice(0, 4)).toEqual(['connecting', 'open', 'waiting', 'connecting'])
  await expect.poll(() => live.errors[0]).toMatchObject({ code: 'NO_ANSWER', retryable: true })
  relay.restore()
  await expect.poll(live.values).toEqual([[['c', 0]], [['c', 1]]])
  expect(live.states.at(-1)).toBe('open')
})

it('subscribe: sends the key with each stream, and ends when it is refused, until a retry is requested', async () => {
  const { url } = await startProtected()
  let key: string | undefined
  const live = watch(createClient({ url: `${url}/graphql`, key: () => key }), ['c'])
  await expect.poll(() => live.states).toEqual(['connecting', 'ended'])
  expect(live.errors).toMatchObject([{ code: 'UNAUTHENTICATED' }])
  key = ADMIN_KEY
  live.retryNow()
  await expect.poll(live.values).toEqual([[['c', 0]]])
})

it.each([
  ['FORBIDDEN', WATCH],
  ['BAD_USER_INPUT', 'subscription { counters(names: []) { value } }'],
  ['GRAPHQL_VALIDATION_FAILED', 'subscription { counter }'],
  [undefined, '{ viewer { kind } }'],
])('subscribe: ends with %s: %s', async (code, document) => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: [document === WATCH ? 'ADD' : 'READ'] }])
  const client = createClient({ url: `${url}/graphql`, key: secret })
  const [onData, onError, onState] = [vi.fn(), vi.fn(), vi.fn()]
  client.subscribe(document, { names: ['c'] }, { onData, onError, onState })
  await expect.poll(() => onState.mock.lastCall).toEqual(['ended'])
  // A query has one answer.
  if (code) expect(onError.mock.calls).toMatchObject([[{ code }]])
  else expect(onData).toHaveBeenCalledTimes(1)
})

it('subscribe: passes on what is allowed, beside the error of what is not, until its key is revoked', async () => {
  const { url, admin, createKey } = await startProtected()
  const { secret, id } = await createKey([{ scopes: ['READ'], names: ['c'] }])
  const live = watch(createClient({ url: `${url}/graphql`, key: secret }), ['d', 'c'])
  await expect.poll(live.values).toEqual([[null, ['c', 0]]])
  expect(live.errors).toMatchObject([{ code: 'FORBIDDEN' }])
  expect(live.states).toEqual(['connecting', 'open'])
  // Its last event says that the key is no longer valid.
  await admin.ask('mutation ($id: ID!) { revokeApiKey(id: $id) { id } }', { id })
  await expect.poll(() => live.states).toEqual(['connecting', 'open', 'ended'])
  expect(live.errors.at(-1)).toMatchObject({ code: 'UNAUTHENTICATED' })
})

it('subscribe: reads events wherever chunks are cut, with any line breaks and comments', async () => {
  const text = `:\n\n${event(state(1))}event:next\r\ndata:{"data":\r\ndata: {"counters":[{"id":"c","revision":2,"name":"ç€😀","value":2}]}}\r\n\r\n:\r\n\r\nid: 7\revent: other\rdata: {}\r\r${event(state(3))}event: complete\ndata:\n\n`
  const bytes = new TextEncoder().encode(text)
  for (const size of [1, 2, 3, 5, 7, 11, bytes.length]) {
    const stream = openStream()
    const live = watch(clientWith([stream.response]).client, ['c'])
    for (let start = 0; start < bytes.length; start += size) stream.write(bytes.subarray(start, start + size))
    await expect.poll(() => live.states.at(-1)).toBe('ended')
    expect(live.values()).toEqual([[['c', 1]], [['ç€😀', 2]], [['c', 3]]])
    expect(live.errors).toEqual([])
  }
})

it('subscribe: takes a connection for dead after 45 s of silence, and not while comments arrive', async () => {
  stopTimers()
  const [silent, next] = [openStream(), openStream()]
  const { client, requests } = clientWith([silent.response, next.response])
  const live = watch(client, ['c'])
  silent.write(event(state(1)))
  await settled()
  for (const _ of [1, 2, 3, 4]) {
    await vi.advanceTimersByTimeAsync(40_000)
    silent.write(':\n\n')
    await settled()
  }
  expect(live.states).toEqual(['connecting', 'open'])
  await vi.advanceTimersByTimeAsync(44_000)
  expect(live.states).toEqual(['connecting', 'open'])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(live.states.slice(0, 4)).toEqual(['connecting', 'open', 'waiting', 'connecting'])
  expect(requests).toHaveLength(2)
})

it('subscribe: waits longer after each attempt that fails, and opens the stream at once when a retry is requested', async () => {
  stopTimers()
  const streams = [openStream(), openStream()]
  const { client, requests } = clientWith([
    unavailable(),
    unavailable(),
    unavailable({ retryAfterMs: 20_000 }),
    ...streams.map(({ response }) => response),
  ])
  const live = watch(client, ['c'])
  for (const [pauseMs, attempts] of [
    [600, 2],
    [1_200, 3],
  ] as const) {
    await vi.advanceTimersByTimeAsync(pauseMs - 100)
    expect(requests).toHaveLength(attempts - 1)
    await vi.advanceTimersByTimeAsync(101)
    expect(requests).toHaveLength(attempts)
  }
  expect(live.errors).toMatchObject(Array(3).fill({ code: 'UNAVAILABLE' }))
  expect(live.states.at(-1)).toBe('waiting')
  await vi.advanceTimersByTimeAsync(19_000)
  expect(requests).toHaveLength(3)
  live.retryNow()
  expect(live.states.at(-1)).toBe('connecting')
  streams[0]?.write(event(state(1)))
  await settled()
  expect(live.states.at(-1)).toBe('open')
  // What is open stays open.
  live.retryNow()
  expect(requests).toHaveLength(4)
  // After data it waits only shortly again, and nobody needs to know of the break itself.
  streams[0]?.break()
  await settled()
  expect(live.states.at(-1)).toBe('waiting')
  await vi.advanceTimersByTimeAsync(601)
  expect(requests).toHaveLength(5)
  expect(live.errors).toHaveLength(3)
})

it('subscribe: tries again after what is not a refusal: a fault of the server, a proxy, no answer', async () => {
  stopTimers()
  const { client, requests } = clientWith([
    refused('INTERNAL_SERVER_ERROR'),
    new Response('<p>Not found</p>', { status: 404 }),
    new TypeError('fetch failed'),
    new Response(
      event({
        data: { counters: null },
        errors: [{ message: 'Full.', extensions: { code: 'RATE_LIMITED', retryable: true } }],
      }),
      {
        headers: { 'content-type': 'text/event-stream' },
      },
    ),
    openStream().response,
  ])
  const live = watch(client, ['c'])
  await vi.advanceTimersByTimeAsync(20_000)
  expect(requests).toHaveLength(5)
  expect(live.errors.map(({ code }) => code)).toEqual([
    'INTERNAL_SERVER_ERROR',
    'BAD_RESPONSE',
    'NO_ANSWER',
    'RATE_LIMITED',
  ])
  expect(live.data).toEqual([])
})

it('subscribe: passes on no state that is older than one before, of another stream or of an answer', async () => {
  stopTimers()
  const [first, second] = [openStream(), openStream()]
  const newest = Response.json({ data: { counter: { id: 'c', revision: 7, name: 'c', value: 7 } } })
  const { client } = clientWith([first.response, second.response, newest])
  const live = watch(client, ['c'])
  first.write(event(state(5)))
  await settled()
  first.break()
  await vi.advanceTimersByTimeAsync(1_000)
  second.write(event(state(4)))
  await settled()
  expect(live.values()).toEqual([[['c', 5]], [['c', 5]]])
  await client.query('{ counter(name: "c") { id revision name value } }')
  second.write(event(state(6)))
  await settled()
  second.write(event(state(8)))
  await settled()
  expect(live.values().slice(2)).toEqual([[['c', 7]], [['c', 8]]])
})

it('subscribe: goes on when a function of its caller fails', async () => {
  const failure = new Error('The page is broken.')
  const uncaught = vi.fn()
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException').once('uncaughtException', uncaught)
  onTestFinished(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of listeners) process.on('uncaughtException', listener)
  })
  const stream = openStream()
  const live = watch(clientWith([stream.response]).client, ['c'], {
    onData: ({ counters }) => {
      if (counters?.[0]?.value === 1) throw failure
    },
  })
  stream.write(event(state(1)) + event(state(2)))
  await expect.poll(live.values).toEqual([[['c', 1]], [['c', 2]]])
  expect(live.states).toEqual(['connecting', 'open'])
  expect(uncaught).toHaveBeenCalledWith(failure, 'uncaughtException')
})

it('subscribe: closes its stream while the page is hidden, and opens it when the page is shown', async () => {
  const page = Object.assign(new EventTarget(), { hidden: false })
  const show = (isShown: boolean) => {
    page.hidden = !isShown
    page.dispatchEvent(new Event('visibilitychange'))
  }
  vi.stubGlobal('document', page)
  onTestFinished(() => void vi.unstubAllGlobals())
  const { url, ask } = await startService()
  const client = createClient({ url: `${url}/graphql` })
  const live = watch(client, ['c'])
  await expect.poll(live.values).toEqual([[['c', 0]]])
  show(false)
  expect(live.states).toEqual(['connecting', 'open', 'paused'])
  live.retryNow()
  live.update({ names: ['c', 'd'] })
  expect(live.states.at(-1)).toBe('paused')
  expect(watch(client, ['c']).states).toEqual(['paused'])
  await ask(INCREMENT)
  show(true)
  await expect.poll(live.values).toEqual([
    [['c', 0]],
    [
      ['c', 1],
      ['d', 0],
    ],
  ])
  expect(live.errors).toEqual([])
  live.stop()
  show(false)
  expect(live.states.at(-1)).toBe('ended')
})
