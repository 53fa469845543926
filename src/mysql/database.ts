import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
import { NthError, unavailable } from '../core/errors.ts'
import {
  type Failure,
  failureOf,
  isRefusal,
  isSwitchover,
  isUnwritable,
  LostAnswerError,
  leavesConnection,
} from './errors.ts'
import { integer } from './literals.ts'
import type { Origin } from './origin.ts'
import { afterSwitchover, type Notes } from './reachability.ts'
import { connectionOptions, sessionSettings } from './settings.ts'
import type { Target } from './target.ts'
import { within } from './within.ts'

export type Connection = PoolConnection

/** Lends connections to pieces of work, and says what it means when one fails. */
export interface Database {
  /**
   * Runs work that may run twice: reads, and making what may exist already. It is tried again, until its time
   * is over, where that helps: a database that starts anew is met as a pause.
   *
   * @param deadline on the clock of `performance.now()`; left out, it has the usual time
   * @throws {NthError} UNAVAILABLE
   */
  repeatable<T>(work: Work<T>, deadline?: number): Promise<T>
  /** Until when a piece of work may take that begins now. */
  deadline(): number
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
  /** Whether all its work changes something. */
  isForChanges?: boolean
  notes: Notes
  origin: Origin
}

const CONNECTIONS = 10
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200
const LOCK_WAIT_S = 2
/** A connection that was idle for longer is asked first whether it still is one, and has so long to answer. */
const IDLE_MS = 1000
const PING_MS = 1000
/** The least that the first attempt gets, where there is as much. */
const SHORTEST_ATTEMPT_MS = 1000
/** How long the server keeps the locks of a transaction that sends nothing, in seconds: its process may be frozen. */
const IDLE_TRANSACTION_S = 3

export function openDatabase(target: Target, options: DatabaseOptions): Database {
  const { timeLimitMs, maxPending, connections = CONNECTIONS, isForChanges = false, notes, origin } = options
  const pool = createPool({ ...connectionOptions(target, timeLimitMs / 3), connectionLimit: connections })
  /** When each connection was heard of last. */
  const heardAt = new WeakMap<object, number>()
  /** The incarnation each was opened in. One of an earlier incarnation may lead to a server that was replaced. */
  const openedIn = new WeakMap<object, number>()
  /** When one led nowhere last: those that were idle then lead to the same place, and aren't used again. */
  let doubtedAt = Number.NEGATIVE_INFINITY
  /** When a piece of work was done last. */
  let doneAt = Number.NEGATIVE_INFINITY
  // Queued before whatever the first borrower sends.
  pool.on('connection', (connection) => {
    heardAt.set(connection, performance.now())
    openedIn.set(connection, origin.incarnation)
    for (const statement of sessionSettings({ lockWaitS: LOCK_WAIT_S })) {
      connection.query(statement, (error) => error && connection.destroy())
    }
  })
  let pending = 0

  async function run<T>(work: Work<T>, deadline: number): Promise<T> {
    let conflict: unknown
    const noteWrites = afterSwitchover(notes.writing)
    let isFirst = true
    for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await attempt(work, deadline, isFirst)
      } catch (error) {
        // What the work itself refuses.
        if (error instanceof NthError) throw error
        const failure = failureOf(error)
        if (failure === 'fault') throw error
        if (isUnwritable(error)) noteWrites(false, error)
        isFirst = false
        if (failure === 'conflict') conflict = error
        if (performance.now() + pauseMs > deadline) {
          // Who was kept waiting until then is told by whom.
          throw conflict && error instanceof LostAnswerError
            ? explained('conflict', conflict)
            : explained(failure, error)
        }
        await pause(Math.random() * pauseMs)
      }
    }
  }

  /** The first one leaves time for another: its connection may lead nowhere. */
  async function attempt<T>(work: Work<T>, deadline: number, isFirst: boolean): Promise<T> {
    const connection = await borrowLive(deadline)
    const leftMs = deadline - performance.now()
    const limitMs = isFirst ? Math.max(leftMs / 3, Math.min(leftMs, SHORTEST_ATTEMPT_MS)) : leftMs
    try {
      const result = await within(limitMs, work(connection))
      doneAt = performance.now()
      heardAt.set(connection.connection, doneAt)
      connection.release()
      if (isForChanges) notes.writing(true)
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
      const isCurrent = openedIn.get(connection.connection) === origin.incarnation
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
      notes.connecting(true)
      return connection
    } catch (error) {
      // It may still come, after its borrower has gone.
      if (error instanceof LostAnswerError) borrowed.then((late) => late.release()).catch(() => undefined)
      // One more connection may be one too many, while those that there are do their work.
      else if (!isRefusal(error) || performance.now() - doneAt > IDLE_MS) notes.connecting(false, error)
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
        throw unavailable(`More than ${maxPending} requests wait for the database; this one was not done.`)
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

/** Runs work in a transaction of its own, and takes all of it back if any of it fails. */
export async function inTransaction<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  await connection.query(`set session wait_timeout = ${integer(IDLE_TRANSACTION_S)}`)
  await connection.query('start transaction')
  try {
    const result = await work()
    await connection.query('commit')
    return result
  } catch (error) {
    // Where even this fails, the connection has ended, and the server takes the transaction back by itself.
    await connection.query('rollback').catch(() => connection.destroy())
    throw error
  } finally {
    // Nobody waits for it: what the next borrower sends comes after it.
    connection.query('set session wait_timeout = default').catch(() => connection.destroy())
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
