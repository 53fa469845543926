import { createClient, type NthError } from 'nth-counters/client'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { WebSocket } from 'ws'
import { upTo } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { startRelay } from '../support/client/relay.ts'
import { startFront } from '../support/server/front.ts'

const WATCH = 'subscription ($names: [String!]!) { counters(names: $names) { id revision name value } }'

type Watched = { counters: ({ name: string; value: number } | null)[] }

/** As in browsers, and in Node from 22 on, where an error is no exception. */
class PlainWebSocket extends WebSocket {
  constructor(address: URL, protocol: string) {
    super(address, protocol)
    this.on('error', () => undefined)
  }
}

beforeEach(() => {
  vi.stubGlobal('WebSocket', PlainWebSocket)
  onTestFinished(() => void vi.unstubAllGlobals())
})

/** Watches a counter until the test has finished. `latest`: its value as last sent. */
function watch(client: Pick<ReturnType<typeof createClient>, 'subscribe'>, name: string) {
  const values: (number | undefined)[] = []
  const errors: NthError[] = []
  const states: string[] = []
  const subscription = client.subscribe<Watched>(
    WATCH,
    { names: [name] },
    {
      onData: ({ counters }) => void values.push(counters[0]?.value),
      onError: (error) => void errors.push(error),
      onState: (state) => void states.push(state),
    },
  )
  onTestFinished(subscription.stop)
  return { ...subscription, values, errors, states, latest: () => values.at(-1) }
}

it('WebSockets: one carries all subscriptions, and is closed after the last', async () => {
  const { url, ask } = await startFront()
  const proxy = await startRelay(url)
  const client = createClient({ url: `${proxy.url}/graphql` })
  const live = upTo(30).map((index) => watch(client, `c${index}`))
  await expect.poll(() => live.map(({ latest }) => latest())).toEqual(Array(30).fill(0))
  expect(proxy.open).toMatchObject({ sockets: 1, mostStreams: 0 })
  await ask('mutation { increment(name: "c7") { value } }')
  await expect.poll(() => live[6]?.latest()).toBe(1)
  for (const { stop } of live.slice(1)) stop()
  await ask('mutation { increment(name: "c1") { value } }')
  await expect.poll(() => live[0]?.latest()).toBe(1)
  expect(proxy.open.sockets).toBe(1)
  live[0]?.stop()
  const again = watch(client, 'c1')
  await expect.poll(again.latest).toBe(1)
  expect(proxy.open.sockets).toBe(1)
  again.stop()
  await expect.poll(() => proxy.open.sockets).toBe(0)
  expect([...live, again].flatMap(({ errors }) => errors)).toEqual([])
})

it('WebSockets: one opens again after the server was away, with the newest numbers', async () => {
  const first = await startFront()
  const { port } = new URL(first.url)
  const live = watch(createClient({ url: `${first.url}/graphql` }), 'c')
  await expect.poll(live.latest).toBe(0)
  await first.close()
  await expect.poll(() => live.states.at(-1)).toBe('waiting')
  const second = await startFront({ port: Number(port) })
  await second.ask('mutation { increment(name: "c") { value } }')
  await expect.poll(live.latest).toBe(1)
})

it('WebSockets: where none opens, values are read from time to time, at most two at once, with one warning', {
  tags: 'slow',
}, async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined)
  const { url, ask } = await startFront()
  const proxy = await startRelay(url, { refusesSockets: true })
  const client = createClient({ url: `${proxy.url}/graphql` })
  const live = upTo(8).map((index) => watch(client, `c${index}`))
  await expect.poll(() => live.map(({ latest }) => latest())).toEqual(Array(8).fill(0))
  await ask('mutation { increment(name: "c3") { value } }')
  await expect.poll(() => live[2]?.latest()).toBe(1)
  // Those that a browser may have open: those that are being closed count, too.
  expect(proxy.open.mostStreams).toBeLessThan(6)
  await expect.poll(() => proxy.open.streams).toBe(0)
  // What has not changed is not passed on again.
  expect(live[0]?.values).toEqual([0])
  expect(warn.mock.calls).toEqual([[expect.stringContaining('no WebSocket opens')]])
  expect(proxy.refused()).toBe(1)
  expect(live.flatMap(({ errors }) => errors)).toEqual([])
})

it('WebSockets: what is refused is reported, on the connection and of a subscription', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], names: ['mine'] }])
  const denied = watch(createClient({ url: `${url}/graphql`, key: 'nth_wrong' }), 'c')
  await expect.poll(() => denied.states.at(-1)).toBe('ended')
  expect(denied.errors).toMatchObject([
    { code: 'UNAUTHENTICATED', message: expect.stringMatching(/^The cred/) },
  ])
  const client = createClient({ url: `${url}/graphql`, key: secret })
  const [mine, other] = [watch(client, 'mine'), watch(client, 'other')]
  await expect.poll(() => other.states.at(-1)).toBe('ended')
  expect(other.errors).toMatchObject([{ code: 'FORBIDDEN' }])
  await expect.poll(mine.latest).toBe(0)
  expect(mine.states.at(-1)).toBe('open')
})

it('WebSockets: streams of other clients use one, too', async () => {
  const { url, ask } = await startFront()
  const proxy = await startRelay(url)
  const client = createClient({ url: `${proxy.url}/graphql` })
  const controller = new AbortController()
  const response = await client.fetch(`${proxy.url}/graphql`, {
    method: 'POST',
    headers: { accept: 'text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify({ query: WATCH, variables: { names: ['c'] } }),
    signal: controller.signal,
  })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  expect((await reader?.read())?.value).toContain('"value":0')
  await ask('mutation { increment(name: "c") { value } }')
  expect((await reader?.read())?.value).toContain('"value":1')
  expect(proxy.open).toMatchObject({ sockets: 1, mostStreams: 0 })
  controller.abort()
  await expect.poll(() => proxy.open.sockets).toBe(0)
})

it('WebSockets: another key opens another one, and leaves the first as it is', async () => {
  const { url, createKey } = await startProtected()
  const proxy = await startRelay(url)
  const { secret } = await createKey([{ scopes: ['READ'] }])
  let key: string | undefined = secret
  const client = createClient({ url: `${proxy.url}/graphql`, key: () => key })
  const first = watch(client, 'a')
  await expect.poll(first.latest).toBe(0)
  key = undefined
  const second = watch(client, 'a')
  await expect.poll(() => second.states.at(-1)).toBe('ended')
  expect(second.errors).toMatchObject([{ code: 'UNAUTHENTICATED' }])
  expect(first.states.at(-1)).toBe('open')
  first.stop()
  await expect.poll(() => proxy.open.sockets).toBe(0)
})
