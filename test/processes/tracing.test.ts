// @module-tag slow
import { channel } from 'node:diagnostics_channel'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { changeChannel, flushTrace, operationTrace, requestTrace } from '../../src/operations/measures.ts'
import { openTracing } from '../../src/operations/tracing.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** A span, in the JSON of OTLP. */
interface SentSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: { key: string; value: Record<string, unknown> }[]
  links?: { traceId: string; spanId: string }[]
  status: { code?: number }
}

/** A collector of OpenTelemetry, and what it has received. */
async function startCollector() {
  const bodies: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    bodies.push(body)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    text: () => bodies.join('\n'),
    spans: () =>
      bodies.flatMap((body) =>
        JSON.parse(body).resourceSpans.flatMap(({ scopeSpans }: { scopeSpans: { spans: SentSpan[] }[] }) =>
          scopeSpans.flatMap(({ spans }) => spans),
        ),
      ) as SentSpan[],
  }
}

/** Starts Nth with the file that the documentation shows. */
async function startTraced(environment: Record<string, string> = {}) {
  const collector = await startCollector()
  const directory = await temporaryDirectory()
  const [, file = ''] =
    /^```js\n([\s\S]*?)^```$/m.exec(await readFile(join(ROOT, 'docs/operations.md'), 'utf8')) ?? []
  // Copies, as the SDK comes with an API of its own.
  await cp(join(ROOT, 'node_modules/@opentelemetry'), join(directory, 'node_modules/@opentelemetry'), {
    recursive: true,
  })
  await writeFile(join(directory, 'tracing.mjs'), file)
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    NODE_OPTIONS: `--import ${join(directory, 'tracing.mjs')}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    ...environment,
  })
  return {
    nth,
    collector,
    /** Ends Nth, which exports its last spans. */
    async end(): Promise<SentSpan[]> {
      nth.child.kill('SIGTERM')
      expect(await nth.exited).toBe(0)
      return collector.spans()
    },
  }
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const OTHER = `${'4'.repeat(31)}a`
const CALLER = 'b7ad6b7169203331'
const traceparent = (trace = TRACE) => ({ traceparent: `00-${trace}-${CALLER}-01` })
const ID = 'order-4217'
const SECRET = 'a-name-that-is-nobody-elses-business'

function attributesOf({ attributes }: SentSpan): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

it('tracing: makes spans of a request, its operation, the flush and the statements, below that of the caller', {
  tags: 'quick',
}, async () => {
  const { nth, collector, end } = await startTraced()
  const query = 'mutation Buy($name: String!) { increment(name: $name) { value } }'
  await nth.send(query, { name: SECRET })
  await nth.post(JSON.stringify({ query, variables: { name: SECRET } }), {
    ...traceparent(),
    'x-request-id': ID,
  })
  const spans = (await end()).filter(({ traceId }) => traceId === TRACE)
  const [request, ...others] = spans.filter(({ parentSpanId }) => parentSpanId === CALLER)
  expect(others).toEqual([])
  if (!request) throw new Error('No span of the request')
  expect([request.name, request.kind]).toEqual(['POST /graphql', 2])
  expect(attributesOf(request)).toEqual({
    'http.request.method': 'POST',
    'http.route': '/graphql',
    'http.response.status_code': 200,
    'nth.request.id': ID,
    'graphql.operation.type': 'mutation',
    'graphql.operation.name': 'Buy',
  })
  const below = (parent: SentSpan | undefined) =>
    spans.filter(({ parentSpanId }) => parentSpanId === parent?.spanId)
  const [operation] = below(request)
  expect(operation?.name).toBe('mutation')
  const [flush] = below(operation)
  expect([flush?.name, flush && attributesOf(flush)]).toEqual(['flush', { 'nth.flush.calls': 1 }])
  const statements = below(flush)
  expect(statements.length).toBeGreaterThanOrEqual(1)
  for (const statement of statements) {
    expect(statement.kind).toBe(3)
    expect(attributesOf(statement)).toMatchObject({ 'db.system.name': 'mysql' })
  }
  expect(statements.at(-1)?.name).toMatch(/^[A-Z]+ nth_test_\w+$/)
  expect(collector.text()).not.toContain(SECRET)
  expect(collector.text()).toContain('"nth"')
})

it('tracing: links a flush to the callers that it serves, names errors, and follows reads and other methods', async () => {
  const { nth, end } = await startTraced()
  const query = 'mutation { increment(name: "hot") { value } }'
  await nth.send(query)
  await Promise.all(Array.from({ length: 200 }, () => nth.post(JSON.stringify({ query }), traceparent())))
  const REFUSED = `${'1'.repeat(31)}a`
  await nth.post(
    JSON.stringify({ query: 'mutation { increment(name: "") { value } }' }),
    traceparent(REFUSED),
  )
  const READ = `${'2'.repeat(31)}a`
  await fetch(
    `${nth.url}/graphql?query=${encodeURIComponent('query Look { counter(name: "hot") { value } }')}`,
    {
      headers: traceparent(READ),
    },
  )
  const BROKEN = `${'3'.repeat(31)}a`
  await nth.post('{', traceparent(BROKEN))
  const spans = await end()
  const flushes = spans.filter(({ name }) => name === 'flush')
  const linked = flushes.filter(({ links = [] }) => links.length > 0)
  expect(linked.length).toBeGreaterThan(0)
  const operations = new Set(spans.filter(({ name }) => name === 'mutation').map(({ spanId }) => spanId))
  for (const { links = [] } of linked) {
    expect(links.length).toBeLessThanOrEqual(32)
    for (const { spanId } of links) expect(operations).toContain(spanId)
  }
  const of = (trace: string) => spans.filter(({ traceId }) => traceId === trace)
  const [refused] = of(REFUSED).filter(({ parentSpanId }) => parentSpanId === CALLER)
  expect(refused && attributesOf(refused)).toMatchObject({ 'error.type': 'BAD_USER_INPUT' })
  expect(refused?.status.code ?? 0).toBe(0)
  expect(
    of(READ)
      .map(({ name }) => name.replace(/nth_test_\w+/, 'nth'))
      // If all connections are in use, a read opens another one.
      .filter((name) => !/^(SET|SHOW) /.test(name))
      .toSorted(),
  ).toEqual(['GET /graphql', 'SELECT nth', 'query'])
  expect(of(READ).map(attributesOf)).toContainEqual(
    expect.objectContaining({ 'graphql.operation.name': 'Look' }),
  )
  expect(of(BROKEN).map(attributesOf)).toContainEqual(
    expect.objectContaining({ 'http.response.status_code': 400 }),
  )
})

it('tracing: makes spans in every worker, and only of what callers record', async () => {
  const { nth, end } = await startTraced({ WORKERS: '2', OTEL_TRACES_SAMPLER: 'parentbased_always_off' })
  const query = 'mutation { increment(name: "hot") { value } }'
  await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      nth.post(JSON.stringify({ query }), { connection: 'close', ...(index < 20 && traceparent()) }),
    ),
  )
  const spans = await end()
  expect(spans.filter(({ kind }) => kind === 2)).toHaveLength(20)
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
})

it('tracing: makes a flush part of the trace of the first caller that is sampled, with links to the others', async () => {
  const { nth, end } = await startTraced({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' })
  const query = 'mutation { increment(name: "hot") { value } }'
  const sampled = new Set([150, 160, 170, 180])
  await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      nth.post(JSON.stringify({ query }), sampled.has(index) ? traceparent() : {}),
    ),
  )
  const spans = await end()
  const operations = spans.filter(({ name }) => name === 'mutation').map(({ spanId }) => spanId)
  const flushes = spans.filter(({ name }) => name === 'flush')
  const reached = flushes.flatMap(({ parentSpanId, links = [] }) => [
    parentSpanId,
    ...links.map(({ spanId }) => spanId),
  ])
  expect(operations).toHaveLength(sampled.size)
  expect(reached.toSorted()).toEqual(operations.toSorted())
})

it('tracing: makes no spans of what a subscription reads later, nor of copies to the leaderboard', async () => {
  const { nth, end } = await startTraced({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' })
  await nth.ask('mutation { increment(name: "hot") { value } }')
  const stream = await subscribe(nth.url, 'subscription { counters(names: ["hot"]) { value } }', {
    headers: traceparent(),
  })
  const query = 'mutation { increment(name: "hot") { value } }'
  for (let value = 2; value <= 6; value++) {
    await nth.post(JSON.stringify({ query }), traceparent(OTHER))
    await stream.until(({ counters }) => counters[0].value === value)
  }
  const highest = '{ namespace(name: "default") { counters(orderBy: VALUE_DESC) { nodes { value } } } }'
  const isCopied = async () => (await nth.ask(highest)).namespace.counters.nodes
  await expect.poll(isCopied).toEqual([{ value: 6 }])
  stream.close()
  const spans = await end()
  const names = spans.filter(({ traceId }) => traceId === TRACE).map(({ name }) => name)
  expect(names).toEqual(expect.arrayContaining(['GET /graphql', 'subscription']))
  const endings = new Map(spans.map(({ spanId, endTimeUnixNano }) => [spanId, BigInt(endTimeUnixNano)]))
  for (const { kind, parentSpanId = '', startTimeUnixNano } of spans) {
    // Spans of one process may have clocks that differ by less than a millisecond.
    const latest = (endings.get(parentSpanId) ?? 0n) + 1_000_000n
    if (kind === 3) expect(BigInt(startTimeUnixNano)).toBeLessThanOrEqual(latest)
  }
})

it('tracing: gives a request no status whose client went away before its answer', async () => {
  const { nth, end } = await startTraced({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' })
  const headers = { 'content-type': 'application/json', 'content-length': '100', ...traceparent() }
  const sent = request(`${nth.url}/graphql`, { method: 'POST', headers, agent: false })
  sent.on('error', () => undefined)
  await new Promise((resolve) => sent.write('{"query":', resolve))
  // Its bytes are read before those of a later one.
  await nth.ask('{ counter(name: "a") { value } }')
  sent.destroy()
  const [span, ...others] = await end()
  expect(others).toEqual([])
  expect(span && attributesOf(span)).toMatchObject({ 'http.request.method': 'POST' })
  expect(span && attributesOf(span)).not.toHaveProperty('http.response.status_code')
})

it('tracing: subscribes to nothing unless a provider is registered', { tags: 'quick' }, async () => {
  const service = await startService()
  await openTracing('0').close()
  await service.ask('mutation { increment(name: "a") { value } }')
  const channels = [requestTrace, operationTrace, flushTrace].flatMap(({ start, asyncEnd }) => [
    start,
    asyncEnd,
  ])
  expect([...channels, changeChannel].filter(({ hasSubscribers }) => hasSubscribers)).toEqual([])
  expect(channel('tracing:mysql2:query:asyncEnd').hasSubscribers).toBe(false)
})
