import { once } from 'node:events'
import { get, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { freshDatabase, urlOf } from '../database/database.ts'
import { type NthProcess, startNth } from './nthProcess.ts'

const INCREMENT = 'mutation { increment(name: "c") { value } }'

/** An Nth of two workers on a database of its own. */
export async function startTwo(): Promise<NthProcess> {
  return startNth({ DATABASE_URL: urlOf(await freshDatabase()), WORKERS: '2' })
}

export async function increment(nth: NthProcess): Promise<number> {
  return (await nth.ask(INCREMENT)).increment.value
}

/**
 * Opens a request on a connection of its own, which a worker has taken on when this returns. Called, it sends
 * the rest, and returns the number that it is answered with.
 */
export async function openRequest(nth: NthProcess): Promise<() => Promise<number>> {
  const headers = { 'content-type': 'application/json', expect: '100-continue' }
  const opened = request(`${nth.url}/graphql`, { method: 'POST', headers, agent: false })
  opened.flushHeaders()
  const answer: Promise<IncomingMessage[]> = once(opened, 'response')
  answer.catch(() => undefined)
  await once(opened, 'continue')
  return async () => {
    opened.end(JSON.stringify({ query: INCREMENT }))
    const [response] = await answer
    return JSON.parse(response ? await text(response) : '').data.increment.value
  }
}

/** Opens a connection that asks for nothing, until the test has finished. */
export async function openConnection(nth: NthProcess): Promise<void> {
  const { hostname, port } = new URL(nth.url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  socket.on('error', () => undefined)
}

/** Calls on a new connection, and with no client's own care for connections that end. */
export function reach(nth: NthProcess): Promise<string> {
  return new Promise((resolve) => {
    const call = get(nth.url, { agent: false }, (response) => {
      response.resume()
      resolve('answered')
    })
    call.on('error', () => resolve('refused'))
  })
}

/** Calls without a pause until nobody takes the call any more; when the process has ended, somebody else might. */
export async function untilRefused(nth: NthProcess): Promise<void> {
  const ended = nth.exited.then(() => 'refused')
  while ((await Promise.race([reach(nth), ended])) !== 'refused');
}
