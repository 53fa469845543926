import { expect, it } from 'vitest'
import { RateLimits, type SpentChanges } from '../../src/http/rateLimits.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
const CART = 'mutation { incrementMany(changes: [{ name: "a" }, { name: "b" }]) { value } }'

/** What is left to a limited caller, by the headers of a response. */
function leftIn(headers: Headers): number {
  const [, left] = /^"changes";r=(\d+);t=\d+$/.exec(headers.get('ratelimit') ?? '') ?? []
  return Number(left)
}

it('tells a limited caller in each response what is left, also where the request is refused', async () => {
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

it('says nothing of limits to those who have none', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'] }])
  for (const caller of [secret, ADMIN_KEY]) {
    const response = await fetch(`${url}/graphql?query={__typename}`, { headers: bearer(caller) })
    expect([response.status, response.headers.get('ratelimit')]).toEqual([200, null])
  }
})

it('lets pages of other origins read what is left, and when to come back', async () => {
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

it('takes from a bucket what other processes have allowed, and tells them what it has allowed itself', async () => {
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

it('tells a caller who asks for it what a request has cost', async () => {
  const { post, ask, url } = await startService()
  await ask('mutation { increment(name: "a") { value } }')
  const costOf = async (query: string, extensions: object = { cost: true }) =>
    (await post(JSON.stringify({ query, extensions }))).body.extensions as { cost: { values: number } }
  const list = (names: number) =>
    `{ counters(names: [${Array.from({ length: names }, (_, index) => `"${index}"`)}]) { name value } }`
  expect(await costOf(list(2), {})).toBeUndefined()
  const [few, many] = [await costOf(list(2)), await costOf(list(200))]
  expect(few).toEqual({ cost: { values: expect.any(Number), limit: 30_000 } })
  expect(many.cost.values - few.cost.values).toBe(198 * 2)
  const parameters = new URLSearchParams({ query: list(2), extensions: '{"cost":true}' })
  const link = await fetch(`${url}/graphql?${parameters}`)
  expect([(await link.json()).extensions, link.headers.get('cache-control')]).toEqual([few, 'no-store'])
  // Compiled code, too, and what is refused beside what is not.
  expect(await costOf(list(2))).toEqual(few)
  expect(
    await costOf('mutation { increment(name: "") { value } b: increment(name: "a") { value } }'),
  ).toMatchObject({
    cost: { limit: 30_000 },
  })
})
