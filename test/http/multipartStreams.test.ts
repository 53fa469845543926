import { ApolloClient, type CombinedProtocolErrors, gql, HttpLink, InMemoryCache } from '@apollo/client/core'
import { expect, it, onTestFinished } from 'vitest'
import { startProtected } from '../support/client/keys.ts'
import { startFront } from '../support/server/front.ts'
import { soon } from '../support/soon.ts'

const ACCEPT = 'multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json'
const VALUES = 'subscription { counters(names: ["a"]) { value } }'
const INCREMENT = 'mutation { increment(name: "a") { value } }'

/** The text of a response until it contains something. */
async function readUntil(response: Response, pattern: RegExp): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    if (pattern.test(text)) return text
  }
  throw new Error(`The response ended: ${text}`)
}

function send(url: string, query: string, accept = ACCEPT): Promise<Response> {
  const headers = { 'content-type': 'application/json', accept }
  return fetch(`${url}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query }) })
}

it('multipart: sends a subscription in parts, each with the boundary after it, and heartbeats', async () => {
  const { url } = await startFront({ heartbeatMs: 50 })
  const response = await send(url, VALUES)
  expect(response.headers.get('content-type')).toBe('multipart/mixed;boundary="graphql";subscriptionSpec=1.0')
  const part = (json: string) => `\r\ncontent-type: application/json\r\n\r\n${json}\r\n--graphql`
  const text = await soon('two heartbeats arrive', readUntil(response, /\{\}[^{]*\{\}\r\n--graphql/))
  expect(text).toBe(
    `\r\n--graphql${part('{"payload":{"data":{"counters":[{"value":0}]}}}')}${part('{}').repeat(2)}`,
  )
})

it.each([
  ['multipart/mixed;subscriptionSpec="1.0"', 200],
  ['multipart/mixed; boundary=x ; subscriptionSpec=1.0', 200],
  ['multipart/mixed;subscriptionSpec=2.0, application/json', 406],
  ['multipart/mixed;deferSpec=20220824, application/json', 406],
])('multipart: answers a subscription with the Accept %j by %d', async (accept, status) => {
  const { url } = await startFront()
  const response = await send(url, VALUES, accept)
  expect(response.status).toBe(status)
  await response.body?.cancel()
})

it('multipart: answers what is refused, and other operations, in JSON', async () => {
  const { url } = await startFront()
  const refused = await send(url, 'subscription { counters(names: []) { value } }')
  expect([refused.headers.get('content-type'), (await refused.json()).errors[0].extensions.code]).toEqual([
    'application/json; charset=utf-8',
    'BAD_USER_INPUT',
  ])
  expect(await (await send(url, INCREMENT)).json()).toEqual({ data: { increment: { value: 1 } } })
})

it('multipart: shows the states to an Apollo client, until its key is revoked', async () => {
  const { url, createKey, admin } = await startProtected()
  const { secret, id } = await createKey([{ scopes: ['READ'] }])
  const headers = { authorization: `Bearer ${secret}` }
  const link = new HttpLink({ uri: `${url}/graphql`, fetch, headers })
  const client = new ApolloClient({ cache: new InMemoryCache(), link })
  onTestFinished(() => client.stop())
  const values: unknown[] = []
  const ended = new Promise<unknown>((resolve) => {
    client.subscribe<{ counters: { value: number }[] }>({ query: gql(VALUES) }).subscribe({
      next: ({ data, error }) => (error ? resolve(error) : values.push(data?.counters[0]?.value)),
      error: resolve,
    })
  })
  await expect.poll(() => values).toEqual([0])
  await admin.ask(INCREMENT)
  await expect.poll(() => values).toEqual([0, 1])
  await admin.ask(`mutation { revokeApiKey(id: "${id}") { id } }`)
  const error = (await soon('it ends', ended)) as CombinedProtocolErrors
  expect(error.name).toBe('CombinedProtocolErrors')
  expect(error.errors[0]?.extensions?.code).toBe('UNAUTHENTICATED')
})
