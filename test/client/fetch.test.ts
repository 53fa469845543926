// @module-tag slow
import { GraphQLClient } from 'graphql-request'
import { createClient as createStreamClient } from 'graphql-sse'
import { createClient } from 'nth-counters/client'
import { expect, it, onTestFinished, vi } from 'vitest'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { startRelay } from '../support/client/relay.ts'
import { clientWith, lost, refused, unavailable } from '../support/client/scriptedFetch.ts'
import { createRandom } from '../support/random.ts'
import { startService } from '../support/server/service.ts'

const BUY = 'mutation ($key: String!) { increment(name: "c", idempotencyKey: $key) { value } }'
const WATCH = 'subscription { counters(names: ["c"]) { id revision value } }'

it('fetch: has a client count every call once over a line that loses requests and answers', async () => {
  const { url, ask } = await startService()
  const random = createRandom()
  const line = await startRelay(url, { isLost: () => random.fraction() < 0.3 })
  const endpoint = `${line.url}/graphql`
  const { fetch } = createClient({ url: endpoint, retryMs: 300_000, timeoutMs: 300_000 })
  const client = new GraphQLClient(endpoint, { fetch })
  const buy = (index: number) =>
    client.request<{ increment: { value: number } }>(BUY, { key: `key ${index}` })
  const answers = await inParallel(10, 20, buy)
  expect(sorted(answers.map(({ increment }) => increment.value))).toEqual(upTo(20))
  expect(line.losses()).toBeGreaterThan(0)
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 20 } })
})

const post = (query: string, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ query }),
})

const ANSWERED = Response.json({ data: {} })

it.each([
  ['mutation { increment(name: "c", idempotencyKey: "k") { value } }', true],
  [
    'mutation Buy($k: String!) { a: increment(idempotencyKey: $k, name: "c") @include(if: true) { value } }',
    true,
  ],
  [
    `# mutation { a }
    mutation { a: increment(name: "{(\\" }", idempotencyKey: "k") { value { counter { id } } }, b: reset(idempotencyKey : "l", name: ")") { value } }
    fragment F on Counter { id }`,
    true,
  ],
  ['mutation { incrementMany(changes: [{ name: "c" }], idempotencyKey: "k") { value } }', true],
  ['mutation { increment(name: "c") { value } }', false],
  ['mutation Buy($idempotencyKey: String) { increment(name: "c") { value } }', false],
  ['mutation { increment(name: "idempotencyKey: 1") { value } }', false],
  [
    'mutation { a: increment(name: "c", idempotencyKey: "k") { value } b: increment(name: "c") { value } }',
    false,
  ],
  [
    'mutation { increment(name: "c", idempotencyKey: "k") { value } ...F } fragment F on Mutation { a }',
    false,
  ],
  ['mutation A { a(idempotencyKey: "k") { b } } mutation B { a { b } }', false],
])(
  'fetch: repeats a mutation whose answer was lost only if each of its fields has a key: %s',
  async (query, isRepeated) => {
    const { client, requests } = clientWith([lost(), ANSWERED.clone()])
    const answer = client.fetch('http://nth.test/graphql', post(query))
    if (isRepeated) expect(await (await answer).json()).toEqual({ data: {} })
    else await expect(answer).rejects.toMatchObject({ code: 'NO_ANSWER', isOutcomeUnknown: true })
    expect(requests).toHaveLength(isRepeated ? 2 : 1)
  },
)

it('fetch: repeats what the server says can be sent again, and fails with the doubt before', async () => {
  const noted = refused('OUTCOME_UNKNOWN', { retryable: true })
  const { client, requests } = clientWith([noted, unavailable({ retryAfterMs: 60_000 })])
  const keyed = post('mutation { increment(name: "c", idempotencyKey: "k") { value } }')
  await expect(client.fetch('http://nth.test/graphql', keyed)).rejects.toMatchObject({
    name: 'NthError',
    code: 'OUTCOME_UNKNOWN',
    isOutcomeUnknown: true,
  })
  expect(requests).toHaveLength(2)
})

it('fetch: repeats no query, and passes on what it does not understand', { tags: 'quick' }, async () => {
  const { client, requests } = clientWith([lost(), unavailable(), new Response('a,b'), new Response('parts')])
  await expect(client.fetch('http://nth.test/graphql', post('{ a }'))).rejects.toMatchObject({
    code: 'NO_ANSWER',
  })
  const answer = await client.fetch('http://nth.test/graphql', post('{ a }'))
  expect(await answer.json()).toMatchObject({ errors: [{ extensions: { code: 'UNAVAILABLE' } }] })
  const batch = { method: 'POST', body: '[{ "query": "{ a }" }]' }
  expect(await (await client.fetch('http://nth.test/graphql', batch)).text()).toBe('a,b')
  const multipart = post('subscription { a }', {
    accept: 'multipart/mixed;boundary=graphql;subscriptionSpec=1.0',
  })
  expect(await (await client.fetch('http://nth.test/graphql', multipart)).text()).toBe('parts')
  expect(requests).toHaveLength(4)
})

it('fetch: sends the key, and keeps headers and the newest state, by GET too, with status 200 for every result', {
  tags: 'quick',
}, async () => {
  const state = (revision: number) =>
    Response.json(
      { data: { counter: { id: 'c', revision, value: revision } } },
      { status: 503, headers: { etag: '"e"' } },
    )
  const { client, requests } = clientWith([state(2), state(1)], { key: 'secret' })
  const url = `http://nth.test/graphql?${new URLSearchParams({ query: '{ counter(name: "c") { id revision value } }' })}`
  await client.fetch(url)
  const answer = await client.fetch(new URL(url))
  expect([answer.status, answer.headers.get('etag')]).toEqual([200, '"e"'])
  expect(await answer.json()).toEqual({ data: { counter: { id: 'c', revision: 2, value: 2 } } })
  expect(requests.map(({ headers }) => headers.get('authorization'))).toEqual([
    'Bearer secret',
    'Bearer secret',
  ])
})

it('fetch: compares answers in the order in which a client reads them', { tags: 'quick' }, async () => {
  const state = (revision: number) =>
    Response.json({ data: { counter: { id: 'c', revision, value: revision } } })
  const { client } = clientWith([1, 2, 1, 3].map(state))
  const request = post('{ counter(name: "c") { id revision value } }')
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => client.fetch('http://nth.test/graphql', request)),
  )
  const [older, newer, oldest, newest] = answers
  const revisionOf = (result: { data: { counter: { revision: number } } }) => result.data.counter.revision
  // All four have arrived.
  expect(revisionOf(await older?.json())).toBe(3)
  expect(revisionOf(JSON.parse((await newer?.text()) ?? ''))).toBe(3)
  expect([revisionOf(await newest?.json()), revisionOf(await oldest?.json())]).toEqual([3, 3])
})

it('fetch: repeats a mutation with a key in its header', { tags: 'quick' }, async () => {
  const { client, requests } = clientWith([lost(), ANSWERED.clone()])
  const keyed = post('mutation { increment(name: "c") { value } }', { 'idempotency-key': 'k' })
  await client.fetch('http://nth.test/graphql', keyed)
  expect(requests.map(({ headers }) => headers.get('idempotency-key'))).toEqual(['k', 'k'])
})

/** Subscribes with graphql-sse and our fetch: `end` gets the code of an error, or what ended it. */
function subscribe(
  url: string,
  fetch: typeof globalThis.fetch,
  next: (value: unknown) => void,
  end: (reason: unknown) => void,
) {
  return createStreamClient({ url, fetchFn: fetch }).subscribe<{ counters: { value: number }[] }>(
    { query: WATCH },
    {
      next: ({ data, errors }) =>
        errors ? end(errors[0]?.extensions?.code) : next(data?.counters[0]?.value),
      error: end,
      complete: () => end('complete'),
    },
  )
}

it('fetch: opens a stream again when its connection breaks', { tags: 'quick' }, async () => {
  const { url, ask } = await startService()
  const relay = await startRelay(url)
  const values: unknown[] = []
  const end = vi.fn()
  const client = createClient({ url: `${relay.url}/graphql` })
  const stop = subscribe(`${relay.url}/graphql`, client.fetch, (value) => values.push(value), end)
  await expect.poll(() => values).toEqual([0])
  relay.cut()
  await ask('mutation { increment(name: "c") { value } }')
  await expect.poll(relay.refused).toBeGreaterThan(1)
  relay.restore()
  await expect.poll(() => values).toEqual([0, 1])
  expect(end).not.toHaveBeenCalled()
  stop()
  await ask('mutation { increment(name: "c") { value } }')
  expect(values).toEqual([0, 1])
})

it('fetch: ends a stream with the reason why it was refused', async () => {
  const { url } = await startProtected()
  const client = createClient({ url: `${url}/graphql`, key: `${ADMIN_KEY}!` })
  const [next, end] = [vi.fn(), vi.fn()]
  onTestFinished(subscribe(`${url}/graphql`, client.fetch, next, end))
  await expect.poll(() => end.mock.calls[0]).toEqual(['UNAUTHENTICATED'])
  expect(next).not.toHaveBeenCalled()
})

it('fetch: sends what is allowed in one event with the error of what is not', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], names: ['c'] }])
  const client = createClient({ url: `${url}/graphql`, key: secret })
  const query = 'subscription { counters(names: ["d", "c"]) { value } }'
  const next = vi.fn()
  const stop = createStreamClient({ url: `${url}/graphql`, fetchFn: client.fetch }).subscribe(
    { query },
    { next, error: next, complete: next },
  )
  await expect
    .poll(() => next.mock.calls)
    .toMatchObject([
      [{ data: { counters: [null, { value: 0 }] }, errors: [{ extensions: { code: 'FORBIDDEN' } }] }],
    ])
  stop()
})

it('fetch: sends to the address that it is given, with the headers of a request', {
  tags: 'quick',
}, async () => {
  const { client, requests, fetch } = clientWith([ANSWERED.clone(), ANSWERED.clone(), new Response('parts')])
  const address = 'http://other.test/graphql'
  const request = new Request(address, { method: 'POST', headers: { 'x-shop': 'north' } })
  await client.fetch(request)
  expect(fetch.mock.calls[0]?.[0]).toBe(request)
  expect(requests[0]?.headers.get('x-shop')).toBe('north')
  await client.fetch(address, post('subscription { a }', { accept: 'text/event-stream' }))
  await expect.poll(() => fetch.mock.calls[1]?.[0]).toBe(address)
})
