import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../support/mulberry32.ts'
import type { Book } from './book.ts'
import type { Journal } from './journal.ts'
import { OUTCOME_UNKNOWN, type Outcome, send } from './request.ts'
import { type Server, WRITE_TIMEOUT_MS } from './servers.ts'

/** One of those who call at the same time. */
export interface Caller {
  /** The server that it calls, and the other one. */
  server: Server
  other: Server
  random: Random
  book: Book
  journal: Journal
  /** Calls once. */
  call<Data>(query: string, variables: Record<string, unknown>): Promise<Outcome<Data>>
  /**
   * Calls one server after the other until it knows the outcome, as is safe for what is applied once however often it is
   * sent.
   *
   * @returns undefined if it never learnt it, which is noted as wrong
   */
  insist<Data>(
    query: string,
    variables: Record<string, unknown>,
    first?: Server,
  ): Promise<Exclude<Outcome<Data>, { kind: 'unknown' }> | undefined>
}

/** What callers share. */
export interface Surroundings {
  servers: readonly [Server, Server]
  book: Book
  journal: Journal
}

/** On top of how long a server lets it wait: the start of a server, and two cores for all processes. */
const LONGEST_CALL_MS = WRITE_TIMEOUT_MS + 10_000
const PATIENCE_MS = 180_000

export function createCaller(surroundings: Surroundings, index: number, random: Random): Caller {
  const { servers, book, journal } = surroundings
  const server = servers[index % 2] as Server
  const other = servers[(index + 1) % 2] as Server

  return {
    server,
    other,
    random,
    book,
    journal,

    async call(query, variables) {
      const sentAt = performance.now()
      const outcome = await send<never>(server, query, variables)
      const waitMs = performance.now() - sentAt
      if (waitMs > LONGEST_CALL_MS) journal.wrong.push(`A call took ${waitMs.toFixed(0)} ms: ${query}`)
      if (outcome.kind === 'answered') journal.note('answered', waitMs)
      else if (outcome.kind === 'unknown')
        journal.note(outcome.reason === OUTCOME_UNKNOWN ? 'unknownToNth' : 'unknown', waitMs)
      else if (outcome.code !== 'UNAVAILABLE') journal.note('answered', waitMs)
      else {
        journal.note('unavailable', waitMs)
        // As it asks for by `retryAfterMs`.
        await pause(50)
      }
      return outcome
    },

    async insist(query, variables, first = server) {
      const sentAt = performance.now()
      const second = first === server ? other : server
      for (let time = 0; performance.now() - sentAt < PATIENCE_MS; time++) {
        const outcome = await send<never>(time % 2 === 0 ? first : second, query, variables)
        const isDefinite =
          outcome.kind === 'answered' || (outcome.kind === 'refused' && outcome.code !== 'UNAVAILABLE')
        if (isDefinite) {
          journal.note('answered', performance.now() - sentAt)
          return outcome
        }
        await pause(20 + random.below(60))
      }
      journal.wrong.push(`No outcome within ${PATIENCE_MS / 1000} s: ${query} ${JSON.stringify(variables)}`)
      return undefined
    },
  }
}

/** Notes an answer that is none of those that were to be expected. */
export function noteUnexpected(
  { journal }: Caller,
  what: string,
  outcome: Outcome<unknown> | undefined,
): void {
  if (outcome?.kind !== 'refused' || outcome.code === 'UNAVAILABLE') return
  journal.wrong.push(`${what}: ${outcome.code}: ${outcome.message}`)
}
