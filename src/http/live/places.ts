import type { Caller } from '../../core/access/caller.ts'
import { NthError } from '../../core/errors.ts'
import { refusalMeasure } from '../../core/measures.ts'

/** The streams of a caller from one address. */
interface Client {
  streams: number
  names: number
}

/** The place of a stream among those of its client. */
export interface Place {
  /** @throws {NthError} RATE_LIMITED if its client would watch too many names */
  watch(names: number): void
  release(): void
}

/** Maximum names that the streams of a client watch, each counted for itself: half of what a process may watch. */
const MAX_NAMES = 10_000
const RETRY_AFTER_MS = 10_000

const UNLIMITED: Place = { watch: () => undefined, release: () => undefined }

/**
 * Creates the function that takes the place of a stream. It throws an NthError, RATE_LIMITED, if its client has as many
 * streams as it may have. Without an address there are no limits.
 */
export function createPlaces(maxStreams: number) {
  const clients = new Map<string, Client>()

  return ({ identity }: Caller, address: string | undefined): Place => {
    if (address === undefined) return UNLIMITED
    const text = `${identity}\n${address}`
    const client = clients.get(text) ?? { streams: 0, names: 0 }
    if (client.streams === maxStreams) {
      refusalMeasure.publish('streams')
      throw tooMany(`${maxStreams} subscriptions`, maxStreams)
    }
    clients.set(text, client)
    client.streams += 1
    let names = 0
    let isReleased = false
    return {
      watch(count) {
        if (isReleased) return
        if (client.names + count > MAX_NAMES) {
          refusalMeasure.publish('watched names')
          throw tooMany(`subscriptions to ${client.names} names`, MAX_NAMES)
        }
        names += count
        client.names += count
      },

      release() {
        isReleased = true
        client.streams -= 1
        client.names -= names
        if (client.streams === 0) clients.delete(text)
      },
    }
  }
}

function tooMany(what: string, limit: number): NthError {
  const message = `These credentials have ${what} from this address; close one.`
  return new NthError('RATE_LIMITED', message, { limit, retryAfterMs: RETRY_AFTER_MS })
}
