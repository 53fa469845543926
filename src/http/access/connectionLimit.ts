import type { Socket } from 'node:net'
import { refusalMeasure } from '../../core/measures.ts'
import { HttpError } from '../connections/httpError.ts'
import { clientOf, exemptNetworks, isWithin } from './addresses.ts'

const RETRY_AFTER_MS = 1000

/**
 * Creates the check of new connections: an address may have a number of them at once. Trusted proxies are exempt, and
 * this machine, as a proxy may run on it.
 */
export function createConnectionLimit(max: number, trustedProxies: readonly string[]) {
  const exempt = exemptNetworks(trustedProxies)
  const counts = new Map<string, number>()

  /** Counts a connection until it is closed; returns an error if it is one too many. */
  return (socket: Pick<Socket, 'remoteAddress' | 'once'>): HttpError | undefined => {
    const { remoteAddress = '' } = socket
    if (isWithin(exempt, remoteAddress)) return undefined
    const client = clientOf(remoteAddress)
    const count = (counts.get(client) ?? 0) + 1
    if (count > max) {
      refusalMeasure.publish('connections')
      return tooMany(max)
    }
    counts.set(client, count)
    socket.once('close', () => {
      const left = (counts.get(client) ?? 1) - 1
      if (left > 0) counts.set(client, left)
      else counts.delete(client)
    })
    return undefined
  }
}

function tooMany(limit: number): HttpError {
  const message = `An address may have at most ${limit} connections; close one, or use it for several requests.`
  return new HttpError(429, 'RATE_LIMITED', message, { limit, retryAfterMs: RETRY_AFTER_MS })
}
