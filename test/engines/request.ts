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
export async function send<Data>(server: Server, query: string): Promise<Reply<Data>> {
  while (true) {
    try {
      // One that has been killed is started again at another port.
      const response = await fetch(`${await server.address()}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
        signal: AbortSignal.timeout(LIMIT_MS),
      })
      // A reply as servers send it.
      return (await response.json()) as Reply<Data>
    } catch (error) {
      const { cause } = error as { cause?: { code?: string } }
      if (cause?.code !== 'ECONNREFUSED') throw error
      await pause(20)
    }
  }
}
