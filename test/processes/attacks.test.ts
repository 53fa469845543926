// @module-tag slow
import { Agent, request } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { deflateRawSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { type Attack, openAttack } from '../support/client/attacks.ts'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { frame, postHead } from '../support/client/wire.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { onFinished, openOnce } from '../support/openOnce.ts'
import { startNth } from '../support/server/nthProcess.ts'

/*
 * Each attack beside an honest client. `ATTACK_SECONDS=180 npx vitest run test/processes/attacks.test.ts` runs each for
 * three minutes, and prints how long calls took.
 */

const SECONDS = Number(process.env.ATTACK_SECONDS ?? 2)
const ORIGIN = 'https://shop.example'
const HONEST = '198.51.100.7'

/** A process with a heap of 512 MB that takes clients' addresses from a proxy on this machine: one for all attacks. */
async function startServer() {
  const target = await freshDatabase()
  const nth = await startNth({
    DATABASE_URL: urlOf(target),
    NODE_OPTIONS: '--max-old-space-size=512',
    NTH_ADMIN_KEY: ADMIN_KEY,
    NTH_TRUST_PROXY: '127.0.0.1',
  })
  const admin = as(nth, ADMIN_KEY)
  const create = async (grants: object[], origins: string[] | null) => {
    const mutation =
      'mutation ($grants: [GrantInput!]!, $origins: [String!]) { createApiKey(label: "x", grants: $grants, origins: $origins) { secret } }'
    return (await admin.ask(mutation, { grants, origins })).createApiKey.secret as string
  }
  const secret = await create([{ scopes: ['ADD', 'READ'], namespace: 'shop' }], null)
  const pageSecret = await create([{ scopes: ['READ'], namespace: 'shop' }], [ORIGIN])
  return { ...nth, admin, secret, pageSecret }
}

type Server = Awaited<ReturnType<typeof startServer>>

const INCREMENT = 'mutation ($name: String!) { increment(name: $name, namespace: "shop") { value } }'

/** A client on a connection of its own that makes one call after another. */
function openHonest({ url, secret }: Server, name: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onFinished(async () => agent.destroy())
  let counted = 0
  const failures: string[] = []

  async function send(body: object): Promise<void> {
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${secret}`,
      'x-forwarded-for': HONEST,
    }
    const sent = request(`${url}/graphql`, { method: 'POST', headers, agent })
    sent.end(JSON.stringify(body))
    const text = await new Promise<string>((resolve, reject) => {
      sent.on('response', (response) => resolve(textOf(response)))
      sent.on('error', reject)
    }).catch(String)
    if (!text.startsWith('{"data":{"')) failures.push(text)
  }

  /** Median time of the calls that it makes in some time, in milliseconds. */
  async function callFor(seconds: number): Promise<number> {
    const times: number[] = []
    const end = performance.now() + seconds * 1000
    while (performance.now() < end) {
      const began = performance.now()
      await send({ query: INCREMENT, variables: { name } })
      counted += 1
      times.push(performance.now() - began)
      await pause(5)
    }
    return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN
  }

  return { callFor, send, failures, counted: () => counted }
}

const headOf = (method: string, path: string, headers: string[]) =>
  [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, '', ''].join('\r\n')

const forwarded = (index: number, addresses: number) =>
  `X-Forwarded-For: 203.0.113.${1 + (index % addresses)}`

/** A subscription, with a document that no other index has. */
function streamOf(
  { pageSecret }: Server,
  index: number,
  addresses: number,
  document: string,
  variables = {},
) {
  const body = JSON.stringify({ query: document, variables })
  const headers = [
    ...[`Authorization: Bearer ${pageSecret}`, `Origin: ${ORIGIN}`, forwarded(index, addresses)],
    ...['Content-Type: application/json', 'Accept: text/event-stream', `Content-Length: ${body.length}`],
  ]
  return headOf('POST', '/graphql', headers) + body
}

/** A subscription that selects a field so many times, by aliases of at least some length. */
function documentOf(index: number, fields: number, aliasLength = 1, name = 'quiet'): string {
  const aliases = Array.from(
    { length: fields },
    (_, field) => `a${field.toString(36).padEnd(aliasLength, '_')}:id`,
  )
  return `subscription { counters(namespace: "shop", names: ["${name}"]) { i${index}:id ${aliases.join(' ')} } }`
}

const INIT = frame('{"type":"connection_init"}')
const PING = frame('{"type":"ping"}')
const COMPLETE = frame('{"type":"complete","id":"1"}')

/** What opens a WebSocket, with messages that come with it. Without a key, it may do nothing. */
function socketOf(
  { pageSecret }: Server,
  index: number,
  addresses: number,
  messages: Buffer[] = [],
  { protocol = 'graphql-transport-ws', isKeyed = true } = {},
): Buffer {
  const headers = [
    ...(isKeyed ? [`Authorization: Bearer ${pageSecret}`, `Origin: ${ORIGIN}`] : []),
    ...[
      forwarded(index, addresses),
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
    ],
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    `Sec-WebSocket-Protocol: ${protocol}`,
    'Sec-WebSocket-Extensions: permessage-deflate',
  ]
  return Buffer.concat([Buffer.from(headOf('GET', '/graphql', headers)), ...messages])
}

const subscribeMessage = (id: string, query: string) =>
  frame(JSON.stringify({ type: 'subscribe', id, payload: { query } }))

const times = (count: number, message: (index: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, index) => message(index)))

const attacks: Record<string, (server: Server) => Attack> = {
  'bodies that never end, and heads without any': () => ({
    connections: 400,
    textOf: (index) =>
      postHead(forwarded(0, 1), 'Content-Length: 41000') + (index < 340 ? '{'.padEnd(40_000) : ''),
  }),
  'bodies that never end, with a key': ({ pageSecret }) => ({
    connections: 400,
    textOf: (index) =>
      postHead(
        ...[`Authorization: Bearer ${pageSecret}`, `Origin: ${ORIGIN}`],
        ...[forwarded(0, 1), 'Content-Length: 41000'],
      ) + (index < 340 ? '{'.padEnd(40_000) : ''),
  }),
  'streams with a document of their own each': (server) => ({
    connections: 880,
    textOf: (index) => streamOf(server, index, 9, documentOf(index, 600)),
  }),
  'streams with a large variable that they do not use': (server) => ({
    connections: 272,
    textOf: (index) => streamOf(server, index, 9, documentOf(index, 1), { unused: 'x'.repeat(900_000) }),
  }),
  'idle streams with a large document': (server) => ({
    connections: 52,
    textOf: (index) => streamOf(server, index, 1, documentOf(index, 3200, 6)),
  }),
  'clients that end their side before their stream starts': (server) => ({
    connections: 300,
    isHalfClosed: true,
    textOf: (index) => streamOf(server, index, 9, documentOf(index, 1)),
  }),
  'WebSockets that send nothing after their init': (server) => ({
    connections: 880,
    textOf: (index) => socketOf(server, index, 9, [INIT]),
  }),
  'WebSockets without an init': (server) => ({
    connections: 880,
    textOf: (index) => socketOf(server, index, 1),
  }),
  'WebSockets of another protocol': (server) => ({
    connections: 400,
    textOf: (index) => socketOf(server, index, 1, [INIT], { protocol: 'graphql-ws' }),
  }),
  'WebSockets with large documents': (server) => ({
    connections: 272,
    textOf: (index) => {
      const operations = [0, 1, 2].map((id) => subscribeMessage(`${id}`, documentOf(3 * index + id, 600)))
      return socketOf(server, index, 9, [INIT, ...operations])
    },
  }),
  'WebSockets with long ids': (server) => ({
    connections: 52,
    textOf: (index) => {
      const operation = subscribeMessage('i'.repeat(900_000), documentOf(0, 1))
      return socketOf(server, index, 9, [INIT, operation, operation])
    },
  }),
  'WebSockets whose clients end their side': (server) => ({
    connections: 300,
    isHalfClosed: true,
    textOf: (index) => socketOf(server, index, 9, [INIT, subscribeMessage('1', documentOf(index, 1))]),
  }),
  'WebSockets whose clients never read': (server) => ({
    connections: 50,
    isDeaf: true,
    textOf: (index) => socketOf(server, index, 9, [INIT, subscribeMessage('1', documentOf(0, 100))]),
    repeated: { data: times(3000, () => PING), pauseMs: 10 },
  }),
  'WebSockets with 10 000 subscriptions each': (server) => {
    const data = times(10_000, (id) => subscribeMessage(`${id}`, documentOf(0, 1)))
    return { connections: 20, textOf: (index) => socketOf(server, index, 9, [INIT, data]) }
  },
  'subscriptions that are ended at once': (server) => ({
    connections: 20,
    textOf: (index) => socketOf(server, index, 9, [INIT]),
    repeated: {
      data: times(500, () => Buffer.concat([subscribeMessage('1', documentOf(0, 1)), COMPLETE])),
      pauseMs: 10,
    },
  }),
  'many messages that wait for an init': (server) => {
    const messages = times(7000, () => frame('{}'))
    return { connections: 400, textOf: (index) => socketOf(server, index, 9, [INIT, messages]) }
  },
  'a flood of pings of the protocol': (server) => ({
    connections: 20,
    textOf: (index) => socketOf(server, index, 9, [INIT]),
    repeated: { data: times(3000, () => PING), pauseMs: 10 },
  }),
  'a flood of ping frames': (server) => ({
    connections: 20,
    textOf: (index) => socketOf(server, index, 9, [INIT]),
    repeated: { data: times(10_000, () => frame('', { opcode: 9 })), pauseMs: 10 },
  }),
  'messages that never end, in small parts': (server) => ({
    connections: 200,
    textOf: (index) => socketOf(server, index, 9, [INIT, frame('"'.padEnd(900_000), { length: 999_999 })]),
    repeated: { data: Buffer.from('x'), pauseMs: 1 },
  }),
  'messages that never end, in small fragments': (server) => {
    const fragments = times(16_000, (index) => frame('x', { opcode: index === 0 ? 1 : 0, isLast: false }))
    return { connections: 200, textOf: (index) => socketOf(server, index, 9, [INIT, fragments]) }
  },
  'compressed messages': (server) => ({
    connections: 400,
    textOf: (index) =>
      socketOf(server, index, 1, [frame(deflateRawSync('x'.repeat(900_000)), { isCompressed: true })]),
  }),
}

async function statusOf(url: string, path: string): Promise<number> {
  const response = await fetch(url + path, { headers: { accept: 'text/html' } })
  await response.arrayBuffer()
  return response.status
}

it.each(Object.entries(attacks))(
  'attacks: an honest client notices nothing of %s',
  async (what, attackOf) => {
    const server = await openOnce(startServer)
    const { url, admin } = server
    const honest = openHonest(server, what)
    const before = await honest.callFor(Math.min(SECONDS / 3, 10))
    const attack = openAttack(url, attackOf(server), Math.min(SECONDS / 3, 10) * 1000)
    onFinished(async () => attack.end())
    const during = await honest.callFor(SECONDS)
    // A large request has room as well, and so have pages.
    const names = Array.from({ length: 300 }, (_, index) => `${index}`.padEnd(190, 'x'))
    const query = 'query ($names: [String!]!) { counters(names: $names, namespace: "shop") { value } }'
    await honest.send({ query, variables: { names } })
    for (const path of ['/', '/ready', '/health'])
      expect([path, await statusOf(url, path)]).toEqual([path, 200])
    const { resident, heap } = await memoryOf(server)
    attack.end()
    expect(server.errors()).not.toMatch(/"level":[56]0|^\(node:/m)
    if (process.env.ATTACK_SECONDS)
      console.log(
        `${what}: median ${before.toFixed(2)} ms before, ${during.toFixed(2)} during (${(during / before).toFixed(2)}); ${resident} MB resident, heap ${heap} MB`,
        Object.fromEntries(attack.statuses),
      )
    expect(honest.failures).toEqual([])
    const { counter } = await admin.ask(
      'query ($name: String!) { counter(name: $name, namespace: "shop") { value } }',
      { name: what },
    )
    expect(counter.value).toBe(honest.counted())
    // What it has received of an attack, it works off first.
    await expect.poll(async () => (await memoryOf(server)).streams, { timeout: 300_000 }).toBe(0)
  },
)

/** What the process reports of itself. */
async function memoryOf({ url }: Server) {
  const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
  const text = await response.text()
  const numberOf = (name: string) =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1])
  const mb = (name: string) => Math.round(numberOf(name) / 1e6)
  return {
    streams: numberOf('nth_subscribers'),
    resident: mb('process_resident_memory_bytes'),
    heap: mb('nodejs_heap_size_used_bytes'),
  }
}
