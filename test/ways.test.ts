import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import { createFront } from '../src/http/front.ts'
import { createApi } from '../src/http/yoga.ts'
import { freshDatabase } from './support/database.ts'
import { startFront } from './support/front.ts'
import { openTestNth } from './support/nth.ts'

/** A parameter that means nothing, and so takes a request through Yoga as it is. */
const FULL = { 'content-type': 'application/json; way=full' }
const SHORT = { 'content-type': 'application/json' }

const ACCEPTS = [
  undefined,
  '*/*',
  'application/json',
  'application/json, text/plain, */*',
  'application/graphql-response+json',
  'application/graphql-response+json, application/json',
  'application/graphql-response+json,application/json;q=0.9',
  'application/graphql-response+json; charset=utf-8, application/json; charset=utf-8',
  'text/event-stream',
  'multipart/mixed',
  'text/html',
  'application/*',
  '',
]

const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'

const bodies: unknown[] = [
  // Good ones.
  { query: '{ __typename }' },
  { query: '{ counter(name: "a") { id namespace name value createdAt updatedAt } }' },
  {
    query: 'query Q($n: [String!]!) { counters(names: $n) { ...F } } fragment F on Counter { name value }',
    variables: { n: ['a', 'b'] },
  },
  { query: INCREMENT, variables: { name: 'c' } },
  { query: 'query A { a: __typename } query B { b: __typename }', operationName: 'B' },
  { query: '{ __schema { queryType { name } } }' },
  {
    query: 'query($s: Boolean!) { __typename @skip(if: $s) namespace { name @include(if: $s) } }',
    variables: { s: true },
  },
  { query: '{ node(id: "Q291bnRlcjpkZWZhdWx0CmE") { id ... on Counter { value } } }' },
  { query: '{ __typename }', variables: null, operationName: null, extensions: null, extra: null },
  { query: '{ __typename }', extensions: { some: 'thing' } },
  // Refused by the core, partly or wholly.
  { query: 'mutation { increment(name: "") { value } }' },
  {
    query:
      'mutation { a: incrementBy(name: "c", delta: 1) { value } b: incrementBy(name: "m", delta: 9007199254740991) { value } c: incrementBy(name: "m", delta: 1) { value counter { value } } }',
  },
  { query: '{ counters(names: []) { value } counter(name: "a") { value } }' },
  { query: '{ node(id: "x") { id } }' },
  { query: '{ namespace { counters(first: 1, last: 1) { nodes { name } } } }' },
  // Variables that are wrong, missing or too many.
  { query: INCREMENT },
  { query: INCREMENT, variables: {} },
  { query: INCREMENT, variables: { name: 5 } },
  { query: INCREMENT, variables: { name: null } },
  { query: INCREMENT, variables: { name: 'c', other: 1 } },
  { query: 'query($n: [String!]!) { counters(names: $n) { value } }', variables: { n: ['a', null, 3] } },
  { query: 'query($n: String = null) { counter(name: "a", namespace: $n) { value } }' },
  // Documents that are wrong.
  { query: '' },
  { query: '{' },
  { query: '{ nope }' },
  { query: '{ counter(name: 1) { value } }' },
  { query: '{ counter { value } }' },
  { query: 'subscription { nope }' },
  { query: 'fragment F on Counter { name }' },
  { query: `{ ${'a '.repeat(10_001)} }` },
  // Operations that are not there.
  { query: '{ __typename }', operationName: 'Nope' },
  { query: 'query A { __typename } query B { __typename }' },
  { query: '{ __typename }', operationName: '' },
  // Parameters that are wrong.
  {},
  [],
  [{ query: '{ __typename }' }],
  null,
  5,
  'text',
  { query: 5 },
  { query: null },
  { query: ['{ __typename }'] },
  { query: '{ __typename }', variables: 'text' },
  { query: '{ __typename }', variables: [] },
  { query: '{ __typename }', extensions: 5 },
  { query: '{ __typename }', operationName: 5 },
  { query: '{ __typename }', extra: 1 },
  { variables: { a: 1 } },
]

const texts = [
  ...bodies.map((body) => JSON.stringify(body)),
  '',
  '{',
  '{"query": nope}',
  '\ufeff{"query":"{ __typename }"}',
  '{"query":"{ __typename }","__proto__":{"a":1}}',
  '{"query":"{ __typename }"} ',
]

/** Posts with these headers only: fetch would add an Accept. */
async function answerOf(url: string, text: string, headers: Record<string, string>) {
  const sent = request(`${url}/graphql`, { method: 'POST', headers }).end(text)
  // The one thing that this event tells.
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let received = ''
  for await (const chunk of response.setEncoding('utf8')) received += chunk
  const about = ['content-type', 'content-length', 'allow', 'vary', 'access-control-allow-origin']
  return { status: response.statusCode, headers: about.map((name) => response.headers[name]), text: received }
}

it.each(ACCEPTS)(
  'answers the same by the shortest way and through Yoga, to the Accept %j',
  async (accept) => {
    const { url, ask, faults } = await startFront()
    const headers = { origin: 'http://localhost', ...(accept !== undefined && { accept }) }
    for (const text of texts) {
      const answers = []
      for (const way of [FULL, SHORT]) {
        await ask('mutation { reset(name: "c") { value } b: reset(name: "m") { value } }')
        answers.push(await answerOf(url, text, { ...headers, ...way }))
      }
      expect({ text, ...answers[1] }).toEqual({ text, ...answers[0] })
    }
    expect(faults).toEqual([])
  },
)

it('answers the same by both ways, whatever the parameters', async () => {
  const { url, faults } = await startFront()
  const query = fc.constantFrom(
    '{ __typename }',
    '{ nope }',
    '{',
    'query($n: String!) { counter(name: $n) { name } }',
  )
  const parameters = fc.record(
    {
      query: fc.oneof({ weight: 4, arbitrary: query }, fc.jsonValue()),
      variables: fc.oneof(fc.jsonValue(), fc.record({ n: fc.jsonValue() })),
      operationName: fc.jsonValue(),
      extensions: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(parameters, fc.jsonValue()),
      fc.constantFrom(...ACCEPTS.slice(2, 6)),
      async (body, accept) => {
        const text = JSON.stringify(body)
        const headers = accept === undefined ? {} : { accept }
        expect(await answerOf(url, text, { ...headers, ...SHORT })).toEqual(
          await answerOf(url, text, { ...headers, ...FULL }),
        )
      },
    ),
    { numRuns: 300 },
  )
  expect(faults).toEqual([])
})

it('takes ordinary requests by the shortest way, and others through Yoga', async () => {
  const api = createApi({ nth: openTestNth(await freshDatabase()), onFault: () => undefined })
  let throughYoga = 0
  const watched = new Proxy(api, {
    apply(target, self, parameters) {
      throughYoga += 1
      return Reflect.apply(target, self, parameters)
    },
  })
  const front = createFront(watched)
  const server = createServer((request, response) => front(request, response, {}))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  // It listens at a port.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const text = JSON.stringify({ query: INCREMENT, variables: { name: 'c' } })

  for (const accept of ACCEPTS.slice(1, 7)) await answerOf(url, text, { ...SHORT, accept: String(accept) })
  for (const type of ['application/json; charset=utf-8', 'application/json;charset=UTF-8']) {
    await answerOf(url, text, { 'content-type': type })
  }
  await answerOf(url, '{"query":"{ nope }"}', SHORT)
  expect(throughYoga).toBe(0)
  for (const accept of ACCEPTS.slice(7, 12)) await answerOf(url, text, { ...SHORT, accept: String(accept) })
  await answerOf(url, text, FULL)
  await answerOf(url, '{', SHORT)
  await fetch(`${url}/graphql?query={__typename}`)
  expect(throughYoga).toBe(8)
})
