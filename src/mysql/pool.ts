import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { createPool, type Pool } from 'mysql2'
import { backoffMs, NthError, RETRY, unavailable } from '../rules/errors.ts'
import type { Owner } from '../rules/turns.ts'
import {
  ER,
  failureOf,
  hasErrorNumber,
  isFullDisk,
  isSwitchover,
  LostAnswerError,
  leavesConnection,
  withTimeout,
} from './errors.ts'
import type { FailoverDetector, Health } from './health.ts'
import type { Host, Hosts } from './hosts.ts'
import { PooledConnection } from './pooledConnection.ts'
import { connectionOptions } from './settings.ts'
import { JOBS, JOINED, Slots } from './slots.ts'

export type Work<T> = (connection: PooledConnection) => Promise<T>

interface DatabaseOptions {
  /** Time limit of a piece of work, including the wait for a connection, in milliseconds. */
  timeLimitMs: number
  /** Maximum pieces of work that run or wait. */
  maxPending: number
  /** Learns of answers and failures. */
  health?: Health
  failover?: FailoverDetector
  /** Whether its work changes rows. It then has fewer connections. */
  isForChanges?: boolean
  /** Whether its reads find all that was committed before on another node of a cluster. Default: true. */
  isCausal?: boolean | undefined
}

/** The driver's pool, which leads to one server. */
interface HostPool {
  pool: Pool
  host: Host
  /** Its connections, by those of the driver. */
  opened: WeakMap<object, PooledConnection>
}

const CONNECTIONS = 10
const CONNECTIONS_FOR_CHANGES = 2
/** Connections that callers may not use, where some work is joined. */
const RESERVED = 2
/** Shortest and longest time of the first attempt, if that much is left. */
const SHORTEST_ATTEMPT_MS = 1000
const LONGEST_FIRST_ATTEMPT_MS = 4000
/** A connection that was idle for longer than IDLE_MS is pinged first, and must answer within PING_MS. */
const IDLE_MS = 1000
const PING_MS = 1000
/** Maximum wait for the end of all connections, on closing. */
const CLOSE_LIMIT_MS = 1000

const REASONS = {
  conflict: 'Too many concurrent changes',
  refused: 'The database currently refuses this',
  lost: 'The database is unreachable',
}

const CLOSED = 'The connections to the database were closed; nothing was done.'

/** Runs work on pooled connections that are not known, or likely, to be dead, and translates its errors. */
export class Database {
  readonly #hosts: Hosts
  readonly #options: DatabaseOptions
  readonly #slots: Slots
  readonly #connections: number
  #used: HostPool | undefined
  /** When a connection last failed. Those that have been idle since then are not reused. */
  #failedAt = Number.NEGATIVE_INFINITY
  /** When a server last rejected changes. Connections that were opened before may lead to it. */
  #switchedAt = Number.NEGATIVE_INFINITY
  #succeededAt = Number.NEGATIVE_INFINITY
  #pending = 0
  #isClosed = false
  #open = 0
  #busy = 0

  constructor(hosts: Hosts, options: DatabaseOptions) {
    this.#hosts = hosts
    this.#options = options
    this.#connections = options.isForChanges ? CONNECTIONS_FOR_CHANGES : CONNECTIONS
    this.#slots = new Slots(this.#connections, options.isForChanges ? 0 : RESERVED)
  }

  /**
   * Runs work that may run twice: reads, and creating what may already exist. It is retried until its deadline where
   * that helps: a restart of the database is only a pause.
   *
   * @param owner whose turn it has
   * @param deadline on the clock of `performance.now()`
   * @throws {NthError} UNAVAILABLE
   */
  async withRetry<T>(owner: Owner, work: Work<T>, deadline = this.deadline(owner)): Promise<T> {
    const { maxPending } = this.#options
    if (this.#pending >= maxPending)
      throw unavailable(`More than ${maxPending} requests are waiting for the database; nothing was done.`)
    this.#pending++
    return this.#run(work, deadline, owner).finally(() => this.#pending--)
  }

  /** Runs a select, as `withRetry` does. */
  select<Row>(owner: Owner, statement: string): Promise<Row[]> {
    return this.withRetry(owner, (connection) => connection.select<Row>(statement))
  }

  /** Runs work once, also while the database is not used because it has lost commits. */
  evenIfLossy<T>(work: Work<T>): Promise<T> {
    return this.#attempt(work, this.deadline(), true, JOINED)
  }

  /** The deadline of work of an owner. Default: of work that begins now. */
  deadline({ arrivedAt = performance.now() }: Pick<Owner, 'arrivedAt'> = {}): number {
    return arrivedAt + this.#options.timeLimitMs
  }

  /** Whether the next work of a caller must wait. */
  get isBusy(): boolean {
    return this.#slots.isFull
  }

  /** How many connections there are, and how many of them are in use. */
  state(): Record<'open' | 'busy', number> {
    return { open: this.#open, busy: this.#busy }
  }

  /** A connection that is lost meanwhile is closed, too. The driver would wait for ever for one that is silent. */
  readonly close = async (): Promise<void> => {
    this.#isClosed = true
    const ended = this.#used?.pool.promise().end()
    if (ended) await withTimeout(CLOSE_LIMIT_MS, ended).catch(() => undefined)
  }

  async #run<T>(work: Work<T>, deadline: number, owner: Owner): Promise<T> {
    const { failover, health } = this.#options
    let conflict: unknown
    for (let failures = 0; ; ) {
      try {
        if (this.#isClosed) throw unavailable(CLOSED)
        failover?.assertWhole()
        return await this.#attempt(work, deadline, failures === 0, owner)
      } catch (error) {
        // Thrown by the work itself, or as the database has lost commits.
        if (error instanceof NthError) throw error
        // Whatever the driver says of connections that were closed under the work.
        if (this.#isClosed) throw unavailable(CLOSED, error)
        const failure = failureOf(error)
        if (failure === 'fault') throw error
        if (hasErrorNumber(error, ER.STATEMENT_TIMEOUT, ER.QUERY_TIMEOUT))
          throw unavailable('The database took too long for this; nothing was done.', error)
        if (isSwitchover(error) || isFullDisk(error)) health?.poolFailed(error)
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
  async #attempt<T>(work: Work<T>, deadline: number, isFirst: boolean, owner: Owner): Promise<T> {
    const release = await this.#slots.take(owner, deadline)
    return this.#attemptNow(work, deadline, isFirst, owner).finally(release)
  }

  async #attemptNow<T>(work: Work<T>, deadline: number, isFirst: boolean, owner: Owner): Promise<T> {
    const connection = await this.#acquire(deadline)
    const leftMs = deadline - performance.now()
    const thirdMs = Math.min(leftMs / 3, LONGEST_FIRST_ATTEMPT_MS)
    const limitMs = isFirst ? Math.max(thirdMs, Math.min(leftMs, SHORTEST_ATTEMPT_MS)) : leftMs
    const isLimited = owner !== JOBS && !this.#options.isForChanges
    connection.selectsUntil = isLimited ? performance.now() + limitMs : undefined
    this.#busy += 1
    try {
      const result = await connection.host.answer(limitMs, work(connection))
      this.#succeededAt = performance.now()
      connection.answeredAt = this.#succeededAt
      this.#options.health?.answered()
      connection.release()
      return result
    } catch (error) {
      if (error instanceof LostAnswerError || isSwitchover(error)) {
        this.#failedAt = performance.now()
        if (isSwitchover(error)) this.#switchedAt = this.#failedAt
        connection.host.failed()
      }
      // The work itself throws NthErrors.
      if (error instanceof NthError || leavesConnection(error)) connection.release()
      else connection.destroy()
      throw error
    } finally {
      this.#busy -= 1
    }
  }

  async #acquire(deadline: number): Promise<PooledConnection> {
    while (true) {
      const connection = await this.#acquireAny(deadline)
      if (connection === undefined) continue
      if (await this.#isLive(connection, deadline)) return connection
      connection.destroy()
    }
  }

  /** Undefined: meanwhile, connections lead to another server. */
  async #acquireAny(deadline: number): Promise<PooledConnection | undefined> {
    let used: HostPool | undefined
    let connection: PooledConnection | undefined
    const begunAt = performance.now()
    try {
      used = await withTimeout(deadline - begunAt, this.#currentPool())
      connection = await acquireFrom(used, deadline)
      if (!connection.isPrepared)
        await used.host.answer(deadline - performance.now(), connection.prepare(this.#options.isCausal))
      return connection
    } catch (error) {
      connection?.destroy()
      // A pool that is closed rejects those who wait for it, with an error that says nothing else.
      const isLeft = used && (used !== this.#used || used.host.isLeft())
      if (isLeft && performance.now() < deadline) return undefined
      // All connections were in use, and answered.
      if (error instanceof LostAnswerError && this.#succeededAt > begunAt) throw error
      used?.host.failed()
      this.#options.health?.poolFailed(error)
      throw error
    }
  }

  /** The pool of the current server. Connections to another one are closed, idle ones at once. */
  async #currentPool(): Promise<HostPool> {
    const host = await this.#hosts.current()
    if (this.#used?.host.target === host.target && !this.#used.host.isLeft()) return this.#used
    this.#used?.pool.end(() => undefined)
    const { timeLimitMs } = this.#options
    const connectTimeoutMs = Math.max(timeLimitMs / 3, SHORTEST_ATTEMPT_MS)
    const pool = createPool({
      ...connectionOptions(host.target, connectTimeoutMs),
      multipleStatements: true,
      connectionLimit: this.#connections,
    })
    const opened = new WeakMap<object, PooledConnection>()
    pool.on('connection', (connection) => {
      this.#open += 1
      // Not in its types. It has no event of its own for each way in which it ends.
      const { stream } = connection as unknown as { stream: Duplex }
      stream.once('close', () => void this.#open--)
      const { incarnation } = this.#options.failover ?? {}
      opened.set(connection, new PooledConnection(connection.promise(), host, incarnation))
    })
    this.#used = { pool, host, opened }
    return this.#used
  }

  async #isLive(connection: PooledConnection, deadline: number): Promise<boolean> {
    const now = performance.now()
    const { host, incarnation, openedAt, answeredAt } = connection
    if (host.isLeft() || incarnation !== this.#options.failover?.incarnation) return false
    if (openedAt <= this.#switchedAt || answeredAt <= this.#failedAt) return false
    if (now - answeredAt < IDLE_MS) return true
    try {
      await withTimeout(Math.min(PING_MS, (deadline - now) / 2), connection.ping())
      return true
    } catch (error) {
      if (error instanceof LostAnswerError) this.#failedAt = performance.now()
      return false
    }
  }
}

async function acquireFrom({ pool, host, opened }: HostPool, deadline: number): Promise<PooledConnection> {
  const acquired = pool.promise().getConnection()
  try {
    const { connection } = await host.answer(deadline - performance.now(), acquired)
    // Each was added when it was opened.
    return opened.get(connection) as PooledConnection
  } catch (error) {
    // It may still be opened, after the wait for it has ended.
    if (error instanceof LostAnswerError) acquired.then((late) => late.release()).catch(() => undefined)
    throw error
  }
}

/** Binds a function of a connection to a database: it takes the other arguments, and its work is joined. */
export function joined<Args extends unknown[], T>(
  database: Database,
  work: (connection: PooledConnection, ...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  return (...args) => database.withRetry(JOINED, (connection) => work(connection, ...args))
}
