import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from 'mysql2'
import type { Pool, PoolConnection } from 'mysql2/promise'
import { NthError, unavailable } from '../core/errors.ts'
import { type Failure, failureOf, LostAnswerError, leavesConnection } from './errors.ts'
import type { Note } from './reachability.ts'
import { sessionSettings } from './settings.ts'
import type { Target } from './target.ts'
import { within } from './within.ts'

export type Connection = PoolConnection

/** Lends connections to pieces of work, and says what it means when one fails. */
export interface Database {
  /**
   * Runs work that may run twice: reads, and making what may exist already. It is tried again, until its time
   * is over, where that helps: a database that starts anew is met as a pause.
   *
   * @throws {NthError} UNAVAILABLE
   */
  repeatable<T>(work: Work<T>): Promise<T>
  close(): Promise<void>
}

export type Work<T> = (connection: Connection) => Promise<T>

export interface DatabaseOptions {
  /** How long a piece of work may take, waiting for a connection included, in milliseconds. */
  timeLimitMs: number
  /** How many pieces of work may be under way or wait. */
  maxPending: number
  /** How many connections there are. */
  connections?: number
  note: Note
}

const CONNECTIONS = 10
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200
const LOCK_WAIT_S = 2

export function openDatabase(target: Target, options: DatabaseOptions): Database {
  const { timeLimitMs, maxPending, connections = CONNECTIONS, note } = options
  const pool = createPool({
    ...target,
    connectionLimit: connections,
    connectTimeout: timeLimitMs,
    enableKeepAlive: true,
    timezone: 'Z',
    supportBigNumbers: true,
  })
  // Queued before whatever the first borrower sends.
  pool.on('connection', (connection) => {
    for (const statement of sessionSettings({ lockWaitS: LOCK_WAIT_S })) {
      connection.query(statement, (error) => error && connection.destroy())
    }
  })
  let pending = 0

  async function run<T>(work: Work<T>): Promise<T> {
    const deadline = Date.now() + timeLimitMs
    let conflict: unknown
    for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await attempt(work, deadline)
      } catch (error) {
        // What the work itself refuses.
        if (error instanceof NthError) throw error
        const failure = failureOf(error)
        if (failure === 'fault') throw error
        if (failure === 'conflict') conflict = error
        if (Date.now() + pauseMs > deadline) {
          // Who was kept waiting until then is told by whom.
          throw conflict && error instanceof LostAnswerError
            ? explained('conflict', conflict)
            : explained(failure, error)
        }
        await pause(Math.random() * pauseMs)
      }
    }
  }

  async function attempt<T>(work: Work<T>, deadline: number): Promise<T> {
    const connection = await borrow(pool.promise(), deadline, note)
    try {
      const result = await within(deadline - Date.now(), work(connection))
      connection.release()
      return result
    } catch (error) {
      if (error instanceof NthError || leavesConnection(error)) connection.release()
      else connection.destroy()
      throw error
    }
  }

  return {
    async repeatable(work) {
      if (pending >= maxPending) {
        throw unavailable(`More than ${maxPending} requests wait for the database; this one was not done.`)
      }
      pending++
      try {
        return await run(work)
      } finally {
        pending--
      }
    },
    close: () => pool.promise().end(),
  }
}

async function borrow(pool: Pool, deadline: number, note: Note): Promise<Connection> {
  const borrowed = pool.getConnection()
  try {
    const connection = await within(deadline - Date.now(), borrowed)
    note(true)
    return connection
  } catch (error) {
    // It may still come, after its borrower has gone.
    if (error instanceof LostAnswerError) borrowed.then((late) => late.release()).catch(() => undefined)
    else note(false, error)
    throw error
  }
}

/** Runs work in a transaction of its own, and takes all of it back if any of it fails. */
export async function inTransaction<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  await connection.query('start transaction')
  try {
    const result = await work()
    await connection.query('commit')
    return result
  } catch (error) {
    // Where even this fails, the connection has ended, and the server takes the transaction back by itself.
    await connection.query('rollback').catch(() => connection.destroy())
    throw error
  }
}

function explained(failure: Failure, cause: unknown): NthError {
  switch (failure) {
    case 'conflict':
      return unavailable('Too many others change this at the same time; nothing was done.', cause)
    case 'refused':
      return unavailable('The database refuses this now; nothing was done.', cause)
    default:
      return unavailable(`The database cannot be reached now: nothing was done.`, cause)
  }
}
