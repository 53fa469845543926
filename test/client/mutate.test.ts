import { createClient, NthError } from 'nth-counters/client'
import { expect, it, onTestFinished, vi } from 'vitest'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { startRelay } from '../support/client/relay.ts'
import {
  bought,
  clientWith,
  lost,
  refused,
  stopTimers,
  unavailable,
} from '../support/client/scriptedFetch.ts'
import { createRandom, runSize } from '../support/random.ts'
import { startService } from '../support/server/service.ts'

interface Bought {
  increment: { value: number }
}

const INCREMENT = 'mutation ($name: String!) { increment(name: $name) { value } }'
const BUY = 'mutation { increment(name: "c") { value } }'

/** The error that a promise ends with. */
async function failureOf(promise: Promise<unknown>): Promise<NthError> {
  const error = await promise.then(
    (data) => Promise.reject(new Error(`It succeeded: ${JSON.stringify(data)}`)),
    (error) => error,
  )
  expect(error).toBeInstanceOf(NthError)
  return error
}

it('mutate: counts every call once, and returns its number, over a line that loses requests and answers', async () => {
  const { url, ask } = await startService()
  // Of each call at most two, so that every one succeeds before the client gives up.
  const random = createRandom()
  const lost = new Map<string | undefined, number>()
  const isLost = (key: string | undefined) => {
    const before = lost.get(key) ?? 0
    if (before === 2 || random.fraction() > 0.3) return false
    lost.set(key, before + 1)
    return true
  }
  const line = await startRelay(url, { isLost })
  const client = createClient({ url: `${line.url}/graphql`, retryMs: 300_000, timeoutMs: 300_000 })
  const calls = runSize(30, 60)
  const answers = await inParallel(20, calls, () => client.mutate<Bought>(INCREMENT, { name: 'c' }))
  expect(sorted(answers.map(({ increment }) => increment.value))).toEqual(upTo(calls))
  expect(line.losses()).toBeGreaterThan(0)
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: calls } })
})

it('mutate: repeats a call with the same key, and creates another one for the next call', async () => {
  const { client, requests } = clientWith([
    lost(),
    unavailable(),
    refused('OUTCOME_UNKNOWN', { retryable: true }),
    bought(1),
    bought(2),
  ])
  stopTimers()
  const first = client.mutate(BUY)
  await vi.runAllTimersAsync()
  expect(await first).toEqual({ increment: { value: 1 } })
  expect(await client.mutate(BUY)).toEqual({ increment: { value: 2 } })
  const keys = requests.map(({ headers }) => headers.get('idempotency-key'))
  expect(keys.slice(0, 4)).toEqual(Array(4).fill(keys[0]))
  expect(keys[0]).toMatch(/^[\d-]{7,}$/)
  expect(keys[4]).not.toBe(keys[0])
})

it('mutate: waits longer after each attempt, by a random part, and gives up in time', async () => {
  stopTimers()
  const { client, requests } = clientWith(Array.from({ length: 20 }, lost))
  const failure = failureOf(client.mutate(BUY))
  await vi.runAllTimersAsync()
  expect(await failure).toMatchObject({ code: 'NO_ANSWER', isOutcomeUnknown: true, retryable: true })
  const pauses = requests.slice(1).map(({ atMs }, index) => Math.round(atMs - (requests[index]?.atMs ?? 0)))
  expect(pauses.length).toBeGreaterThan(3)
  for (const [index, pause] of pauses.slice(1).entries())
    expect(pause).toBeGreaterThanOrEqual(2 * (pauses[index] ?? 0) - 2)
  expect((requests.at(-1)?.atMs ?? 0) - (requests[0]?.atMs ?? 0)).toBeLessThanOrEqual(15_000)
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const again = clientWith([lost(), bought(1)])
  const quick = again.client.mutate(BUY)
  await vi.runAllTimersAsync()
  await quick
  const [first, second] = again.requests
  expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeLessThan(pauses[0] ?? 0)
})

it.each([
  ['in the error', () => unavailable({ retryAfterMs: 4_000 })],
  ['in the header, in seconds', () => new Response('', { status: 503, headers: { 'retry-after': '4' } })],
  [
    'in the header, as a date',
    () =>
      new Response('', {
        status: 503,
        headers: { 'retry-after': new Date(Date.now() + 4_900).toUTCString() },
      }),
  ],
])('mutate: waits as long as the server asks for %s', async (_, answer) => {
  stopTimers()
  const { client, requests } = clientWith([answer(), bought(1)])
  const result = client.mutate(BUY)
  await vi.runAllTimersAsync()
  expect(await result).toEqual({ increment: { value: 1 } })
  const waitedMs = (requests[1]?.atMs ?? 0) - (requests[0]?.atMs ?? 0)
  expect(waitedMs).toBeGreaterThanOrEqual(3_900)
  expect(waitedMs).toBeLessThan(5_000)
})

it('mutate: ends an attempt that nobody answers, and starts another one', async () => {
  stopTimers()
  const { client, requests } = clientWith(['silence', bought(1)])
  const result = client.mutate(BUY)
  await vi.advanceTimersByTimeAsync(11_900)
  expect(requests).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await result).toEqual({ increment: { value: 1 } })
})

it.each<[string, () => Response, isOutcomeUnknown: boolean]>([
  ['NO_ANSWER', () => unavailable({ retryAfterMs: 60_000 }), true],
  ['UNAUTHENTICATED', () => refused('UNAUTHENTICATED'), true],
  ['FORBIDDEN', () => refused('FORBIDDEN'), true],
  ['INTERNAL_SERVER_ERROR', () => refused('INTERNAL_SERVER_ERROR'), true],
  // It is about the change itself.
  ['LIMIT_REACHED', () => refused('LIMIT_REACHED'), false],
])(
  'mutate: after a lost answer, %s says whether the outcome is unknown',
  async (code, answer, isOutcomeUnknown) => {
    const { client } = clientWith([lost(), answer()])
    expect(await failureOf(client.mutate(BUY))).toMatchObject({ code, isOutcomeUnknown })
    const { client: other } = clientWith([answer()])
    expect(await failureOf(other.mutate(BUY))).toMatchObject({ isOutcomeUnknown: false })
  },
)

it('mutate: throws a refusal at once, with its details', async () => {
  const { url, ask } = await startService()
  await ask('mutation { defineCounter(name: "c", definition: { maxValue: 0 }) { maxValue } }')
  const send = vi.fn(fetch)
  const client = createClient({ url: `${url}/graphql`, fetch: send })
  const error = await failureOf(client.mutate(INCREMENT, { name: 'c' }))
  expect(error).toMatchObject({
    name: 'NthError',
    code: 'LIMIT_REACHED',
    retryable: false,
    isOutcomeUnknown: false,
    extensions: { code: 'LIMIT_REACHED', limit: 0, value: 0 },
    data: { increment: null },
  })
  expect(error.message).toContain('0')
  expect(send).toHaveBeenCalledTimes(1)
})

it('mutate: with idempotencyKey null, sends no key, and repeats only what was certainly not applied', async () => {
  const { client, requests } = clientWith([unavailable(), lost()])
  const error = await failureOf(
    client.mutate('mutation { deleteCounter(name: "c") }', {}, { idempotencyKey: null }),
  )
  expect(error).toMatchObject({ code: 'NO_ANSWER', isOutcomeUnknown: true, retryable: false })
  expect(requests.map(({ headers }) => headers.has('idempotency-key'))).toEqual([false, false])
})

it('mutate: returns the data of a change after which something could not be read', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'] }])
  const client = createClient({ url: `${url}/graphql`, key: secret })
  expect(await client.mutate('mutation { increment(name: "c") { value counter { value } } }')).toEqual({
    increment: { value: 1, counter: null },
  })
})

it('key: is asked for before each attempt', async () => {
  const keys = ['first', undefined, 'third']
  const key = vi.fn(async () => keys.shift())
  const { client, requests } = clientWith([lost(), lost(), bought(1)], {
    key,
    headers: { 'x-shop': 'north' },
  })
  await client.mutate(BUY)
  expect(requests.map(({ headers }) => headers.get('authorization'))).toEqual([
    'Bearer first',
    null,
    'Bearer third',
  ])
  expect(requests.map(({ headers }) => headers.get('x-shop'))).toEqual(['north', 'north', 'north'])
})

it('key: leaves nothing open if it could not be read, which is repeated', async () => {
  stopTimers()
  const key = vi.fn(async () => Promise.reject(new Error('The session is over.')))
  const { client, requests } = clientWith([], { key })
  const failure = failureOf(client.mutate(BUY))
  await vi.runAllTimersAsync()
  expect(await failure).toMatchObject({
    code: 'NO_KEY',
    isOutcomeUnknown: false,
    cause: { message: 'The session is over.' },
  })
  expect(key.mock.calls.length).toBeGreaterThan(1)
  expect(requests).toEqual([])
})

it('mutate: does not take another server for Nth', async () => {
  const page = () =>
    new Response('<p>Not found</p>', { status: 404, headers: { 'content-type': 'text/html' } })
  const { client } = clientWith([page(), Response.json({ message: 'Not found' }, { status: 404 })])
  for (const _ of [1, 2])
    expect(await failureOf(client.mutate(BUY))).toMatchObject({
      code: 'BAD_RESPONSE',
      retryable: false,
      isOutcomeUnknown: false,
    })
})

it('mutate: repeats when a proxy answers, or an answer is broken off', async () => {
  stopTimers()
  const part = new Response('{"data":{"incr', { headers: { 'content-type': 'application/json' } })
  const { client } = clientWith([new Response('<p>Bad gateway</p>', { status: 502 }), part, bought(1)])
  const result = client.mutate(BUY)
  await vi.runAllTimersAsync()
  expect(await result).toEqual({ increment: { value: 1 } })
})

it('signal: ends a call with its reason: before an attempt, while it waits for an answer, and in a pause', async () => {
  const reason = new Error('The page is left.')
  const { client, requests } = clientWith([bought(1), 'silence', lost()])
  await expect(client.mutate(BUY, {}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  expect(requests).toHaveLength(0)
  await client.mutate(BUY)
  for (const requested of [2, 3]) {
    const controller = new AbortController()
    const result = client.mutate(BUY, {}, { signal: controller.signal })
    await vi.waitFor(() => expect(requests).toHaveLength(requested))
    controller.abort(reason)
    await expect(result).rejects.toBe(reason)
  }
})

/** A browser's storage of a tab. */
function stubStorage() {
  const values = new Map<string, string>()
  const storage = {
    getItem: (name: string) => values.get(name) ?? null,
    setItem: (name: string, value: string) => void values.set(name, value),
    removeItem: (name: string) => void values.delete(name),
  }
  vi.stubGlobal('sessionStorage', storage)
  onTestFinished(() => void vi.unstubAllGlobals())
  return { values, storage }
}

it.each([
  ['sessionStorage', stubStorage],
  ['memory, where there is no storage', () => undefined],
  [
    'memory, where storage is denied',
    () => {
      const { storage } = stubStorage()
      for (const name of ['getItem', 'setItem', 'removeItem'] as const)
        vi.spyOn(storage, name).mockImplementation(() => {
          throw new Error('Denied.')
        })
    },
  ],
])('remember: repeats an action until it has a result, and then does another: in %s', async (_, prepare) => {
  prepare()
  const expired = () => refused('UNAUTHENTICATED')
  const { client, requests } = clientWith([lost(), expired(), expired(), bought(1), bought(2)])
  const buy = () => client.mutate(BUY, {}, { remember: 'buy' })
  expect(client.remembered('buy')).toBe(false)
  expect((await failureOf(buy())).isOutcomeUnknown).toBe(true)
  expect(client.remembered('buy')).toBe(true)
  expect(client.remembered('sell')).toBe(false)
  // It says nothing about the attempt before.
  await failureOf(buy())
  expect(client.remembered('buy')).toBe(true)
  expect(await buy()).toEqual({ increment: { value: 1 } })
  expect(client.remembered('buy')).toBe(false)
  expect(await buy()).toEqual({ increment: { value: 2 } })
  const keys = requests.map(({ headers }) => headers.get('idempotency-key'))
  expect(keys).toEqual([keys[0], keys[0], keys[0], keys[0], keys[4]])
  expect(keys[4]).not.toBe(keys[0])
})

it('remember: repeats an action after a reload, at the same server only', async () => {
  const { values } = stubStorage()
  const before = clientWith([lost(), refused('FORBIDDEN')])
  await failureOf(before.client.mutate(BUY, {}, { remember: 'buy' }))
  expect(clientWith([], { url: 'http://other.test/graphql' }).client.remembered('buy')).toBe(false)
  const { client, requests } = clientWith([bought(1)])
  expect(client.remembered('buy')).toBe(true)
  await client.mutate(BUY, {}, { remember: 'buy' })
  expect(requests[0]?.headers.get('idempotency-key')).toBe(before.requests[0]?.headers.get('idempotency-key'))
  expect([...values]).toEqual([])
})

it('remember: forgets an action that was refused, and keeps one that may succeed later', async () => {
  const { client } = clientWith([refused('LIMIT_REACHED'), unavailable({ retryAfterMs: 60_000 })])
  await failureOf(client.mutate(BUY, {}, { remember: 'buy' }))
  expect(client.remembered('buy')).toBe(false)
  await failureOf(client.mutate(BUY, {}, { remember: 'buy' }))
  expect(client.remembered('buy')).toBe(true)
})

it('remember: makes one change of two calls at once, such as of a double click', async () => {
  const { url } = await startService()
  const client = createClient({ url: `${url}/graphql` })
  const buy = () => client.mutate(BUY, {}, { remember: 'buy' })
  expect(await Promise.all([buy(), buy()])).toEqual([
    { increment: { value: 1 } },
    { increment: { value: 1 } },
  ])
  expect(await buy()).toEqual({ increment: { value: 2 } })
})

it('remember: keeps an action that began while an earlier one of its name was being answered', async () => {
  let answerSecond: (response: Response) => void = () => undefined
  const answers = [
    Promise.resolve(bought(1)),
    new Promise<Response>((resolve) => {
      answerSecond = resolve
    }),
    Promise.resolve(unavailable({ retryAfterMs: 60_000 })),
  ]
  const fetch = async () => answers.shift() ?? Promise.reject(lost())
  const client = createClient({ url: 'http://nth.test/graphql', fetch })
  const buy = () => client.mutate(BUY, {}, { remember: 'buy' })
  const [first, second] = [buy(), buy()]
  await first
  expect(client.remembered('buy')).toBe(false)
  await failureOf(buy())
  answerSecond(bought(1))
  await second
  expect(client.remembered('buy')).toBe(true)
})
