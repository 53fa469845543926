import type { Duplex } from 'node:stream'
import { createPool, type Pool } from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
import { NthError } from '../../core/errors.ts'
import { tripMeasure } from '../../core/measures.ts'
import { isRefusal, isSwitchover, LostAnswerError, leavesConnection } from './errors.ts'
import type { FailoverDetector } from './failover.ts'
import type { Health } from './health.ts'
import type { Host, Hosts } from './hosts/hosts.ts'
import { readStatusOn } from './hosts/status.ts'
import { assertFits, causalSettings, connectionOptions, maxStatementIn, sendSettings } from './settings.ts'
import { withTimeout } from './timeout.ts'

export type Connection = PoolConnection

export interface PoolOptions {
  connections: number
  connectTimeoutMs: number
  health: Health
  failover: FailoverDetector
  /** Whether its reads find all that was committed before on another node of a cluster. Default: true. */
  isCausal?: boolean | undefined
}

/** The driver's pool, which leads to one server. */
interface Used {
  pool: Pool
  host: Host
}

/** What is known of a connection. */
interface Opened {
  host: Host
  /** One of an earlier incarnation may lead to a replaced server. */
  incarnation: number
  answeredAt: number
  /** The most bytes of a statement; undefined: it doesn't have its settings yet. */
  maxStatement: number | undefined
}

/** A connection that was idle for longer than IDLE_MS is pinged first, and must answer within PING_MS. */
const IDLE_MS = 1000
const PING_MS = 1000
/** Maximum wait for the end of all connections, on closing. */
const CLOSE_LIMIT_MS = 1000

/** Opens a pool of connections that are not known, or likely, to be dead. */
export function openPool(
  hosts: Hosts,
  { connections, connectTimeoutMs, health, failover, isCausal = true }: PoolOptions,
) {
  let used: Used | undefined
  const known = new WeakMap<object, Opened>()
  /** When a connection last failed. Those that have been idle since then are not reused. */
  let failedAt = Number.NEGATIVE_INFINITY
  let succeededAt = Number.NEGATIVE_INFINITY
  let open = 0
  let busy = 0

  /** Each was noted when it was opened. */
  const openedOf = ({ connection }: Connection) => known.get(connection) as Opened

  /** The pool of the current server. Connections to another one are closed, idle ones at once. */
  async function currentPool() {
    const host = await hosts.current()
    if (used?.host.target === host.target && !used.host.isLeft()) return used
    used?.pool.end(() => undefined)
    const options = connectionOptions(host.target, connectTimeoutMs)
    const pool = createPool({ ...options, connectionLimit: connections })
    pool.on('connection', (connection) => {
      open += 1
      // Not in its types. It has no event of its own for each way in which it ends.
      const { stream } = connection as unknown as { stream: Duplex }
      stream.once('close', () => {
        open -= 1
      })
      const { incarnation } = failover
      const opened: Opened = { host, incarnation, answeredAt: performance.now(), maxStatement: undefined }
      known.set(connection, opened)
      // All that is sent on it goes through here, as the driver's promises call it. It is never given values.
      const send = connection.query.bind(connection)
      connection.query = ((statement: string, onAnswer?: () => void) => {
        if (opened.maxStatement !== undefined) assertFits(statement, opened.maxStatement)
        if (tripMeasure.hasSubscribers) tripMeasure.publish(undefined)
        return send(statement, onAnswer)
      }) as typeof send
    })
    used = { pool, host }
    return used
  }

  /** Undefined: meanwhile, connections lead to another server. */
  async function acquireAny(deadline: number): Promise<Connection | undefined> {
    let current: Used | undefined
    const begunAt = performance.now()
    try {
      current = await withTimeout(deadline - performance.now(), currentPool())
      const connection = await acquireFrom(current, deadline)
      await prepareOnce(connection, current.host, deadline)
      return connection
    } catch (error) {
      // A pool that is closed rejects those who wait for it, with an error that says nothing else.
      const isLeft = current && (current !== used || current.host.isLeft())
      if (isLeft && performance.now() < deadline) return undefined
      // All connections were in use, and answered.
      if (error instanceof LostAnswerError && succeededAt > begunAt) throw error
      current?.host.failed()
      // The server may refuse an additional connection while the others work.
      const isAdditional = isRefusal(error) && performance.now() - succeededAt <= IDLE_MS
      if (!isAdditional) health.notConnected(begunAt, error)
      throw error
    }
  }

  async function acquireFrom({ pool, host }: Used, deadline: number): Promise<Connection> {
    const acquired = pool.promise().getConnection()
    try {
      return await host.answer(deadline - performance.now(), acquired)
    } catch (error) {
      // It may still be opened, after the wait for it has ended.
      if (error instanceof LostAnswerError) acquired.then((late) => late.release()).catch(() => undefined)
      throw error
    }
  }

  async function prepareOnce(connection: Connection, host: Host, deadline: number): Promise<void> {
    const opened = openedOf(connection)
    if (opened.maxStatement !== undefined) return
    try {
      await host.answer(deadline - performance.now(), prepare(connection, opened))
    } catch (error) {
      connection.destroy()
      throw error
    }
    health.connected()
  }

  /** Sends a new connection its settings, and asks whether its server can be used. */
  async function prepare(connection: Connection, opened: Opened): Promise<void> {
    await sendSettings(connection)
    const status = await readStatusOn(connection)
    opened.host.check(status)
    if (isCausal) for (const statement of causalSettings(status.values)) await connection.query(statement)
    opened.maxStatement = maxStatementIn(status.values)
  }

  async function isLive(connection: Connection, deadline: number): Promise<boolean> {
    const now = performance.now()
    const { host, incarnation, answeredAt } = openedOf(connection)
    if (host.isLeft() || incarnation !== failover.incarnation || answeredAt <= failedAt) return false
    if (now - answeredAt < IDLE_MS) return true
    try {
      await withTimeout(Math.min(PING_MS, (deadline - now) / 2), connection.ping())
      health.connected()
      return true
    } catch (error) {
      if (error instanceof LostAnswerError) failedAt = performance.now()
      return false
    }
  }

  return {
    /** @param deadline on the clock of `performance.now()` */
    async acquire(deadline: number): Promise<Connection> {
      while (true) {
        const connection = await acquireAny(deadline)
        if (connection === undefined) continue
        if (await isLive(connection, deadline)) {
          busy += 1
          return connection
        }
        connection.destroy()
      }
    },

    /** Waits for an answer on a connection, as its host does. */
    async answer<T>(connection: Connection, timeLimitMs: number, promise: Promise<T>): Promise<T> {
      return openedOf(connection).host.answer(timeLimitMs, promise)
    },

    /** Takes a connection back, with the error of its work if that failed. Closes it unless it is still usable. */
    release(connection: Connection, error?: unknown): void {
      busy -= 1
      if (error === undefined) {
        succeededAt = performance.now()
        openedOf(connection).answeredAt = succeededAt
        health.connected()
      } else if (error instanceof LostAnswerError || isSwitchover(error)) {
        failedAt = performance.now()
        openedOf(connection).host.failed()
      }
      // The work itself throws NthErrors.
      const isUsable = error === undefined || error instanceof NthError || leavesConnection(error)
      if (isUsable) connection.release()
      else connection.destroy()
    },

    /** How many connections there are, and how many of them are in use. */
    state: () => ({ open, busy }),

    /** A connection that is lost meanwhile is closed, too. The driver would wait for ever for one that is silent. */
    async close() {
      if (used) await withTimeout(CLOSE_LIMIT_MS, used.pool.promise().end()).catch(() => undefined)
    },
  }
}
