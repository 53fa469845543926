import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Server } from './servers.ts'

/** What a server answers to a GraphQL request. */
export interface Reply<Data> {
  data?: Data
  errors?: { message: string; extensions: { code: string; [detail: string]: unknown } }[]
}

/** Longer than any server may take. */
const LIMIT_MS = 90_000

/**
 * Sends an operation of one field to a server, when that runs, and only once.
 *
 * @typeParam Data what the operation returns: its text is its type
 * @throws {Error} if there is no answer
 */
export async function send<Data>(server: Server, query: string, variables = {}): Promise<Reply<Data>> {
  const body = JSON.stringify({ query, variables })
  while (true) {
    try {
      // One that has been killed is started again at another port.
      const address = await server.address()
      return JSON.parse(await post(`${address}/graphql`, server, body))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error
      await pause(20)
    }
  }
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
