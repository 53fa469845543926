import { expect, it } from 'vitest'
import { RateLimits, type SpentChanges } from '../../src/http/rateLimits.ts'
import { upTo } from '../support/client/client.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
const CART = 'mutation { incrementMany(changes: [{ name: "a" }, { name: "b" }]) { value } }'

/** What is left to a limited caller, by the headers of a response. */
function leftIn(headers: Headers): number {
  const [, left] = /^"changes";r=(\d+);t=\d+$/.exec(headers.get('ratelimit') ?? '') ?? []
  return Number(left)
}

it('RateLimit: says in each response what is left, also where the request is refused', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD', 'READ'] }], { perMinute: 2 })
  const send = (query: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer(secret), ...headers },
      body: JSON.stringify({ query }),
    })
  const read = await send('{ counter(name: "a") { value } }')
  expect(read.headers.get('ratelimit-policy')).toBe('"changes";q=2;w=60')
  expect(read.headers.get('ratelimit')).toBe('"changes";r=2;t=0')
  const first = await send(CART)
  expect(first.status).toBe(200)
  // Two of two, at two a minute, less what has been refilled: one after 30 s.
  expect(leftIn(first.headers)).toBeLessThan(2)
  const wait = Number(/t=(\d+)/.exec(first.headers.get('ratelimit') ?? '')?.[1])
  expect(wait).toBeGreaterThan(30)
  expect(wait).toBeLessThanOrEqual(60)
  const refused = await send(CART)
  expect(refused.status).toBe(429)
  expect(leftIn(refused.headers)).toBeLessThan(2)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  for (const response of [
    await send('{'),
    await send('{ nope }'),
    await send('', { 'content-type': 'text/plain' }),
    await send('{ counter(name: "a") { value } }', { accept: 'text/event-stream' }),
    await send('subscription { counters(names: ["a"]) { value } }', { accept: 'text/event-stream' }),
  ]) {
    expect(leftIn(response.headers)).toBeLessThan(2)
    await response.body?.cancel()
  }
})

it('RateLimit: is not sent to callers without a limit', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'] }])
  for (const caller of [secret, ADMIN_KEY]) {
    const response = await fetch(`${url}/graphql?query={__typename}`, { headers: bearer(caller) })
    expect([response.status, response.headers.get('ratelimit')]).toEqual([200, null])
  }
})

it('RateLimit: can be read by pages of other origins, as Retry-After can', async () => {
  const { url, createKey } = await startProtected({ access: { browserPerMinute: 300 } })
  const origin = 'https://shop.example'
  const { secret } = await createKey([{ scopes: ['READ'] }], { origins: [origin] })
  const response = await fetch(`${url}/graphql?query={__typename}`, {
    headers: { ...bearer(secret), origin },
  })
  expect(response.headers.get('ratelimit-policy')).toBe('"changes";q=300;w=60')
  const exposed = response.headers.get('access-control-expose-headers')?.split(', ')
  expect(exposed).toEqual(expect.arrayContaining(['RateLimit', 'RateLimit-Policy', 'Retry-After']))
})

it('RateLimits: take from a bucket what other processes have allowed, and tell them what they have allowed', async () => {
  const told: SpentChanges[] = []
  let now = 0
  const limits = new RateLimits(
    (spent) => told.push(spent),
    () => now,
  )
  expect(limits.take('a', 60, 40)).toBe(0)
  expect(limits.take('a', 60, 5)).toBe(0)
  limits.remove([
    ['a', 60, 10],
    ['b', 60, 70],
  ])
  expect(limits.headers('a', 60)).toContain('"changes";r=5;t=55')
  expect(limits.take('a', 60, 10)).toBe(5000)
  // What several processes have allowed at once is owed.
  expect(limits.headers('b', 60)).toContain('"changes";r=0;t=70')
  now = 30_000
  expect(limits.headers('b', 60)).toContain('"changes";r=20;t=40')
  expect(limits.take('a', 60, 35)).toBe(0)
  await expect
    .poll(() => told)
    .toEqual([
      [
        ['a', 60, 40],
        ['a', 60, 5],
        ['a', 60, 35],
      ],
    ])
})

it('RateLimits: allow more than a bucket holds once it is full, and nothing until that is no longer owed', () => {
  let now = 0
  const limits = new RateLimits(undefined, () => now)
  // One comes back each millisecond.
  const take = (count: number) => limits.take('a', 60_000, count)
  expect(take(150_000)).toBe(0)
  expect(limits.headers('a', 60_000)).toContain('"changes";r=0;t=150')
  expect([take(1), take(150_000)]).toEqual([90_001, 150_000])
  now = 90_000
  expect(take(1)).toBe(1)
  now = 90_001
  expect([take(1), take(1)]).toEqual([0, 1])
  now = 150_000
  expect([take(150_000), take(60_000)]).toEqual([1, 1])
  now = 150_001
  expect([take(150_000), take(1)]).toEqual([0, 90_001])
})

it('incrementMany: is accepted with more changes than a minute allows, once, and what is owed is reported', async () => {
  const { as, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'] }], { perMinute: 2 })
  const { send, ask } = as(secret)
  const cart = 'mutation { incrementMany(changes: [{ name: "a" }, { name: "b" }, { name: "c" }]) { value } }'
  expect(await ask(cart)).toEqual({ incrementMany: [{ value: 1 }, { value: 1 }, { value: 1 }] })
  for (const [refused, seconds] of [
    [cart, 90],
    ['mutation { increment(name: "a") { value } }', 60],
  ] as const) {
    const { status, errors } = await send(refused)
    expect([status, errors?.[0]?.extensions.code]).toEqual([429, 'RATE_LIMITED'])
    // Less what has come back meanwhile.
    expect(errors?.[0]?.extensions.retryAfterMs).toBeGreaterThan((seconds - 30) * 1000)
    expect(errors?.[0]?.extensions.retryAfterMs).toBeLessThanOrEqual(seconds * 1000)
  }
})

it('extensions.cost: tells a caller who asks for it what a request has cost', async () => {
  const { post, url } = await startService()
  const costOf = async (query: string, extensions: object = { cost: true }) =>
    (await post(JSON.stringify({ query, extensions }))).body.extensions as { cost: { values: number } }
  const list = (names: number) =>
    `{ counters(names: ${JSON.stringify(upTo(names).map(String))}) { name value } }`
  expect(await costOf(list(2), {})).toBeUndefined()
  const [few, many] = [await costOf(list(2)), await costOf(list(200))]
  expect(few).toEqual({ cost: { values: expect.any(Number), limit: 30_000 } })
  expect(many.cost.values - few.cost.values).toBe(198 * 2)
  // Compiled code, too, by GET, and what is refused beside what is not.
  expect(await costOf(list(2))).toEqual(few)
  const parameters = new URLSearchParams({ query: list(2), extensions: '{"cost":true}' })
  const link = await fetch(`${url}/graphql?${parameters}`)
  expect([(await link.json()).extensions, link.headers.get('cache-control')]).toEqual([few, 'no-store'])
  const { cost } = await costOf(
    'mutation { increment(name: "") { value } b: increment(name: "a") { value } }',
  )
  expect(cost).toMatchObject({ limit: 30_000 })
})
