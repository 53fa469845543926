import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { subscribe } from '../support/client/events.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'
import { workersOf } from '../support/server/processes.ts'
import { startTwo } from '../support/server/workers.ts'

const increment = 'mutation Increment { increment(name: "private name") { value } }'

/** Metrics by name and labels. */
async function readMetrics(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}/metrics`, { headers })
  const text = await response.text()
  const samples = text.split('\n').flatMap((line) => {
    const [, name = '', value] = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? []
    return value === undefined ? [] : [[name, Number(value)] as const]
  })
  return { status: response.status, text, values: Object.fromEntries(samples) }
}

const requestsIn = (values: Record<string, number>) =>
  Object.fromEntries(Object.entries(values).filter(([name]) => name.startsWith('nth_requests_total')))

it('counts what callers counted, over all workers, also those that ended', { tags: 'slow' }, async () => {
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    WORKERS: '2',
    NTH_METRICS_PORT: '0',
  })
  const own = /Metrics: (\S+)\/metrics/.exec(nth.output())?.[1] ?? ''
  const ask = async (init: RequestInit, query = '') => {
    // A connection of its own, so that all workers get some.
    const headers = { connection: 'close', ...(init.headers as Record<string, string>) }
    const response = await fetch(`${nth.url}/graphql${query}`, { ...init, headers })
    await response.text()
  }
  const post = (query: string, type = 'application/json') =>
    ask({ method: 'POST', headers: { 'content-type': type }, body: JSON.stringify({ query }) })

  for (let time = 0; time < 40; time++) await post(increment)
  for (let time = 0; time < 6; time++) await post('{ counter(name: "private name") { value } }')
  await post('mutation { reset(name: "private name", to: 1.5) { value } }')
  await post('mutation { incrementBy(name: "private name", delta: 9007199254740991) { value } }')
  await ask({}, `?query=${encodeURIComponent('{ counter(name: "a") { value } }')}`)
  await ask({}, `?query=${encodeURIComponent('{')}`)
  await post(increment, 'text/plain')
  await ask({ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' })
  await ask({ method: 'POST', headers: { authorization: 'Bearer nth_unknown' } })
  const stream = await subscribe(nth.url, 'subscription { counters(names: ["private name"]) { value } }')
  await stream.data()

  const expected = {
    'nth_requests_total{operation="mutation",code="OK"}': 40,
    'nth_requests_total{operation="mutation",code="OUT_OF_RANGE"}': 1,
    'nth_requests_total{operation="query",code="OK"}': 7,
    'nth_requests_total{operation="subscription",code="OK"}': 1,
    'nth_requests_total{operation="none",code="BAD_USER_INPUT"}': 1,
    'nth_requests_total{operation="none",code="GRAPHQL_PARSE_FAILED"}': 1,
    'nth_requests_total{operation="none",code="BAD_REQUEST"}': 2,
    'nth_requests_total{operation="none",code="UNAUTHENTICATED"}': 1,
  }
  // Of several workers, they are up to a second old.
  await expect.poll(async () => requestsIn((await readMetrics(own)).values)).toEqual(expected)
  const { values, text } = await readMetrics(own)
  expect(values).toMatchObject({
    'nth_request_duration_seconds_count{operation="mutation"}': 41,
    nth_wait_duration_seconds_count: 41,
    nth_flush_operations_sum: 41,
    nth_flush_retries_total: 0,
    nth_subscribers: 1,
    nth_watched_names: 1,
    nth_pending_changes: 0,
    nth_workers: 2,
    nth_database_up: 1,
  })
  expect(values.nth_database_round_trips_total).toBeGreaterThan(80)
  // Those of a caller are no labels.
  expect(text).not.toMatch(/private|Increment/)

  const [killed = 0] = await workersOf(nth)
  process.kill(killed, 'SIGKILL')
  await nth.printed('A replacement starts')
  await expect.poll(async () => (await readMetrics(own)).values.nth_workers).toBe(2)
  const { values: afterwards } = await readMetrics(own)
  expect(requestsIn(afterwards)).toEqual(expected)
  expect(afterwards['nth_request_duration_seconds_count{operation="mutation"}']).toBe(41)
  // The same from a worker.
  expect(requestsIn((await readMetrics(nth.url)).values)).toEqual(expected)
})

it('shows the requests and the memory of each worker, whose number its replacement continues', {
  tags: 'slow',
}, async () => {
  const nth = await startTwo()
  const [first, second] = [openCaller(nth.url), openCaller(nth.url)]
  await first(increment)
  await second(increment)
  for (let time = 1; time < 30; time++) await first(increment)
  for (let time = 1; time < 12; time++) await second('{')

  const isComplete = (values: Record<string, number>) =>
    values['nth_requests_total{operation="none",code="GRAPHQL_PARSE_FAILED"}'] === 11 &&
    values['nth_requests_total{operation="mutation",code="OK"}'] === 31
  await expect.poll(async () => isComplete((await readMetrics(nth.url)).values)).toBe(true)
  const { values } = await readMetrics(nth.url)
  const ofWorker = (name: string, labels: string, worker: number) =>
    values[`${name}{${labels}worker="${worker}"}`]
  const mutations = [1, 2].map((worker) =>
    ofWorker('nth_worker_requests_total', 'operation="mutation",code="OK",', worker),
  )
  const refused = [1, 2].map((worker) =>
    ofWorker('nth_worker_requests_total', 'operation="none",code="GRAPHQL_PARSE_FAILED",', worker),
  )
  const busiest = mutations.indexOf(30)
  expect([mutations[busiest], mutations[1 - busiest]]).toEqual([30, 1])
  expect([refused[busiest], refused[1 - busiest]]).toEqual([undefined, 11])
  const memory = [1, 2].map((worker) => ofWorker('nth_worker_resident_memory_bytes', '', worker) ?? 0)
  for (const bytes of memory) expect(bytes).toBeGreaterThan(20_000_000)
  expect(memory.reduce((sum, bytes) => sum + bytes)).toBe(values.process_resident_memory_bytes)

  const workers = await workersOf(nth)
  process.kill(workers[busiest] ?? 0, 'SIGKILL')
  await nth.printed('A replacement starts')
  const present = async () => (await readMetrics(nth.url)).values
  await expect.poll(async () => (await present()).nth_workers).toBe(2)
  for (let time = 0; time < 4; time++) await openCaller(nth.url)(increment)
  const now = await present()
  const sums = [1, 2].map(
    (worker) => now[`nth_worker_requests_total{operation="mutation",code="OK",worker="${worker}"}`] ?? 0,
  )
  expect(sums[busiest]).toBeGreaterThanOrEqual(30)
  expect(sums.reduce((sum, count) => sum + count)).toBe(
    now['nth_requests_total{operation="mutation",code="OK"}'],
  )
  expect(Object.keys(now).filter((name) => name.includes('worker="3"'))).toEqual([])
})

/** Returns a function that sends a document over one connection, so always to the same worker. */
function openCaller(url: string): (query: string) => Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  return async (query) => {
    const headers = { 'content-type': 'application/json' }
    await new Promise<void>((resolve, reject) => {
      const sent = request(`${url}/graphql`, { method: 'POST', agent, headers }, (response) => {
        text(response).then(() => resolve(), reject)
      })
      sent.on('error', reject)
      sent.end(JSON.stringify({ query }))
    })
  }
}

it('shows metrics to callers that may read everything only', async () => {
  const { url, createKey } = await startProtected()
  const { secret: some } = await createKey([{ scopes: ['READ'], namespace: 'shop' }])
  const { secret: all } = await createKey([{ scopes: ['READ'] }])
  const as = (secret: string) => readMetrics(url, { authorization: `Bearer ${secret}` })
  expect((await readMetrics(url)).status).toBe(401)
  expect((await as('nth_wrong')).status).toBe(401)
  expect((await as(some)).status).toBe(403)
  expect((await as(all)).values.nth_workers).toBe(1)
  expect((await as(ADMIN_KEY)).values.nth_workers).toBe(1)
})

it('counts what limits refuse', async () => {
  const { url } = await startProtected({
    maxStreams: 1,
    access: {
      adminKey: ADMIN_KEY,
      anonymous: ['READ', 'ADD'],
      anonymousPerMinute: 2,
      trustedProxies: ['127.0.0.1'],
    },
  })
  const client = { 'x-forwarded-for': '192.0.2.1' }
  for (let time = 0; time < 5; time++)
    await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { ...client, 'content-type': 'application/json' },
      body: JSON.stringify({ query: increment }),
    })
  const opened = { headers: client }
  const query = 'subscription { counters(names: ["a"]) { value } }'
  await (await subscribe(url, query, opened)).data()
  expect((await subscribe(url, query, opened)).status).toBe(429)
  const { values } = await readMetrics(url, { authorization: `Bearer ${ADMIN_KEY}` })
  expect(values).toMatchObject({
    'nth_refusals_total{limit="rate"}': 3,
    'nth_refusals_total{limit="streams"}': 1,
  })
})
