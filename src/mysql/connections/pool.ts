import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
import { NthError, unavailable } from '../../core/errors.ts'
import { integer } from '../literals.ts'
import {
  type Failure,
  failureOf,
  isRefusal,
  isSwitchover,
  isUnwritable,
  LostAnswerError,
  leavesConnection,
} from './errors.ts'
import type { FailoverDetector } from './failover.ts'
import { afterSwitchover, type Health } from './health.ts'
import { connectionOptions, sessionSettings } from './settings.ts'
import type { Target } from './target.ts'
import { within } from './timeout.ts'

export type Connection = PoolConnection

/** Runs work on pooled connections, and translates its errors. */
export interface Database {
  /**
   * Runs work that may run twice: reads, and creating what may already exist. It is retried until its deadline where
   * that helps: a restart of the database is only a pause.
   *
   * @param deadline on the clock of `performance.now()`; default: `deadline()`
   * @throws {NthError} UNAVAILABLE
   */
  repeatable<T>(work: Work<T>, deadline?: number): Promise<T>
  /** The deadline of work that starts now. */
  deadline(): number
  close(): Promise<void>
}

export type Work<T> = (connection: Connection) => Promise<T>

export interface DatabaseOptions {
  /** Time limit of a piece of work, including the wait for a connection, in milliseconds. */
  timeLimitMs: number
  /** Maximum pieces of work that run or wait. */
  maxPending: number
  /** Maximum connections. */
  connections?: number
  /** Whether all its work makes changes. */
  isForChanges?: boolean
  health: Health
  failover: FailoverDetector
}

const CONNECTIONS = 10
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200
const LOCK_WAIT_S = 2
/** A connection that was idle for longer than IDLE_MS is pinged first, and must answer within PING_MS. */
const IDLE_MS = 1000
const PING_MS = 1000
/** Minimum time of the first attempt, if that much is left. */
const SHORTEST_ATTEMPT_MS = 1000
/** How long the server keeps the locks of an idle transaction, in seconds: its process may be frozen. */
const IDLE_TRANSACTION_S = 3

export function openDatabase(target: Target, options: DatabaseOptions): Database {
  const {
    timeLimitMs,
    maxPending,
    connections = CONNECTIONS,
    isForChanges = false,
    health,
    failover,
  } = options
  const pool = createPool({ ...connectionOptions(target, timeLimitMs / 3), connectionLimit: connections })
  /** When each connection last answered. */
  const heardAt = new WeakMap<object, number>()
  /** The incarnation in which each was opened. One of an earlier incarnation may lead to a replaced server. */
  const openedIn = new WeakMap<object, number>()
  /** When a connection last failed. Those that have been idle since then are not reused. */
  let doubtedAt = Number.NEGATIVE_INFINITY
  /** When a piece of work last succeeded. */
  let doneAt = Number.NEGATIVE_INFINITY
  // Queued before the first borrower's statements.
  pool.on('connection', (connection) => {
    heardAt.set(connection, performance.now())
    openedIn.set(connection, failover.incarnation)
    for (const statement of sessionSettings({ lockWaitS: LOCK_WAIT_S })) {
      connection.query(statement, (error) => error && connection.destroy())
    }
  })
  let pending = 0

  async function run<T>(work: Work<T>, deadline: number): Promise<T> {
    let conflict: unknown
    const noteWrites = afterSwitchover(health.writing)
    let isFirst = true
    for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await attempt(work, deadline, isFirst)
      } catch (error) {
        // Thrown by the work itself.
        if (error instanceof NthError) throw error
        const failure = failureOf(error)
        if (failure === 'fault') throw error
        if (isUnwritable(error)) noteWrites(false, error)
        isFirst = false
        if (failure === 'conflict') conflict = error
        if (performance.now() + pauseMs > deadline) {
          // A conflict explains the delay better than the time limit.
          throw conflict && error instanceof LostAnswerError
            ? explained('conflict', conflict)
            : explained(failure, error)
        }
        await pause(Math.random() * pauseMs)
      }
    }
  }

  /** The first attempt leaves time for another: its connection may be dead. */
  async function attempt<T>(work: Work<T>, deadline: number, isFirst: boolean): Promise<T> {
    const connection = await borrowLive(deadline)
    const leftMs = deadline - performance.now()
    const limitMs = isFirst ? Math.max(leftMs / 3, Math.min(leftMs, SHORTEST_ATTEMPT_MS)) : leftMs
    try {
      const result = await within(limitMs, work(connection))
      doneAt = performance.now()
      heardAt.set(connection.connection, doneAt)
      connection.release()
      if (isForChanges) health.writing(true)
      return result
    } catch (error) {
      if (error instanceof LostAnswerError || isSwitchover(error)) doubtedAt = performance.now()
      if (error instanceof NthError || leavesConnection(error)) connection.release()
      else connection.destroy()
      throw error
    }
  }

  async function borrowLive(deadline: number): Promise<Connection> {
    while (true) {
      const connection = await borrow(deadline)
      const now = performance.now()
      const heard = heardAt.get(connection.connection) ?? now
      const isCurrent = openedIn.get(connection.connection) === failover.incarnation
      const isLive =
        isCurrent && heard > doubtedAt && (now - heard < IDLE_MS || (await answers(connection, deadline)))
      if (isLive) return connection
      connection.destroy()
    }
  }

  async function borrow(deadline: number): Promise<Connection> {
    const borrowed = pool.promise().getConnection()
    try {
      const connection = await within(deadline - performance.now(), borrowed)
      health.connecting(true)
      return connection
    } catch (error) {
      // It may still be opened, after its borrower has given up.
      if (error instanceof LostAnswerError) borrowed.then((late) => late.release()).catch(() => undefined)
      // The server may refuse an additional connection while the others work.
      else if (!isRefusal(error) || performance.now() - doneAt > IDLE_MS) health.connecting(false, error)
      throw error
    }
  }

  async function answers(connection: Connection, deadline: number): Promise<boolean> {
    try {
      await within(Math.min(PING_MS, (deadline - performance.now()) / 2), connection.ping())
      return true
    } catch (error) {
      if (error instanceof LostAnswerError) doubtedAt = performance.now()
      return false
    }
  }

  return {
    async repeatable(work, deadline = performance.now() + timeLimitMs) {
      if (pending >= maxPending) {
        throw unavailable(`More than ${maxPending} requests are waiting for the database; nothing was done.`)
      }
      pending++
      try {
        return await run(work, deadline)
      } finally {
        pending--
      }
    },
    deadline: () => performance.now() + timeLimitMs,
    close: () => pool.promise().end(),
  }
}

/** Runs work in its own transaction, and rolls it back if it fails. */
export async function inTransaction<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  await connection.query(`set session wait_timeout = ${integer(IDLE_TRANSACTION_S)}`)
  await connection.query('start transaction')
  try {
    const result = await work()
    await connection.query('commit')
    return result
  } catch (error) {
    // If even this fails, the connection is lost, and the server rolls the transaction back.
    await connection.query('rollback').catch(() => connection.destroy())
    throw error
  } finally {
    // Not awaited: the next borrower's statements are queued behind it.
    connection.query('set session wait_timeout = default').catch(() => connection.destroy())
  }
}

function explained(failure: Failure, cause: unknown): NthError {
  switch (failure) {
    case 'conflict':
      return unavailable('Too many concurrent changes; nothing was done.', cause)
    case 'refused':
      return unavailable('The database currently refuses this; nothing was done.', cause)
    default:
      return unavailable(`The database is unreachable; nothing was done.`, cause)
  }
}
