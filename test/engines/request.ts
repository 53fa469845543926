import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Server } from './servers.ts'

/** The outcome of one call. */
export type Outcome<Data> =
  | { kind: 'answered'; data: Data }
  /** Not applied. */
  | { kind: 'refused'; code: string; message: string; details: Record<string, unknown> }
  /** It may have been applied. */
  | { kind: 'unknown'; reason: string }

/** The code of an error, and so the reason of the outcome. */
export const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN'

/** Longer than any server may take. */
const LIMIT_MS = 90_000

/**
 * Sends an operation of one field to a server, when that runs, and only once.
 *
 * @typeParam Data what the operation returns: its text is its type
 */
export async function send<Data>(
  server: Server,
  query: string,
  variables: Record<string, unknown>,
): Promise<Outcome<Data>> {
  const body = JSON.stringify({ query, variables })
  while (true) {
    try {
      // One that has been killed is started again at another port.
      const address = await server.address()
      return outcomeOf(await post(`${address}/graphql`, server, body))
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code !== 'ECONNREFUSED') return { kind: 'unknown', reason: code ?? message }
      await pause(20)
    }
  }
}

function outcomeOf<Data>(text: string): Outcome<Data> {
  // The query of a caller is the type of its result.
  const { data, errors } = JSON.parse(text) as {
    data?: Data
    errors?: { message: string; extensions: { code: string } }[]
  }
  const [error] = errors ?? []
  if (!error) return data ? { kind: 'answered', data } : { kind: 'unknown', reason: text }
  const { code, ...details } = error.extensions
  if (code === OUTCOME_UNKNOWN) return { kind: 'unknown', reason: code }
  return { kind: 'refused', code, message: error.message, details }
}

function post(url: string, { agent }: Server, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const sending = request(url, { method: 'POST', agent, headers, timeout: LIMIT_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    sending.on('timeout', () => sending.destroy(new Error(`no answer within ${LIMIT_MS} ms`)))
    sending.on('error', reject)
    sending.end(body)
  })
}
