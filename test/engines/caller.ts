import { setTimeout as pause } from 'node:timers/promises'
import type { ApiOperation, CallOutcome } from '../history/history.ts'
import type { Recorder } from '../history/recorder.ts'
import type { Random } from '../support/mulberry32.ts'
import type { Journal } from './journal.ts'
import { send } from './request.ts'
import { type Server, WRITE_TIMEOUT_MS } from './servers.ts'

/** One of those who call at the same time. */
export type Caller = ReturnType<typeof createCaller>

/** What callers share. */
export interface Surroundings {
  servers: readonly [Server, Server]
  recorder: Recorder
  journal: Journal
  /** Of all their counters and sequences. */
  namespace: string
  /** Aborted when nobody gets an answer any more. */
  signal: AbortSignal
}

/** On top of how long a server lets it wait: the start of a server, and two cores for all processes. */
const LONGEST_CALL_MS = WRITE_TIMEOUT_MS + 10_000
const PATIENCE_MS = 180_000

/** Codes by which a server may refuse what callers do here. What the others say of the state, the checker judges. */
const USUAL = ['UNAVAILABLE', 'LIMIT_REACHED', 'RESERVATION_CLOSED']

export function createCaller(surroundings: Surroundings, index: number, random: Random) {
  const { servers, recorder, journal, namespace, signal } = surroundings

  async function once(operation: ApiOperation, isOther: boolean): Promise<[CallOutcome, string | undefined]> {
    const server = servers[(index + Number(isOther)) % 2] as Server
    const codes: string[] = []
    const outcome = await recorder.call(
      index,
      async (query) => {
        const reply = await send(server, query)
        for (const { message, extensions } of reply.errors ?? []) {
          codes.push(extensions.code)
          if (![...USUAL, OUTCOME_UNKNOWN].includes(extensions.code))
            journal.wrong.push(`${query}: ${extensions.code}: ${message}`)
        }
        return reply
      },
      'id' in operation ? operation : { ...operation, namespace },
    )
    return [outcome, codes[0]]
  }

  return {
    random,

    /** Calls once: its own server, or the other one. */
    async call(operation: ApiOperation, isOther = false): Promise<CallOutcome> {
      const sentAt = performance.now()
      const [outcome, code] = await once(operation, isOther)
      const waitMs = performance.now() - sentAt
      if (waitMs > LONGEST_CALL_MS)
        journal.wrong.push(`A call took ${waitMs.toFixed(0)} ms: ${JSON.stringify(operation)}`)
      if (outcome.kind === 'unknown')
        journal.note(code === OUTCOME_UNKNOWN ? 'unknownToNth' : 'unknown', waitMs)
      else if (code !== 'UNAVAILABLE') journal.note('answered', waitMs)
      else {
        journal.note('unavailable', waitMs)
        // As it asks for by `retryAfterMs`.
        await pause(50)
      }
      return outcome
    },

    /**
     * Calls one server after the other until it knows the outcome, as is safe for what is applied once however often it is
     * sent. An outcome that it never learns is noted as wrong.
     */
    async insist(operation: ApiOperation, isOther = false): Promise<CallOutcome> {
      const sentAt = performance.now()
      let outcome: CallOutcome = { kind: 'unknown' }
      for (let time = 0; performance.now() - sentAt < PATIENCE_MS && !signal.aborted; time++) {
        let code: string | undefined
        ;[outcome, code] = await once(operation, time % 2 === 0 ? isOther : !isOther)
        if (outcome.kind !== 'unknown' && code !== 'UNAVAILABLE') {
          journal.note('answered', performance.now() - sentAt)
          return outcome
        }
        await pause(20 + random.below(60))
      }
      if (!signal.aborted)
        journal.wrong.push(`No outcome within ${PATIENCE_MS / 1000} s: ${JSON.stringify(operation)}`)
      return outcome
    },
  }
}

const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN'
