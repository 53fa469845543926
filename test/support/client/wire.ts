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
