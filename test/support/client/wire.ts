import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect } from 'node:net'
import { onTestFinished } from 'vitest'

/** A connection to be written to and read from as it stands, ended when the test has finished. */
export interface Wire {
  write(...parts: (string | Uint8Array)[]): void
  /** Waits until the server has sent a text, and returns all that it has sent. */
  received(text: string | RegExp): Promise<string>
  /** Waits until the server has ended the connection, and returns all that it has sent. */
  ended(): Promise<string>
  /** Says that nothing more will come, and goes on reading. */
  end(): void
  /** Stops reading, until `resume` is called. */
  pause(): void
  resume(): void
  /** Goes away, as a caller whose machine fails. */
  destroy(): void
  /** Goes away, and lets the server know at once. */
  reset(): void
}

export function openWire(url: string): Wire {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  let text = ''
  const listeners = new Set<() => void>()
  const notify = () => {
    for (const listener of listeners) listener()
  }
  socket.on('data', (chunk) => {
    text += chunk
    notify()
  })
  socket.on('close', notify)
  // A server that ends a connection while it is written to breaks it; what it sent counts.
  socket.on('error', notify)

  function until(isDone: () => boolean): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (isDone()) resolve(text)
        else if (socket.closed) reject(new Error(`The connection ended after: ${text}`))
        else return
        listeners.delete(look)
      }
      listeners.add(look)
      look()
    })
  }

  return {
    write: (...parts) => {
      for (const part of parts) socket.write(part)
    },
    received: (sought) =>
      until(() => (typeof sought === 'string' ? text.includes(sought) : sought.test(text))),
    ended: () => until(() => socket.closed),
    end: () => socket.end(),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    destroy: () => socket.destroy(),
    reset: () => socket.resetAndDestroy(),
  }
}

/** A POST to the API, up to where its body begins. */
export function postHead(...headers: string[]): string {
  const lines = ['POST /graphql HTTP/1.1', 'Host: localhost', 'Content-Type: application/json', ...headers]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** A frame of a WebSocket, as clients send them (RFC 6455, 5.2), with a mask that changes nothing. */
export function frame(
  payload: string | Buffer,
  { opcode = 1, isLast = true, isCompressed = false, length = Buffer.byteLength(payload) } = {},
): Buffer {
  const first = opcode + (isLast ? 0x80 : 0) + (isCompressed ? 0x40 : 0)
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head.writeUInt16BE(first * 256 + 0x80 + (head.length === 2 ? length : head.length === 4 ? 126 : 127))
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeUInt32BE(length, 6)
  return Buffer.concat([head, Buffer.alloc(4), Buffer.from(payload)])
}

/** How many requests the servers of this process have received since. */
export function countRequests(): () => number {
  let count = 0
  const onRequest = () => {
    count += 1
  }
  subscribe('http.server.request.start', onRequest)
  onTestFinished(() => void unsubscribe('http.server.request.start', onRequest))
  return () => count
}
