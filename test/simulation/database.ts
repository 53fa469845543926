import { type Answer, FailedStatement } from '../../src/mysql/session.ts'
import type { Random } from '../support/mulberry32.ts'
import type { Machine, Scheduler } from './scheduler.ts'
import { answerTo } from './statements.ts'

/** A row; what it refers to never changes. */
export type StoredRow = Readonly<Record<string, number | string | null>>

/** An error with a number, as servers send it. */
export class ServerError extends Error {
  readonly errno: number

  constructor(errno: number, message = `Error ${errno}`) {
    super(message)
    this.errno = errno
  }
}

interface Commit {
  /** The rows before it. */
  replaced: ReadonlyMap<string, StoredRow | undefined>
  machine: Machine | undefined
  /** Whether the machine knows of it. */
  isConfirmed: boolean
  isLost: boolean
}

const LOCK_WAIT_TIMEOUT = 1205
const DEADLOCK = 1213

/** What the connection that a server no longer has was sent. */
class EndedSession extends Error {}

/**
 * A database server in memory, with what the pipeline relies on: transactions with row locks that wait, deadlocks that
 * roll one back, sessions that roll back when they end, and COMMIT, which is durable unless a failover loses it.
 */
export class SimulatedServer {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly sessions = new Map<number, ServerSession>()
  /** Names of counters and sequence groups whose changes a trigger refuses. */
  readonly refused = new Set<string>()
  startedAt = -1_000_000
  /** The last that a counter or a sequence group got. */
  ids = 0
  isDown = false
  /** Whether sessions may end others: not behind some proxies. */
  mayKill = true
  #rows = new Map<string, StoredRow>()
  readonly #commits: Commit[] = []
  readonly #owners = new Map<string, ServerSession>()
  readonly #waiting = new Map<string, ServerSession[]>()
  #connections = 0

  constructor(scheduler: Scheduler, random: Random) {
    this.scheduler = scheduler
    this.random = random
  }

  get uptimeMs(): number {
    return this.scheduler.nowMs - this.startedAt
  }

  open(machine?: Machine): ServerSession {
    const session = new ServerSession(this, ++this.#connections, machine)
    this.sessions.set(session.id, session)
    return session
  }

  /** The last committed state of a row. */
  committed(key: string): StoredRow | undefined {
    return this.#rows.get(key)
  }

  commit(session: ServerSession): void {
    const { changes, unconfirmed } = session
    if (changes.size === 0) return
    const replaced = new Map([...changes.keys()].map((key) => [key, this.#rows.get(key)]))
    const commit = { replaced, machine: session.machine, isConfirmed: false, isLost: false }
    this.#commits.push(commit)
    unconfirmed.push(commit)
    this.#store(changes)
  }

  /** All rows whose keys begin so. */
  rowsOf(table: string): [key: string, row: StoredRow][] {
    return [...this.#rows].filter(([key]) => key.startsWith(`${table} `))
  }

  /** Ends, maybe without its last commits. Returns whether numbers have changed in one of these. */
  crash(lostCommits: number): boolean {
    this.isDown = true
    for (const session of [...this.sessions.values()]) session.end()
    const lost = lostCommits > 0 ? this.#commits.splice(-lostCommits).reverse() : []
    for (const { replaced } of lost) this.#store(replaced)
    // Ids are used again.
    if (lost.length > 0)
      this.ids = Math.max(
        0,
        ...['definition', 'group'].flatMap((table) =>
          this.rowsOf(table).map(([key]) => Number(key.split(' ')[1])),
        ),
      )
    // Of a fence that was only made or read, nobody needs to know.
    const changes = lost.filter(({ replaced }) =>
      [...replaced.keys()].some((key) => /^(counter|position) /.test(key)),
    )
    for (const commit of changes) {
      commit.isLost = true
      if (commit.isConfirmed) this.tellOfLoss(commit.machine)
    }
    return changes.length > 0
  }

  /** From now on this machine could know that the database lacks a commit. */
  tellOfLoss(machine: Machine | undefined): void {
    if (machine) machine.lostAt = Math.min(machine.lostAt, this.scheduler.nowMs)
  }

  start(): void {
    this.isDown = false
    this.startedAt = this.scheduler.nowMs
    this.#connections = 0
  }

  #store(changes: ReadonlyMap<string, StoredRow | undefined>): void {
    for (const [key, row] of changes) {
      if (row) this.#rows.set(key, row)
      else this.#rows.delete(key)
    }
  }

  /** Locks a row for a session, whether it exists or not. */
  lock(session: ServerSession, key: string, ifLocked: 'wait' | 'fail' | 'skip'): boolean | Promise<boolean> {
    const owner = this.#owners.get(key)
    if (!owner || owner === session) {
      this.#owners.set(key, session)
      session.locks.add(key)
      return true
    }
    if (ifLocked === 'skip') return false
    if (ifLocked === 'fail') throw new ServerError(LOCK_WAIT_TIMEOUT)
    for (let other: ServerSession | undefined = owner; other; other = this.#owners.get(other.waitsFor ?? ''))
      if (other === session) {
        session.rollBack()
        throw new ServerError(DEADLOCK)
      }
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(key) ?? []
      this.#waiting.set(key, waiting)
      waiting.push(session)
      session.waitsFor = key
      // InnoDB checks its waiters once a second.
      const limitMs = 1000 * (1 + this.random.fraction())
      const cancel = this.scheduler.after(limitMs, () =>
        session.stopWaiting(new ServerError(LOCK_WAIT_TIMEOUT)),
      )
      session.stopWaiting = (error) => {
        cancel()
        session.waitsFor = undefined
        session.stopWaiting = () => undefined
        waiting.splice(waiting.indexOf(session), 1)
        if (error) reject(error)
        else resolve(true)
      }
    })
  }

  unlock(session: ServerSession, key: string): void {
    session.locks.delete(key)
    const [next] = this.#waiting.get(key) ?? []
    if (!next) {
      this.#owners.delete(key)
      return
    }
    this.#owners.set(key, next)
    next.locks.add(key)
    next.stopWaiting()
  }
}

/** A session as the server has it. Its transaction sees what is committed, and its own changes. */
export class ServerSession {
  readonly id: number
  readonly server: SimulatedServer
  readonly machine: Machine | undefined
  readonly unconfirmed: Commit[] = []
  readonly locks = new Set<string>()
  readonly changes = new Map<string, StoredRow | undefined>()
  /** The row that it waits for. */
  waitsFor: string | undefined
  stopWaiting: (error?: Error) => void = () => undefined
  isEnded = false
  isInTransaction = false
  lastInsertId = 0
  /** The variable in which a statement collects values. */
  found = ''
  /** When it last did something. */
  usedAt: number
  isRunning = false
  #last: Promise<unknown> = Promise.resolve()

  constructor(server: SimulatedServer, id: number, machine: Machine | undefined) {
    this.server = server
    this.id = id
    this.machine = machine
    this.usedAt = server.scheduler.nowMs
  }

  read(key: string): StoredRow | undefined {
    return this.changes.has(key) ? this.changes.get(key) : this.server.committed(key)
  }

  write(key: string, row: StoredRow | undefined): void {
    this.changes.set(key, row)
  }

  lock(key: string, ifLocked: 'wait' | 'fail' | 'skip' = 'wait'): boolean | Promise<boolean> {
    return this.server.lock(this, key, ifLocked)
  }

  commit(): void {
    this.server.commit(this)
    this.rollBack()
  }

  /** Its answer hides a value, so it counts as committed only when that was read. */
  isHidden = false

  /** The answers to all that it has executed have arrived. */
  confirm(): void {
    if (this.isHidden) {
      this.isHidden = false
      return
    }
    for (const commit of this.unconfirmed.splice(0)) {
      commit.isConfirmed = true
      if (commit.isLost) this.server.tellOfLoss(this.machine)
    }
  }

  /** Ends the transaction. */
  rollBack(): void {
    this.isInTransaction = false
    this.changes.clear()
    for (const key of [...this.locks]) this.server.unlock(this, key)
  }

  end(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.server.sessions.delete(this.id)
    this.stopWaiting(new EndedSession())
    this.rollBack()
  }

  /**
   * Executes a text when those before it are done. Undefined: the session has ended.
   *
   * @param conflictAt the statement at which the transaction is rolled back in favour of another
   */
  run(statements: readonly string[], conflictAt = -1): Promise<Answer[] | FailedStatement | undefined> {
    const running = this.#last.then(() => this.#run(statements, conflictAt))
    this.#last = running
    return running
  }

  async #run(statements: readonly string[], conflictAt: number) {
    const answers: Answer[] = []
    this.isRunning = true
    for (const [index, statement] of statements.entries()) {
      // Other sessions may come in between.
      if (this.server.random.below(8) === 0)
        await this.server.scheduler.pause(this.server.random.fraction() / 10)
      if (this.isEnded) return undefined
      try {
        if (index === conflictAt) {
          this.rollBack()
          throw new ServerError(DEADLOCK)
        }
        answers.push(await answerTo(this, statement))
        // It may have ended while it waited for a lock.
        if (this.isEnded) return undefined
      } catch (error) {
        if (error instanceof EndedSession) return undefined
        if (!(error instanceof ServerError)) throw error
        if (!this.isInTransaction) this.rollBack()
        this.#rest()
        return new FailedStatement(index, error)
      }
      if (!this.isInTransaction) this.commit()
    }
    this.#rest()
    return answers
  }

  #rest(): void {
    this.isRunning = false
    this.usedAt = this.server.scheduler.nowMs
  }
}
