import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs, RETRY } from '../../core/backoff.ts'
import { NthError, unavailable } from '../../core/errors.ts'
import { integer } from '../literals.ts'
import { failureOf, isUnwritable, LostAnswerError } from './errors.ts'
import { afterSwitchover } from './health.ts'
import type { Hosts } from './hosts/hosts.ts'
import { type Connection, openPool, type PoolOptions } from './pool.ts'

export type { Connection }

export type Database = ReturnType<typeof openDatabase>

type Work<T> = (connection: Connection) => Promise<T>

export interface DatabaseOptions extends Pick<PoolOptions, 'health' | 'failover' | 'isCausal'> {
  /** Time limit of a piece of work, including the wait for a connection, in milliseconds. */
  timeLimitMs: number
  /** Maximum pieces of work that run or wait. */
  maxPending: number
  /** Whether its work changes rows. It then has fewer connections. */
  isForChanges?: boolean
}

const CONNECTIONS = 10
const CONNECTIONS_FOR_CHANGES = 2
/** Shortest and longest time of the first attempt, if that much is left. */
const SHORTEST_ATTEMPT_MS = 1000
const LONGEST_FIRST_ATTEMPT_MS = 4000
/** How long the server keeps the locks of an idle transaction, in seconds: its process may be frozen. */
const IDLE_TRANSACTION_S = 3

/** Runs work on pooled connections, and translates its errors. */
export function openDatabase(hosts: Hosts, options: DatabaseOptions) {
  const { timeLimitMs, maxPending, isForChanges, health, failover } = options
  const connections = isForChanges ? CONNECTIONS_FOR_CHANGES : CONNECTIONS
  const connectTimeoutMs = Math.max(timeLimitMs / 3, SHORTEST_ATTEMPT_MS)
  const pool = openPool(hosts, { ...options, connections, connectTimeoutMs })
  const deadlineNow = () => performance.now() + timeLimitMs
  let pending = 0

  async function run<T>(work: Work<T>, deadline: number): Promise<T> {
    let conflict: unknown
    const reportWriting = afterSwitchover(health.writing)
    for (let failures = 0; ; ) {
      try {
        failover.assertWhole()
        return await attempt(work, deadline, failures === 0)
      } catch (error) {
        // Thrown by the work itself.
        if (error instanceof NthError) throw error
        const failure = failureOf(error)
        if (failure === 'fault') throw error
        if (isUnwritable(error)) reportWriting(false, error)
        if (failure === 'conflict') conflict = error
        const pauseMs = backoffMs(RETRY, ++failures)
        if (performance.now() + pauseMs > deadline) {
          // A conflict explains the delay better than the time limit.
          const isBlocked = conflict !== undefined && error instanceof LostAnswerError
          const reason = REASONS[isBlocked ? 'conflict' : failure]
          throw unavailable(`${reason}; nothing was done.`, isBlocked ? conflict : error)
        }
        await pause(Math.random() * pauseMs)
      }
    }
  }

  /** The first attempt leaves time for another: its connection may be dead. */
  async function attempt<T>(work: Work<T>, deadline: number, isFirst: boolean): Promise<T> {
    const connection = await pool.acquire(deadline)
    const leftMs = deadline - performance.now()
    const thirdMs = Math.min(leftMs / 3, LONGEST_FIRST_ATTEMPT_MS)
    const limitMs = isFirst ? Math.max(thirdMs, Math.min(leftMs, SHORTEST_ATTEMPT_MS)) : leftMs
    try {
      const result = await pool.answer(connection, limitMs, work(connection))
      pool.release(connection)
      if (isForChanges) health.writing(true)
      return result
    } catch (error) {
      pool.release(connection, error)
      throw error
    }
  }

  return {
    /**
     * Runs work that may run twice: reads, and creating what may already exist. It is retried until its deadline where
     * that helps: a restart of the database is only a pause.
     *
     * @param deadline on the clock of `performance.now()`
     * @throws {NthError} UNAVAILABLE
     */
    async withRetry<T>(work: Work<T>, deadline = deadlineNow()): Promise<T> {
      if (pending >= maxPending) {
        throw unavailable(`More than ${maxPending} requests are waiting for the database; nothing was done.`)
      }
      pending++
      return run(work, deadline).finally(() => pending--)
    },
    /** Runs work once, also while the database is not used because it has lost commits. */
    evenIfLossy: <T>(work: Work<T>): Promise<T> => attempt(work, deadlineNow(), true),
    deadline: deadlineNow,
    state: pool.state,
    close: pool.close,
  }
}

/** Binds a function of a connection to a database: it takes the other arguments, and runs as `withRetry` does. */
export function retried<Args extends unknown[], T>(
  database: Database,
  work: (connection: Connection, ...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  return (...args) => database.withRetry((connection) => work(connection, ...args))
}

/** Rolls back if the work fails. */
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
    // Not awaited: the next user's statements are queued behind it.
    connection.query('set session wait_timeout = default').catch(() => connection.destroy())
  }
}

const REASONS = {
  conflict: 'Too many concurrent changes',
  refused: 'The database currently refuses this',
  lost: 'The database is unreachable',
}
