// @module-tag random
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { parse } from 'graphql'
import { expect, it, onTestFinished } from 'vitest'
import { UNRESTRICTED } from '../src/core/access/caller.ts'
import { SILENT } from '../src/core/notices.ts'
import type { Nth } from '../src/core/nth.ts'
import { createBodyReader } from '../src/http/connections/body.ts'
import { createGraphqlHandler } from '../src/http/graphql/graphqlHandler.ts'
import { type Api, createApi } from '../src/http/graphql/yoga.ts'
import type { Client } from './support/client.ts'
import { freshDatabase } from './support/database.ts'
import { startFront } from './support/front.ts'
import { openTestNth } from './support/nth.ts'
import { runSize } from './support/random.ts'
import { ACCEPTS, bodies, INCREMENT, texts } from './support/requests.ts'

/** A parameter that means nothing, and so takes a request through Yoga as it is. */
const FULL = { 'content-type': 'application/json; way=full' }
const SHORT = { 'content-type': 'application/json' }

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

/** Whether a body has a document that can be parsed: of others, errors tell where the end is. */
function isAboutDocument(body: unknown): body is { query: string } {
  try {
    return Boolean(parse((body as { query: string }).query))
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

/** Streams of events have one way only. */
const EQUAL = ACCEPTS.filter((accept) => accept !== 'text/event-stream')

it.each(EQUAL.slice(0, runSize(2, EQUAL.length)))(
  'answers the same by the shortest way and through Yoga, to the Accept %j',
  async (accept) => {
    const { url, ask, faults } = await startFront()
    const setBack = setterBack(ask)
    const headers = { origin: 'http://localhost', ...(accept !== undefined && { accept }) }
    for (const text of texts) {
      const answers = []
      for (const way of [FULL, SHORT]) {
        await setBack(text)
        answers.push(await answerOf(url, text, { ...headers, ...way }))
      }
      expect({ text, ...answers[1] }).toEqual({ text, ...answers[0] })
    }
    expect(faults).toEqual([])
  },
)

it.each(['*/*', 'application/graphql-response+json'])(
  'answers the same about a document that it knows as about one that is new, to the Accept %j',
  async (accept) => {
    const { url, ask, faults } = await startFront()
    const setBack = setterBack(ask)
    for (const [index, body] of bodies.entries()) {
      if (!isAboutDocument(body)) continue
      const answers = []
      // A document that is refused stays new, however often it comes.
      for (const end of ['', '', `\n# ${index}`]) {
        const text = JSON.stringify({ ...body, query: body.query + end })
        await setBack(text)
        answers.push(await answerOf(url, text, { ...SHORT, accept }))
      }
      expect({ body, answers: answers.slice(0, 2) }).toEqual({ body, answers: [answers[2], answers[2]] })
    }
    expect(faults).toEqual([])
  },
)

it('tells an operator of a fault, and callers nothing, also where it knows the document', async () => {
  const around = ({ counters, ...others }: Nth): Nth => ({
    ...others,
    counters: { ...counters, read: () => Promise.reject(new Error('secret')) },
  })
  const { url, faults } = await startFront({ around })
  const text = JSON.stringify({ query: '{ counter(name: "c") { value } }' })
  for (const way of [SHORT, SHORT, FULL]) {
    const answer = await answerOf(url, text, way)
    expect(answer.text).toContain('INTERNAL_SERVER_ERROR')
    expect(answer.text).not.toContain('secret')
    expect(faults.splice(0)).toEqual([new Error('secret')])
  }
})

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
    { numRuns: runSize(50, 100) },
  )
  expect(faults).toEqual([])
})

/** A server with nothing but the way into Yoga, of which a test may change parts. */
async function serve(handler: ProxyHandler<Api['yoga']>): Promise<{ url: string; faults: unknown[] }> {
  const faults: unknown[] = []
  const nth = openTestNth(await freshDatabase())
  const api = createApi({ nth, notices: { ...SILENT, fault: (fault) => faults.push(fault) } })
  const server = createServer()
  const reserve = () => true
  const handle = createGraphqlHandler({
    api: { ...api, yoga: new Proxy(api.yoga, handler) },
    readBody: createBodyReader(server, { reserve, graceMs: 10_000, unauthorizedMs: 10_000 }),
    reserve,
    release: () => undefined,
    authenticate: () => ({ caller: UNRESTRICTED, takeChanges: undefined }),
  })
  server.on('request', (request, response) => handle(request, response, []))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  // It listens at a port.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, faults }
}

it('takes ordinary requests by the shortest way, and others through Yoga', async () => {
  let throughYoga = 0
  const { url } = await serve({
    apply(target, self, parameters) {
      throughYoga += 1
      return Reflect.apply(target, self, parameters)
    },
  })
  const text = JSON.stringify({ query: INCREMENT, variables: { name: 'c' } })

  for (const accept of EQUAL.slice(1, 7)) await answerOf(url, text, { ...SHORT, accept: String(accept) })
  for (const type of ['application/json; charset=utf-8', 'application/json;charset=UTF-8']) {
    await answerOf(url, text, { 'content-type': type })
  }
  await answerOf(url, '{"query":"{ nope }"}', SHORT)
  expect(throughYoga).toBe(0)
  for (const accept of EQUAL.slice(7, 11)) await answerOf(url, text, { ...SHORT, accept: String(accept) })
  await answerOf(url, text, FULL)
  await answerOf(url, '{', SHORT)
  await fetch(`${url}/graphql?query={__typename}`)
  expect(throughYoga).toBe(7)
})

it('answers 500 where Yoga itself fails, and tells an operator', async () => {
  const getResultForParams = () => Promise.reject(new Error('secret'))
  const { url, faults } = await serve({
    get: (target, name) => (name === 'getResultForParams' ? getResultForParams : Reflect.get(target, name)),
  })
  const answer = await answerOf(url, '{"query":"{ __typename }"}', SHORT)
  expect(answer).toMatchObject({ status: 500, text: expect.stringContaining('INTERNAL_SERVER_ERROR') })
  expect(answer.text).not.toContain('secret')
  expect(faults).toEqual([new Error('secret')])
})
