import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { LIMITS } from '../../src/operations/measures.ts'
import { subscribe } from '../support/client/events.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startNth } from '../support/server/nthProcess.ts'
import { workersOf } from '../support/server/processes.ts'

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
  Object.fromEntries(
    Object.entries(values).filter(([name, value]) => name.startsWith('nth_requests_total') && value > 0),
  )

it('GET /metrics: has what alerts ask for from the start, so that they see the first one', async () => {
  const nth = await startNth({ DATABASE_URL: urlOf(await freshDatabase()), NTH_METRICS_PORT: '0' })
  const own = /Metrics: (\S+)\/metrics/.exec(nth.output())?.[1] ?? ''
  const { values } = await readMetrics(own)
  const rules = await readFile(join(import.meta.dirname, '../../deploy/alerts.yaml'), 'utf8')
  const codes = [...rules.matchAll(/code=~?"([A-Z_|]+)"/g)].flatMap(([, found = '']) => found.split('|'))
  expect(codes).toContain('INTERNAL_SERVER_ERROR')
  for (const code of codes)
    for (const operation of ['query', 'mutation', 'subscription', 'none'])
      expect(values[`nth_requests_total{operation="${operation}",code="${code}"}`]).toBe(0)
  for (const limit of LIMITS) expect(values[`nth_refusals_total{limit="${limit}"}`]).toBe(0)
})

it('GET /metrics: has the sizes of tables, such as that of subjects', async () => {
  const target = await freshDatabase()
  const subjects = Array.from({ length: 2000 }, (_, index) => `s${index}`)
  const { counters } = openTestNth(target)
  await Promise.all(subjects.map((subject) => counters.countOnce({ namespace: 'n', name: 'c' }, subject)))
  await query(target, 'analyze table counter_subject')
  const nth = await startNth({ DATABASE_URL: urlOf(target), NTH_METRICS_PORT: '0' })
  const own = /Metrics: (\S+)\/metrics/.exec(nth.output())?.[1] ?? ''
  const size = async (unit: string) =>
    (await readMetrics(own)).values[`nth_table_${unit}{table="counter_subject"}`] ?? 0
  await expect.poll(() => size('rows')).toBeGreaterThan(1000)
  expect(await size('bytes')).toBeGreaterThan(16_000)
})

it('GET /metrics: counts what callers counted, over all workers, also those that ended', {
  tags: 'slow',
}, async () => {
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

it('GET /metrics: shows metrics to callers that may read everything only', async () => {
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

it('GET /metrics: counts what limits refuse', async () => {
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
