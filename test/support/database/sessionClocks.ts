import { Connection } from 'mysql2'
import { onTestFinished, vi } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'

/** A clock of the database, as some sessions have it. */
export interface SessionClock {
  /** In milliseconds since 1970. It stands still. */
  at: number
  /** A target whose sessions have this clock. */
  of(target: Target): Target
}

/** In the connection attributes of a target, which the driver keeps with each connection. */
const ATTRIBUTE = 'nth_test_clock'

/**
 * Clocks of the database that are turned by hand while sessions live, as if each were that of a node of a cluster. A session
 * sets its `timestamp` before its next statement.
 */
export function sessionClocks(count: number, at: number): SessionClock[] {
  const clocks = Array.from(
    { length: count },
    (_, index): SessionClock => ({
      at,
      of: (target) => ({ ...target, connectAttributes: { [ATTRIBUTE]: String(index) } }) as Target,
    }),
  )
  const timestamps = new WeakMap<Connection, string>()
  const { query, execute } = Connection.prototype

  function turn(connection: Connection, text: unknown): void {
    // The driver keeps what it was given, whatever its types say.
    const { connectAttributes } = connection.config as { connectAttributes?: Record<string, string> }
    const clock = clocks[Number(connectAttributes?.[ATTRIBUTE])]
    if (!clock) return
    // From the time among the variables, Nth computes when the server started, by which it recognises it.
    const isStatus = String(text).startsWith('show variables')
    const timestamp = isStatus ? 'default' : (clock.at / 1000).toFixed(3)
    if (timestamps.get(connection) === timestamp) return
    timestamps.set(connection, timestamp)
    // A session that is lost reports it for the statement after this one.
    Reflect.apply(query, connection, [`set timestamp = ${timestamp}`, () => undefined])
  }

  const turning = <Send extends typeof query | typeof execute>(send: Send) =>
    function (this: Connection, ...args: unknown[]) {
      turn(this, args[0])
      return Reflect.apply(send, this, args)
    } as Send
  const spies = [
    vi.spyOn(Connection.prototype, 'query').mockImplementation(turning(query)),
    vi.spyOn(Connection.prototype, 'execute').mockImplementation(turning(execute)),
  ]
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return clocks
}
