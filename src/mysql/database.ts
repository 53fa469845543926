import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from 'mysql2'
import type { Pool, PoolConnection } from 'mysql2/promise'
import { NthError, unavailable } from '../core/errors.ts'
import { type Failure, failureOf, LostAnswerError, leavesConnection, reasonOf } from './errors.ts'
import type { Target } from './target.ts'

export type Connection = PoolConnection

/** Lends connections to pieces of work, and says what it means when one fails. */
export interface Database {
  /**
   * Runs work that may run twice: reads, and making what may exist already. Tried again where that helps.
   *
   * @throws {NthError} UNAVAILABLE
   */
  repeatable<T>(work: Work<T>): Promise<T>
  /**
   * Runs work that must take effect once. Tried again only where it certainly did not.
   *
   * @throws {NthError} UNAVAILABLE if nothing was done; OUTCOME_UNKNOWN if the connection ended before the answer
   */
  once<T>(work: Work<T>): Promise<T>
  close(): Promise<void>
}

export type Work<T> = (connection: Connection) => Promise<T>

export interface DatabaseOptions {
  /** How long a piece of work may take, waiting for a connection included, in milliseconds. */
  timeLimitMs?: number
  /** Told with the reason when the database goes out of reach, and without one when it is back. */
  onReachable?: (reason?: unknown) => void
}

const TIME_LIMIT_MS = 10_000
const CONNECTIONS = 10
/** How many may wait for a connection; more of them would only use memory until their time is up. */
const MAX_WAITING = 10_000
/** What mysql2 says, without a code, when more than that would wait. */
const QUEUE_FULL = 'Queue limit reached.'
const LONGEST_PAUSE_MS = 20
const LOCK_WAIT_S = 2
/** InnoDB looks at its waiters once a second. */
const LONGEST_TRY_MS = (LOCK_WAIT_S + 1) * 1000

/** What every session relies on, whatever the server's defaults: strict arithmetic, UTC, short lock waits. */
const SESSION = [
  `set session
     sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
     time_zone = '+00:00',
     innodb_lock_wait_timeout = ${LOCK_WAIT_S}`,
  // By this form, because the variable's name differs between MySQL and MariaDB.
  'set session transaction isolation level read committed',
]

export function openDatabase(target: Target, options: DatabaseOptions = {}): Database {
  const { timeLimitMs = TIME_LIMIT_MS, onReachable = () => undefined } = options
  const pool = createPool({
    ...target,
    connectionLimit: CONNECTIONS,
    queueLimit: MAX_WAITING,
    connectTimeout: timeLimitMs,
    enableKeepAlive: true,
    timezone: 'Z',
    supportBigNumbers: true,
  })
  // Queued before whatever the first borrower sends.
  pool.on('connection', (connection) => {
    for (const statement of SESSION) {
      connection.query(statement, (error) => error && connection.destroy())
    }
  })
  const borrow = borrower(pool.promise(), onReachable)

  async function run<T>(work: Work<T>, again: (failure: Failure) => boolean): Promise<T> {
    const deadline = Date.now() + timeLimitMs
    // A try that the deadline cuts off would leave it unknown whether it counted.
    const lastTryAt = deadline - Math.min(LONGEST_TRY_MS, timeLimitMs / 2)
    while (true) {
      const connection = await borrow(lastTryAt)
      try {
        return await workOn(connection, work, deadline)
      } catch (error) {
        if (error instanceof NthError) throw error
        const failure = failureOf(error)
        if (!again(failure) || Date.now() > lastTryAt) throw explained(failure, error)
        await pause(Math.random() * LONGEST_PAUSE_MS)
      }
    }
  }

  return {
    repeatable: (work) =>
      run(work, (failure) => failure === 'conflict' || failure === 'lost').catch(asNotDone),
    once: (work) => run(work, (failure) => failure === 'conflict'),
    close: () => pool.promise().end(),
  }
}

function borrower(pool: Pool, onReachable: (reason?: unknown) => void) {
  let isReachable = true

  function note(reachable: boolean, reason?: unknown) {
    if (reachable !== isReachable) onReachable(reason)
    isReachable = reachable
  }

  return async (deadline: number): Promise<Connection> => {
    const borrowed = pool.getConnection()
    try {
      const connection = await before(deadline, borrowed)
      note(true)
      return connection
    } catch (error) {
      // It may still come, after its borrower has gone.
      if (error instanceof LostAnswerError) borrowed.then((late) => late.release()).catch(() => undefined)
      if (error instanceof LostAnswerError || reasonOf(error) === QUEUE_FULL) {
        throw unavailable('Too many wait for the database; nothing was done.', error)
      }
      note(false, error)
      throw unavailable('The database cannot be reached now; nothing was done.', error)
    }
  }
}

async function workOn<T>(connection: Connection, work: Work<T>, deadline: number): Promise<T> {
  try {
    const result = await before(deadline, work(connection))
    connection.release()
    return result
  } catch (error) {
    if (error instanceof NthError || leavesConnection(error)) connection.release()
    else connection.destroy()
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

async function before<T>(deadline: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new LostAnswerError('The database did not answer in time.')),
      deadline - Date.now(),
    )
  })
  try {
    return await Promise.race([promise, limit])
  } finally {
    clearTimeout(timer)
  }
}

function explained(failure: Failure, cause: unknown): unknown {
  switch (failure) {
    case 'conflict':
      return unavailable('Too many others change this at the same time; nothing was done.', cause)
    case 'refused':
      return unavailable('The database refuses changes now; nothing was done.', cause)
    case 'lost':
      return new NthError(
        'OUTCOME_UNKNOWN',
        'The connection to the database ended before it answered: this may have counted.',
        {},
        { cause },
      )
    case 'fault':
      return cause
  }
}

function asNotDone(error: unknown): never {
  if (error instanceof NthError && error.code === 'OUTCOME_UNKNOWN') {
    throw unavailable('The connection to the database ended before it answered.', error.cause)
  }
  throw error
}
