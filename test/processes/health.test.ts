import { once } from 'node:events'
import { request } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { Gate } from '../../src/graphql/gate.ts'
import { listen } from '../../src/http/server.ts'
import { SILENT } from '../../src/operations/log.ts'
import { version } from '../../src/operations/process.ts'
import type { Nth } from '../../src/repository/nth.ts'
import { startProtected } from '../support/client/keys.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { UNLIMITED } from '../support/server/front.ts'
import { createGate } from '../support/server/gate.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startNth } from '../support/server/nthProcess.ts'

const increment = 'mutation { increment(name: "a") { value } }'

async function ask(url: string, path: string, options: RequestInit = {}) {
  const response = await fetch(url + path, options)
  const text = await response.text()
  const { errors: [error] = [], ...rest } = text ? JSON.parse(text) : {}
  return { status: response.status, ...rest, ...(error && { message: error.message }) }
}

it('GET /health and /ready: say that it lives and is ready, to anyone', async () => {
  const { url } = await startProtected()
  const foreign = { headers: { origin: 'https://other.example', authorization: 'Bearer nth_wrong' } }
  for (const options of [{}, foreign]) {
    expect(await ask(url, '/health', options)).toMatchObject({ status: 'ok', version })
    expect(await ask(url, '/ready', options)).toMatchObject({ status: 'ready', version })
  }
  expect(await ask(url, '/ready?probe=1')).toMatchObject({ status: 'ready' })
  expect(await ask(url, '/metrics', { method: 'POST' })).toMatchObject({ status: 405 })
  expect(await ask(url, '/ready', { method: 'HEAD' })).toEqual({ status: 200 })
  expect(await ask(url, '/ready', { method: 'POST' })).toMatchObject({ status: 405 })
  const sent = request(`${url}/ready`, { headers: { host: 'other.example' } }).end()
  const [response] = await once(sent, 'response')
  expect(response.statusCode).toBe(200)
  response.resume()
})

async function openServer(nth: Nth) {
  const server = await listen({
    ...UNLIMITED,
    version,
    nth,
    gate: new Gate(10_000),
    notices: SILENT,
  })
  onTestFinished(server.close)
  return server
}

it('GET /ready: is not ready, but still counts, while it shuts down', async () => {
  const { url, drain } = await openServer(openTestNth(await freshDatabase()))
  expect(await ask(url, '/ready')).toMatchObject({ status: 'ready' })
  drain()
  expect(await ask(url, '/ready')).toMatchObject({
    status: 503,
    message: expect.stringContaining('shutting'),
  })
  const body = JSON.stringify({ query: increment })
  const counted = await ask(url, '/graphql', {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
  expect(counted).toMatchObject({ status: 200, data: { increment: { value: 1 } } })
})

it('shutdown: ends each connection with its answer, so that the next request takes another one', async () => {
  const gate = createGate()
  const { url, drain } = await openServer(gate.around(openTestNth(await freshDatabase())))
  const connectionOf = async (query: string) => {
    const body = JSON.stringify({ query })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${url}/graphql`, { method: 'POST', body, headers })
    expect(response.status).toBe(200)
    return response.headers.get('connection')
  }
  expect(await connectionOf('{ __typename }')).toBe('keep-alive')
  const inFlight = connectionOf(increment)
  await gate.reached(1)
  drain()
  expect(await connectionOf('{ __typename }')).toBe('close')
  gate.open()
  expect(await inFlight).toBe('close')
})

it('NTH_DRAIN_DELAY_MS: is not ready for a while before it shuts down, with all workers', {
  tags: 'slow',
}, async () => {
  const environment = {
    DATABASE_URL: urlOf(await freshDatabase()),
    WORKERS: '2',
    NTH_DRAIN_DELAY_MS: '4000',
  }
  const { url, child, exited, send } = await startNth(environment)
  expect(await ask(url, '/ready')).toMatchObject({ status: 'ready' })
  const began = performance.now()
  child.kill('SIGTERM')
  await expect.poll(() => ask(url, '/ready')).toMatchObject({ status: 503 })
  expect((await send(increment)).data).toEqual({ increment: { value: 1 } })
  expect(await exited).toBe(0)
  expect(performance.now() - began).toBeGreaterThan(3900)
})

it('NTH_SHUTDOWN_TIMEOUT_MS: gives up what keeps it from shutting down in time', async () => {
  const environment = { DATABASE_URL: urlOf(await freshDatabase()), NTH_SHUTDOWN_TIMEOUT_MS: '1000' }
  const { url, child, exited, errors } = await startNth(environment)
  // A request that never arrives as a whole.
  const sent = request(`${url}/graphql`, { method: 'POST', headers: { 'content-length': '100' } })
  onTestFinished(() => void sent.destroy())
  sent.on('error', () => undefined).write('{')
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
  expect(errors()).toBe('')
})
