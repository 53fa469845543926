// @module-tag random
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { parse } from 'graphql'
import { auditServer } from 'graphql-http'
import { expect, it } from 'vitest'
import type { Nth } from '../../src/repository/nth.ts'
import type { Client } from '../support/client/client.ts'
import { meetsRareCases } from '../support/random.ts'
import { startFront } from '../support/server/front.ts'

const JSON_BODY = { 'content-type': 'application/json' }
const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'

/** Requests of every kind: executed, refused in part, and refused. */
const BODIES: { query: string; variables?: object | null; operationName?: string | null }[] = [
  { query: '{ __typename }', variables: null, operationName: null },
  { query: '{ counter(name: "a") { id namespace { name } name value createdAt updatedAt } }' },
  {
    query: 'query Q($n: [String!]!) { counters(names: $n) { ...F } } fragment F on Counter { name value }',
    variables: { n: ['a', 'b'] },
  },
  { query: INCREMENT, variables: { name: 'c' } },
  { query: 'query A { a: __typename } query B { b: __typename }', operationName: 'B' },
  { query: '{ __schema { queryType { name } } }' },
  { query: 'query($s: Boolean!) { __typename @skip(if: $s) namespace { name } }', variables: { s: true } },
  { query: '{ node(id: "Q291bnRlcjpkZWZhdWx0CmE") { id ... on Counter { value } } }' },
  { query: 'mutation { increment(name: "") { value } }' },
  {
    query:
      'mutation { a: incrementBy(name: "m", delta: 9007199254740991) { value } b: incrementBy(name: "m", delta: 1) { counter { value } } }',
  },
  { query: '{ counters(names: []) { value } counter(name: "a") { value } }' },
  { query: '{ namespace { counters(first: 1, last: 1) { nodes { name } } } }' },
  { query: INCREMENT },
  { query: INCREMENT, variables: { name: 5 } },
  { query: INCREMENT, variables: { name: 'c', other: 1 } },
  { query: 'query($n: [String!]!) { counters(names: $n) { value } }', variables: { n: ['a', null, 3] } },
  { query: 'query($n: String = null) { counter(name: "a", namespace: $n) { value } }' },
  { query: '' },
  { query: '{' },
  { query: '{ nope }' },
  { query: '{ counter(name: 1) { value } }' },
  { query: 'subscription { nope }' },
  { query: 'fragment F on Counter { name }' },
  { query: '{ __typename }', operationName: 'Nope' },
  { query: 'query A { __typename } query B { __typename }' },
  { query: 'query($n: String!) { counters(names: ["c", $n]) { value } }', variables: { n: 'd' } },
]

/** Posts with these headers only: fetch would add an Accept. */
async function answerOf(url: string, text: string, headers: Record<string, string>) {
  const sent = request(`${url}/graphql`, { method: 'POST', headers }).end(text)
  // The only argument of this event.
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let received = ''
  for await (const chunk of response.setEncoding('utf8')) received += chunk
  const about = ['content-type', 'content-length', 'allow', 'vary', 'access-control-allow-origin']
  return { status: response.statusCode, headers: about.map((name) => response.headers[name]), text: received }
}

/** Whether a document can be parsed: errors of others say where the end is. */
function isParsable(query: string): boolean {
  try {
    return Boolean(parse(query))
  } catch {
    return false
  }
}

/** Makes what sets back what requests change, before a request and where the one before it was a mutation. */
function setterBack(ask: Client['ask']): (next: string) => Promise<void> {
  let isChanged = true
  return async (next) => {
    if (isChanged) await ask('mutation { reset(name: "c") { value } b: deleteCounter(name: "m") { value } }')
    isChanged = next.includes('mutation')
  }
}

const JSON_TYPE = 'application/json; charset=utf-8'
const RESPONSE_TYPE = 'application/graphql-response+json; charset=utf-8'

it.each([
  [undefined, JSON_TYPE],
  ['', JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['application/*', JSON_TYPE],
  ['application/json', JSON_TYPE],
  ['Application/JSON;q=0.5', JSON_TYPE],
  ['application/json, text/plain, */*', JSON_TYPE],
  ['text/html, */*;q=0.1', JSON_TYPE],
  ['application/graphql-response+json', RESPONSE_TYPE],
  ['application/graphql-response+json, application/json', RESPONSE_TYPE],
  ['application/graphql-response+json,application/json;q=0.9', RESPONSE_TYPE],
  ['application/json;q=0.5, application/graphql-response+json', RESPONSE_TYPE],
  ['application/json;q=0, application/graphql-response+json; q=0.1', RESPONSE_TYPE],
  ['application/graphql-response+json; charset=utf-8, application/json; charset=utf-8', RESPONSE_TYPE],
  ['multipart/mixed;deferSpec=20220824, application/json', JSON_TYPE],
  ['text/event-stream, application/graphql-response+json, application/json', RESPONSE_TYPE],
])(
  'Accept: %j is answered with the type of JSON that is wanted most, or the first such one',
  async (accept, type) => {
    const { url, ask, faults } = await startFront()
    const setBack = setterBack(ask)
    const headers = { ...JSON_BODY, origin: 'http://localhost', ...(accept !== undefined && { accept }) }
    for (const body of BODIES.filter((_, index) => index % (meetsRareCases() ? 1 : 6) === 0)) {
      const text = JSON.stringify(body)
      await setBack(text)
      const answer = await answerOf(url, text, headers)
      const { data, errors } = JSON.parse(answer.text)
      const [contentType, length, , vary, origin] = answer.headers
      expect({ text, contentType, length, vary, origin, end: answer.text.at(-1) }).toEqual({
        text,
        contentType: type,
        length: String(Buffer.byteLength(answer.text)),
        vary: 'Origin',
        origin: 'http://localhost',
        end: '\n',
      })
      expect(Boolean(data) || errors.length > 0).toBe(true)
      if (data) expect(answer.status).toBe(200)
      else if (type === RESPONSE_TYPE) expect(answer.status).toBeGreaterThanOrEqual(400)
    }
    expect(faults).toEqual([])
  },
)

it.each(['*/*', 'application/graphql-response+json'])(
  'documents: are answered the same when they are known as when they are new, to the Accept %j',
  async (accept) => {
    const { url, ask, faults } = await startFront()
    const setBack = setterBack(ask)
    for (const [index, body] of BODIES.entries()) {
      if (!isParsable(body.query)) continue
      const answers = []
      // A document that is refused stays new, however often it comes.
      for (const end of ['', '', `\n# ${index}`]) {
        const text = JSON.stringify({ ...body, query: body.query + end })
        await setBack(text)
        answers.push(await answerOf(url, text, { ...JSON_BODY, accept }))
      }
      expect({ body, answers: answers.slice(0, 2) }).toEqual({ body, answers: [answers[2], answers[2]] })
    }
    expect(faults).toEqual([])
  },
)

it.each([
  ['of a query', '{ counter(name: "c") { value revision } }', { counter: null }, /^An internal error/],
  [
    // The state of a replayed call is read.
    'below a field of a mutation',
    'mutation { increment(name: "c", idempotencyKey: "k") { counter { value } } }',
    { increment: { counter: null } },
    /^The change was applied, but `counter` could not be read: An internal/,
  ],
])('faults: %s are reported to the operator, and not to callers', async (_, query, data, message) => {
  const around = ({ counters, ...others }: Nth): Nth => ({
    ...others,
    counters: { ...counters, read: () => Promise.reject(new Error('secret')) },
  })
  const { ask, post, faults } = await startFront({ around })
  await ask('mutation { increment(name: "c", idempotencyKey: "k") { value } }')
  // A cached document is compiled.
  for (const _ of [1, 2, 3]) {
    const { body } = await post(JSON.stringify({ query }))
    expect(body.data).toEqual(data)
    expect(body.errors).toMatchObject([
      { message: expect.stringMatching(message), extensions: { code: 'INTERNAL_SERVER_ERROR' } },
    ])
    expect(JSON.stringify(body)).not.toContain('secret')
    expect(faults.splice(0)).toEqual([new Error('secret')])
  }
})

it('GraphQL over HTTP: passes the whole audit of graphql-http', async () => {
  const { url } = await startFront()
  const results = await auditServer({ url: `${url}/graphql`, fetchFn: fetch })
  const failures = results.filter(({ status }) => status !== 'ok')
  expect(failures.map(({ name, ...result }) => [name, 'reason' in result && result.reason])).toEqual([])
  expect(results.length).toBeGreaterThan(50)
})
