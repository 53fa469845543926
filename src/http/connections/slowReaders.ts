import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'

const CHECK_MS = 1000

/**
 * Closes connections whose clients don't read their responses: those that read nothing for a while, and those with the
 * most unread data when the total is too large. A connection has at most one unread response.
 *
 * All connections are checked periodically, because nearly every response is read at once: a check of each response
 * would cost every request.
 *
 * @param stallMs how long a client may read nothing of its response, in milliseconds
 * @param maxBytes maximum unread data on all connections together, in bytes
 * @returns a function that stops the checks
 */
export function closeSlowReaders(connections: Connections, stallMs: number, maxBytes: number): () => void {
  const timer = setInterval(check, Math.min(CHECK_MS, stallMs / 4)).unref()
  return () => clearInterval(timer)

  function check(): void {
    const unread: Socket[] = []
    for (const socket of connections.sockets()) {
      if (socket.writableLength > 0) unread.push(socket)
      // Its response was read, and another request was started.
      else if (socket.timeout === stallMs) socket.setTimeout(0)
    }
    for (const socket of unread) {
      connections.release(socket)
      // Node restarts the timeout whenever data is read, and closes the connection when it expires.
      if (socket.timeout !== stallMs) socket.setTimeout(stallMs)
    }
    closeLargest(unread, maxBytes)
  }
}

function closeLargest(unread: Socket[], maxBytes: number): void {
  let sum = unread.reduce((sum, { writableLength }) => sum + writableLength, 0)
  const largestFirst = unread.toSorted((a, b) => b.writableLength - a.writableLength)
  // The last one stays, however large it is.
  for (const socket of largestFirst.slice(0, -1)) {
    if (sum <= maxBytes) return
    sum -= socket.writableLength
    socket.destroy()
  }
}
