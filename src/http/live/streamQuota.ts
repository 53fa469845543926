import type { Caller } from '../../core/access/caller.ts'
import { refusalMeasure } from '../../operations/measures.ts'
import { NthError, unavailable } from '../../rules/errors.ts'
import { type Client, MemoryBudget } from '../connections/memoryBudget.ts'

/** The streams of a caller from one address. */
interface Usage {
  streams: number
  names: number
}

/** What a stream takes of the limits, until it is released. */
export interface StreamQuota {
  /** @throws {NthError} RATE_LIMITED if its client would watch too many names */
  watch(names: number): void
  /** @param freedBytes memory that no stream keeps any more */
  release(freedBytes: number): void
}

/** Maximum names that the streams of a client watch, each counted for itself: half of what a process may watch. */
const MAX_NAMES = 10_000
const RETRY_AFTER_MS = 10_000

/**
 * Limits of streams. Their number and names are limited for each caller and address, the memory that they keep for each
 * address and for all together. Without an address only the last of these limits holds.
 *
 * @param maxBytes memory of all streams, in bytes
 */
export function createStreamQuotas(maxStreams: number, maxBytes: number) {
  const usages = new Map<string, Usage>()
  const budget = new MemoryBudget(maxBytes)

  return {
    /**
     * Takes what a stream needs.
     *
     * @param bytes memory that it keeps, also if other streams keep a part of it too
     * @param addedBytes the part of it that no other stream keeps
     * @throws {NthError} RATE_LIMITED if its client has as many streams as it may have, or the streams of its address
     *   keep too much; UNAVAILABLE if all of them do
     */
    take({ identity }: Caller, client: Client, bytes: number, addedBytes: number): StreamQuota {
      const key = `${identity}\n${client}`
      // Nothing is counted without an address.
      const usage: Usage = (client !== undefined && usages.get(key)) || { streams: 0, names: 0 }
      if (usage.streams >= maxStreams) {
        refusalMeasure.publish('streams')
        throw tooMany(`${maxStreams} subscriptions`, maxStreams)
      }
      budget.charge(client, bytes, addedBytes)
      if (!budget.hasRoom(client, false)) {
        refusalMeasure.publish('memory')
        const isOthers = client === undefined || budget.heldBy(client) <= bytes
        budget.charge(client, -bytes, -addedBytes)
        throw isOthers
          ? unavailable('Too many or too large subscriptions are open. Try again in a moment.')
          : new NthError('RATE_LIMITED', TOO_LARGE, { retryAfterMs: RETRY_AFTER_MS })
      }
      if (client !== undefined) usages.set(key, usage)
      usage.streams += 1
      let names = 0
      let isReleased = false
      return {
        watch(count) {
          if (isReleased || client === undefined) return
          if (usage.names + count > MAX_NAMES) {
            refusalMeasure.publish('watched names')
            throw tooMany(`subscriptions to ${usage.names} names`, MAX_NAMES)
          }
          names += count
          usage.names += count
        },

        release(freedBytes) {
          isReleased = true
          budget.charge(client, -bytes, -freedBytes)
          usage.streams -= 1
          usage.names -= names
          if (usage.streams === 0) usages.delete(key)
        },
      }
    },
  }
}

const TOO_LARGE = 'The subscriptions from this address use too much memory; close one, or select less.'

function tooMany(what: string, limit: number): NthError {
  const message = `These credentials have ${what} from this address; close one.`
  return new NthError('RATE_LIMITED', message, { limit, retryAfterMs: RETRY_AFTER_MS })
}
