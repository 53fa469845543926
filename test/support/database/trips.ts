import { tracingChannel } from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'

/** A text of statements that was sent, and what came back. */
export interface Trip {
  statements: string[]
  /** The answer to each statement; empty if one of them failed, or the connection was lost. */
  answers: unknown[]
  error: Error | undefined
}

/** What mysql2's tracing says of a text. */
interface Message {
  query: string
  values?: readonly string[]
  result?: unknown
  error?: Error
}

/** Has mysql2's own tracing say what this process sends, until the test has finished. */
export function subscribe(
  subscribers: Partial<Record<'start' | 'asyncEnd', (message: Message) => void>>,
): void {
  for (const command of ['query', 'execute']) {
    const channel = tracingChannel(`mysql2:${command}`)
    // By its types, the messages of a channel can be anything.
    channel.subscribe(subscribers as never)
    onTestFinished(() => void channel.unsubscribe(subscribers as never))
  }
}

/** Statements that set up a connection or keep it, and those of the background. */
const BESIDE_FLUSHES =
  /set (session|statement)|max_execution_time|^show |^do 0$|^kill |leaderboard|lost_commits/

/**
 * Collects what flushes of this process send, in that order, by mysql2's own tracing. Prepared statements have their values
 * in the places of their question marks.
 */
export function collectTrips(): Trip[] {
  const trips: Trip[] = []
  const byMessage = new WeakMap<Message, Trip>()
  const subscribers = {
    start(message: Message) {
      const { query, values = [] } = message
      if (BESIDE_FLUSHES.test(query)) return
      const left = [...values]
      const text = query.replaceAll('?', () => left.shift() ?? '?')
      const trip: Trip = { statements: text.split(';\n'), answers: [], error: undefined }
      byMessage.set(message, trip)
      trips.push(trip)
    },
    asyncEnd(message: Message) {
      const trip = byMessage.get(message)
      if (!trip) return
      const { result, error } = message
      trip.error = error
      if (!error) trip.answers = trip.statements.length === 1 ? [result] : (result as unknown[])
    },
  }
  subscribe(subscribers)
  return trips
}
