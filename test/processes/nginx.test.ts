// @module-tag slow
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { sorted, upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { openSocket } from '../support/client/sockets.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { findNginx } from '../support/database/fetchedProgram.ts'
import { freePort } from '../support/server/freePort.ts'
import { startNginx } from '../support/server/nginx.ts'
import { type NthProcess, startNth } from '../support/server/nthProcess.ts'
import { PATIENCE_MS, soon } from '../support/soon.ts'

const nginx = await findNginx()

const CLIENTS = 32

/** Which process is ended, and how. */
const RESTARTS = [
  [0, 'SIGTERM'],
  [1, 'SIGTERM'],
  [0, 'SIGTERM'],
  [1, 'SIGTERM'],
  [0, 'SIGKILL'],
] as const

const INCREMENT = '{"query":"mutation { increment(name: \\"c\\") { value } }"}'

/** Two processes on one database, behind nginx as `deploy/nginx.conf` has it. */
async function startPair(environment: Record<string, string> = {}) {
  const DATABASE_URL = urlOf(await freshDatabase())
  const ports = await Promise.all([freePort(), freePort()])
  const start = (port: number): Promise<NthProcess> =>
    startNth({
      ...{ DATABASE_URL, PORT: String(port), NTH_TRUST_PROXY: '127.0.0.1', NTH_ANONYMOUS: 'READ,WRITE' },
      ...environment,
    })
  const processes = await Promise.all(ports.map(start))
  const { url, plainUrl } = await startNginx(nginx ?? '', ports)

  async function restart(index: number, signal: NodeJS.Signals, onEnded = async () => {}): Promise<void> {
    const before = processes[index]
    before?.child.kill(signal)
    expect(await soon('it ends', Promise.resolve(before?.exited))).toBe(signal === 'SIGTERM' ? 0 : signal)
    await onEnded()
    processes[index] = await start(ports[index] ?? 0)
  }

  return { url, plainUrl, restart }
}

/** Sends a change once. Returns its number; undefined: it may have counted, or not. */
async function send(url: string, key?: string): Promise<number | undefined> {
  try {
    const headers = { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) }
    const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body: INCREMENT })
    const { data, errors } = await response.json()
    // Only what may be sent again is expected here.
    if (errors) expect(errors[0].extensions.retryable).toBe(true)
    return data?.increment?.value
  } catch (error) {
    // No answer, or a page of nginx.
    if (error instanceof TypeError || error instanceof SyntaxError) return undefined
    throw error
  }
}

async function valueIn(url: string): Promise<number> {
  const query = encodeURIComponent('{ counter(name: "c") { value } }')
  return (await (await fetch(`${url}/graphql?query=${query}`)).json()).data.counter.value
}

it.skipIf(!nginx)(
  'deploy/nginx.conf: loses no request while both processes are restarted in turn, and counts none twice',
  async () => {
    const { url, restart } = await startPair()
    const numbers: number[] = []
    let retries = 0
    let isOver = false
    const clients = upTo(CLIENTS).map(async (client) => {
      for (let call = 0; !isOver; call++) {
        const deadline = performance.now() + PATIENCE_MS
        let value = await send(url, `${client} ${call}`)
        while (value === undefined) {
          if (performance.now() > deadline) throw new Error(`Client ${client} got no number`)
          retries += 1
          await pause(50)
          value = await send(url, `${client} ${call}`)
        }
        numbers.push(value)
      }
    })
    const restarts = (async () => {
      for (const [index, signal] of RESTARTS) {
        const before = numbers.length
        await restart(index, signal)
        // The other process served meanwhile, and both do before the next restart.
        await expect.poll(() => numbers.length).toBeGreaterThan(before + 10 * CLIENTS)
      }
    })()
    await restarts.finally(() => {
      isOver = true
    })
    await Promise.all(clients)
    console.log(`${numbers.length} changes, ${retries} of them sent again by their clients`)
    expect(sorted(numbers)).toEqual(upTo(numbers.length))
    expect(await valueIn(url)).toBe(numbers.length)
  },
)

it.skipIf(!nginx)(
  'deploy/nginx.conf: counts no request without a key twice, and fails none because a process starts',
  async () => {
    const { url, restart } = await startPair()
    let counted = 0
    let inDoubt = 0
    let isStarting = false
    /** Requests that were sent while one process started and the other one served. */
    const meanwhile = { pending: 0, failed: 0, counted: 0 }
    let isOver = false
    const clients = upTo(CLIENTS).map(async () => {
      while (!isOver) {
        const isMeanwhile = isStarting
        if (isMeanwhile) meanwhile.pending += 1
        const isCounted = (await send(url)) !== undefined
        if (isCounted) counted += 1
        else inDoubt += 1
        if (!isMeanwhile) continue
        meanwhile.pending -= 1
        meanwhile[isCounted ? 'counted' : 'failed'] += 1
      }
    })
    for (const index of [0, 1]) {
      await restart(index, 'SIGTERM', async () => {
        // By then nginx has noticed that the connections of the process that ended are closed.
        const before = counted
        await expect.poll(() => counted).toBeGreaterThan(before + CLIENTS)
        isStarting = true
      })
      isStarting = false
      await expect.poll(() => meanwhile.pending, { timeout: 20_000 }).toBe(0)
    }
    isOver = true
    await Promise.all(clients)
    const value = await valueIn(url)
    console.log(`${counted} answered, ${inDoubt} without a number, ${value} counted`)
    expect(value).toBeGreaterThanOrEqual(counted)
    expect(value).toBeLessThanOrEqual(counted + inDoubt)
    expect(meanwhile).toEqual({ pending: 0, failed: 0, counted: expect.any(Number) })
    expect(meanwhile.counted).toBeGreaterThan(0)
  },
)

/** A server that reads a request and answers with the status that `answer` returns, or else cuts the connection. */
async function startUpstream(answer: (request: IncomingMessage) => number | undefined) {
  const received: (string | undefined)[] = []
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    received.push(request.headers['idempotency-key'] as string | undefined)
    const status = answer(request)
    if (status === undefined) request.socket.destroy()
    else response.writeHead(status).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: Number(Object(server.address()).port), received }
}

it.skipIf(!nginx).each([
  ['breaks the connection', undefined],
  ['answers 503', 503],
])('deploy/nginx.conf: passes a request that a process %s on only with a key', async (_, status) => {
  const upstreams = await Promise.all([startUpstream(() => status), startUpstream(() => status)])
  const { url } = await startNginx(
    nginx ?? '',
    upstreams.map(({ port }) => port),
  )
  const received = () => upstreams.flatMap((upstream) => upstream.received)
  const post = (headers: Record<string, string>) =>
    fetch(`${url}/graphql`, { method: 'POST', body: INCREMENT, headers })

  expect((await post({})).status).toBe(status ?? 502)
  expect(received()).toEqual([undefined])
  expect((await post({ 'idempotency-key': 'k' })).status).toBe(status ?? 502)
  expect(received()).toEqual([undefined, 'k', 'k'])
})

it.skipIf(!nginx)(
  'deploy/nginx.conf: passes events on at once, and leads from HTTP to HTTPS',
  { tags: 'quick' },
  async () => {
    const { url, plainUrl } = await startPair()
    const redirected = await fetch(`${plainUrl}/graphql?a=b`, { method: 'POST', redirect: 'manual' })
    expect([redirected.status, redirected.headers.get('location')]).toEqual([
      308,
      'https://nth.example/graphql?a=b',
    ])
    const events = await subscribe(url, 'subscription { counters(names: ["c"]) { value } }')
    expect(await soon('the state arrives', events.data())).toEqual({ counters: [{ value: 0 }] })
    const value = await send(url)
    expect(await soon('the change arrives', events.data())).toEqual({ counters: [{ value }] })
    const socket = await openSocket(url)
    await socket.init()
    socket.subscribe('1', 'subscription { counters(names: ["c"]) { value } }')
    expect(await socket.next()).toMatchObject({ payload: { data: { counters: [{ value }] } } })
    expect((await fetch(`${url}/metrics`)).status).toBe(403)
  },
)

it.skipIf(!nginx)(
  'deploy/nginx.conf: answers a body that is much too long with an error that programs can read',
  async () => {
    const { url } = await startPair()
    for (const length of [1_500_000, 3_000_000]) {
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ query: 'x'.repeat(length) })
      const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body })
      expect([response.status, await response.json()]).toEqual([
        413,
        {
          errors: [
            {
              message: 'A request body may have at most 1000000 bytes; send less at a time.',
              extensions: { code: 'REQUEST_ENTITY_TOO_LARGE', limit: 1_000_000 },
            },
          ],
        },
      ])
    }
  },
)

it.skipIf(!nginx)('deploy/nginx.conf: passes on 1 500 streams, and requests beside them', async () => {
  const { url } = await startPair({
    NTH_MAX_STREAMS_PER_CLIENT: '1500',
    NTH_MAX_CONNECTIONS_PER_ADDRESS: '4000',
  })
  const query = 'subscription { counters(names: ["c"]) { value } }'
  for (const batch of upTo(15)) {
    const streams = await Promise.all(upTo(100).map(() => subscribe(url, query)))
    expect(streams.map(({ status }) => status)).toEqual(new Array(100).fill(200))
    expect(await send(url)).toBe(batch)
  }
})
