import { connect } from 'node:net'

export interface Request {
  /** What is sent this time. */
  bytes(): Buffer
  /** How many numbers it changes; a read changes none. */
  changes: number
  /**
   * Takes the answer to it.
   *
   * @param sentAt when it was sent, and `now`: when the answer came, in milliseconds
   * @throws {Error} if it is wrong
   */
  take(body: string, sentAt: number, now: number): void
}

interface Drive {
  url: URL
  connections: number
  /** Says what to send next at a time in milliseconds; undefined: nothing more. */
  next(now: number): Request | undefined
  /** Called with each correct answer, and the times in milliseconds at which its request was sent and it came. */
  onAnswer?(request: Request, sentAt: number, now: number): void
}

/**
 * Sends requests over some connections, on each the next one as soon as the last is answered. Returns when
 * there is nothing more to send and every request has its answer, so that no number that was issued is lost.
 *
 * @throws {Error} at the first answer that isn't 200 or that is wrong, or connection that breaks
 */
export async function drive(options: Drive): Promise<void> {
  const opened: Connection[] = []
  const watch = watchForSilence()
  const drained = Array.from({ length: options.connections }, () => {
    return new Promise<void>((resolve, reject) => {
      opened.push(driveOne(options, watch.heard, resolve, reject))
    })
  })
  try {
    await Promise.race([Promise.all(drained), watch.silence])
  } finally {
    watch.end()
    for (const connection of opened) connection.close()
  }
}

function driveOne(
  { url, next, onAnswer }: Drive,
  heard: () => void,
  onDrained: () => void,
  onFault: (error: unknown) => void,
): Connection {
  let request: Request | undefined
  let sentAt = 0

  function send(now: number): void {
    request = next(now)
    sentAt = now
    if (request) connection.send(request.bytes())
    else onDrained()
  }

  const connection = openConnection(
    url,
    ({ status, body }) => {
      if (!request || status !== 200) throw new Error(`It answered ${status}: ${body}`)
      heard()
      const now = performance.now()
      request.take(body, sentAt, now)
      onAnswer?.(request, sentAt, now)
      send(now)
    },
    onFault,
  )
  send(performance.now())
  return connection
}

const SILENCE_S = 30

/** `silence` rejects when nothing was heard for 30 seconds. */
function watchForSilence() {
  let hasHeard = true
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      if (!hasHeard) reject(new Error(`It answered nothing for ${SILENCE_S} seconds.`))
      hasHeard = false
    }, SILENCE_S * 1000)
  })
  return {
    silence,
    heard: () => {
      hasHeard = true
    },
    end: () => clearInterval(timer),
  }
}

/** A connection that stays open, with one request under way at a time. */
interface Connection {
  send(request: Buffer): void
  close(): void
}

/** What one read can bring: more than any answer has. Of one use for all, as each read is used up at once. */
const bytes = Buffer.allocUnsafe(65_536)

/**
 * Opens one on a bare socket: Node's own HTTP clients take as much time for a request as the fastest of the
 * servers that are measured.
 */
function openConnection(
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
    close: () => void socket.destroy(),
  }
}

/** An answer of HTTP/1.1, its body as Latin-1. */
interface Answer {
  status: number
  body: string
}

/**
 * Reads an answer from all that has come since its request; undefined if it has not come whole.
 *
 * @throws {Error} if it isn't one that this generator understands
 */
function readAnswer(text: string): Answer | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const status = Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length))
  const bodyStart = headEnd + 4
  const length = LENGTH.exec(text)?.[1]
  const body = length === undefined ? unchunked(text, bodyStart) : lengthy(text, bodyStart, Number(length))
  return body === undefined ? undefined : { status, body }
}

const LENGTH = /\r\ncontent-length: *(\d+)/i
const CHUNKED = /\r\ntransfer-encoding: *chunked/i

function lengthy(text: string, start: number, length: number): string | undefined {
  if (text.length > start + length) throw new Error(`More came than one answer: ${text}`)
  return text.length < start + length ? undefined : text.slice(start)
}

function unchunked(text: string, start: number): string | undefined {
  if (!CHUNKED.test(text)) throw new Error(`An answer of unknown length came: ${text}`)
  let body = ''
  let at = start
  while (true) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    const chunkEnd = lineEnd + 2 + size
    if (text.length < chunkEnd + 2) return undefined
    if (size === 0) return body
    body += text.slice(lineEnd + 2, chunkEnd)
    at = chunkEnd + 2
  }
}
