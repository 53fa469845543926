import { type Connection, openConnection } from './connection.ts'

export interface Request {
  /** What is sent this time. */
  bytes(): Buffer
  /** How many numbers it changes; a read changes none. */
  changes: number
  /** @throws {Error} if the answer to it is wrong */
  take(body: string): void
}

export interface Drive {
  url: URL
  connections: number
  /** Says what to send next at a time in milliseconds; undefined: nothing more. */
  next(now: number): Request | undefined
  /** Told of each right answer, with the times in milliseconds at which it was asked for and came. */
  onAnswer?(request: Request, sentAt: number, now: number): void
}

/**
 * Sends requests over some connections, on each the next one as soon as the last is answered. Returns when
 * there is nothing more to send and every request has its answer, so that no number handed out is lost.
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
      request.take(body)
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
export function watchForSilence() {
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
