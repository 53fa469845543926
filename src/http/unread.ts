import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'

export interface UnreadOptions {
  connections: Pick<Connections, 'sockets' | 'release'>
  /** For how long nothing of an answer may be taken, in milliseconds. */
  stallMs: number
  /** The most that may wait to be taken on all connections together, in bytes. */
  maxBytes: number
}

/** How often is looked, in milliseconds. */
const LOOK_MS = 1000

/**
 * Ends connections whose callers don't take their answers: those where nothing was taken for a while, and the
 * ones with the most to take when all together wait for too much. One connection has one answer waiting at most.
 *
 * It looks at all connections now and then, as nearly every answer is taken at once: looking at each answer
 * would cost every request.
 *
 * @returns what ends the looking
 */
export function watchUnread({ connections, stallMs, maxBytes }: UnreadOptions): () => void {
  const timer = setInterval(look, Math.min(LOOK_MS, stallMs / 4)).unref()
  return () => clearInterval(timer)

  function look(): void {
    const unread: Socket[] = []
    for (const socket of connections.sockets()) {
      if (socket.writableLength > 0) unread.push(socket)
      // Its answer was taken, and another request has been begun.
      else if (socket.timeout === stallMs) socket.setTimeout(0)
    }
    for (const socket of unread) {
      connections.release(socket)
      // Node begins anew whenever something is taken, and ends the connection when the time is over.
      if (socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
    endLargest(unread, maxBytes)
  }
}

function endLargest(unread: Socket[], maxBytes: number): void {
  let sum = unread.reduce((sum, { writableLength }) => sum + writableLength, 0)
  if (sum <= maxBytes) return
  const largestFirst = unread.toSorted((a, b) => b.writableLength - a.writableLength)
  // The last one stays, however large it is.
  for (const socket of largestFirst.slice(0, -1)) {
    if (sum <= maxBytes) return
    sum -= socket.writableLength
    socket.destroy()
  }
}
