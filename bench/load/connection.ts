import { connect } from 'node:net'
import { type Answer, readAnswer } from './answers.ts'

/** A connection that stays open, with one request under way at a time. */
export interface Connection {
  send(request: Buffer): void
  /** Its port on this side. */
  port(): number
  close(): void
}

/** What one read can bring: more than any answer has. Of one use for all, as each read is used up at once. */
const bytes = Buffer.allocUnsafe(65_536)

/**
 * Opens one on a bare socket: Node's own HTTP clients take as much time for a request as the fastest of the
 * servers that are measured.
 */
export function openConnection(
  { hostname, port }: URL,
  onAnswer: (answer: Answer) => void,
  onFault: (error: unknown) => void,
): Connection {
  let received = ''

  function take(length: number): boolean {
    received += bytes.toString('latin1', 0, length)
    try {
      const answer = readAnswer(received)
      if (answer) {
        received = ''
        onAnswer(answer)
      }
    } catch (error) {
      onFault(error)
    }
    return true
  }

  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: { buffer: bytes, callback: take },
  })
  socket.on('error', onFault)
  socket.on('end', () => onFault(new Error('The server closed a connection.')))
  return {
    send: (request) => void socket.write(request),
    port: () => socket.localPort ?? 0,
    close: () => void socket.destroy(),
  }
}
