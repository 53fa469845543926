import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { type Notices, SILENT } from '../operations/log.ts'
import {
  failureOf,
  isLockout,
  MisconfiguredDatabaseError,
  reasonOf,
  UnusableDatabaseError,
  withTimeout,
} from './errors.ts'
import {
  type ChoiceRules,
  choose,
  type HostAnswer,
  PartedClusterError,
  problemOf,
  readStatusOn,
  type ServerStatus,
} from './hostStatus.ts'
import { hostOf, openConnection, type Target, type Targets } from './settings.ts'

/** The server that was chosen, until another one is, or none. */
export type Host = Awaited<ReturnType<Hosts['current']>>

/** Why a server could not be used at the last query. */
interface Problem {
  /** `silent`: it did not answer, or not as it should. `denying`: it would do so again, as it denies access or a right. */
  kind: 'unusable' | 'silent' | 'denying'
  text: string
}

/** Time limit for asking a server, in milliseconds. */
const ASK_LIMIT_MS = 1000
/** Least time between two rounds, however many callers find that none can be used. */
const ASK_LEAST_MS = 100
/** How often all servers are queried while nothing fails, and while an answer is awaited. */
const ASK_AGAIN_MS = 5000
const ASK_SOON_MS = 500
/** How long, and how often, a change of a cluster is waited for that some of its members don't see yet. */
const VIEW_CHANGE_MS = 300
const VIEW_CHANGES = 3

/**
 * The server that all connections of a process lead to: one of those in its list, by the rules of `hostStatus.ts`.
 *
 * States: one is chosen, or none. A failure on a connection to it, and every few seconds the server's own word, ends the
 * choice; the next connection queries all servers. The servers of a cluster are queried every few seconds also while
 * nothing fails: a server that has left its cluster may serve as before.
 */
export class Hosts {
  readonly targets: Targets
  readonly #isOne: boolean
  readonly #rules: ChoiceRules
  readonly #notices: Notices
  #chosen: Target | undefined
  /** The one that was chosen last. */
  #latest: Target | undefined
  #latestView: string | undefined
  /** Aborted when connections that were opened before must not be used any more. */
  #use = createSignal()
  #choosing: Promise<Target> | undefined
  readonly #problems = new Map<Target, Problem>()
  #askedAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  constructor(targets: Targets, notices: Notices = SILENT) {
    this.targets = targets
    this.#isOne = targets.length === 1
    this.#rules = { hosts: targets.length, cluster: undefined }
    this.#notices = notices
    if (this.#isOne) this.#chosen = this.#latest = targets[0]
  }

  /**
   * The server to connect to.
   *
   * @throws {UnusableDatabaseError} if there is none
   */
  async current() {
    const target = this.#chosen ?? (await this.choose())
    const { signal } = this.#use
    return {
      target,

      /** Whether connections to it must not be used any more. */
      isLeft: () => signal.aborted,

      /**
       * Takes what it says of itself on a new connection.
       *
       * @throws {UnusableDatabaseError} if it must not be used
       */
      check: (status: ServerStatus): void => {
        const problem = problemOf(status, this.#rules)
        if (problem)
          throw new UnusableDatabaseError(`The database server ${hostOf(target)} can't be used: ${problem}`)
        this.#reached(status)
      },

      /**
       * Waits for its answer. While that takes long, all servers are queried repeatedly: another one may have taken
       * over.
       *
       * @throws {LostAnswerError} if there is none in time, or if it is left meanwhile
       */
      answer: <T>(timeLimitMs: number, promise: Promise<T>): Promise<T> => {
        const answered = withTimeout(timeLimitMs, promise, signal)
        // Most servers stand alone: there is nothing to check meanwhile.
        if (!this.#timer) return answered
        const repeat = setInterval(() => {
          if (performance.now() - this.#askedAt >= ASK_SOON_MS) this.#askAgain()
        }, ASK_SOON_MS)
        return answered.finally(() => clearInterval(repeat))
      },

      /** Called when it failed: all are queried before the next connection. */
      failed: (): void => {
        if (!this.#isOne && !signal.aborted) this.#chosen = undefined
      },
    }
  }

  /**
   * Checks all servers, also if there is only one. Callers at the same time share one answer. It throws the same errors, and
   * the error of a single server that doesn't answer.
   */
  choose(): Promise<Target> {
    this.#choosing ??= this.#askAndChoose()
      .catch((error) => this.#endChoice(error))
      .finally(() => {
        this.#choosing = undefined
      })
    return this.#choosing
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #askAndChoose(): Promise<Target> {
    for (let changes = 0; ; changes++) {
      const usable = await this.#askAll()
      if (usable.length === 0) throw this.#noneUsable()
      try {
        return this.#take(choose(usable, this.#latest, this.#rules))
      } catch (error) {
        if (!(error instanceof PartedClusterError) || changes === VIEW_CHANGES) throw error
        await pause(VIEW_CHANGE_MS)
      }
    }
  }

  #take({ target, status }: HostAnswer): Target {
    this.#reached(status)
    const isOtherView = this.#latestView !== undefined && status.view !== this.#latestView
    // A node of Galera may never answer what was sent to it while its cluster formed again.
    if (target !== this.#latest || isOtherView) this.#leave()
    this.#latestView = status.view
    if (target !== this.#latest) this.#notices.warn(`Nth uses the database server ${hostOf(target)}.`)
    this.#latest = target
    this.#chosen = target
    return target
  }

  /** Connections that were opened before must not be used any more. */
  #leave(): void {
    this.#use.abort()
    this.#use = createSignal()
  }

  #reached({ cluster }: ServerStatus): void {
    this.#rules.cluster ??= cluster
    if (cluster !== '') this.#timer ??= setInterval(() => this.#askAgain(), ASK_AGAIN_MS).unref()
  }

  #askAgain(): void {
    this.choose().catch(() => undefined)
  }

  /**
   * Leaves the server in use if no server may be used by what they answered: one that has left its cluster may serve as
   * before. One that is down, or busy, shows in what is sent to it.
   */
  #endChoice(error: unknown): never {
    if (error instanceof UnusableDatabaseError && !(this.#latest && this.#isSilent(this.#latest))) {
      this.#leave()
      if (!this.#isOne) this.#chosen = undefined
    }
    throw error
  }

  /**
   * Checks all servers at once, and returns those that may be used. In a cluster, one that did not answer the last time is
   * not waited for: its members speak for it by their majority.
   *
   * @throws the error of the only one, if it doesn't answer
   */
  async #askAll(): Promise<HostAnswer[]> {
    await pause(Math.max(0, this.#askedAt + ASK_LEAST_MS - performance.now()))
    this.#askedAt = performance.now()
    const usableAmong = async (answers: Promise<HostAnswer | undefined>[]) =>
      (await Promise.all(answers)).filter((answer) => answer !== undefined)
    const answering = this.targets.map((target) => !this.#isSilent(target))
    const answers = this.targets.map((target) => this.#usable(target))
    const usable = await usableAmong(answers.filter((_, index) => answering[index]))
    return usable.some(({ status }) => status.cluster !== '') ? usable : usableAmong(answers)
  }

  /** What a server says of itself, if it may be used. */
  async #usable(target: Target): Promise<HostAnswer | undefined> {
    try {
      const status = await statusOf(target)
      const text = problemOf(status, this.#rules)
      if (text !== undefined) return this.#passOver(target, { kind: 'unusable', text })
      this.#problems.delete(target)
      return { target, status }
    } catch (error) {
      // With one there is nothing to choose: its own error says most.
      if (this.#isOne) throw error
      const kind = isLockout(error) || failureOf(error) === 'fault' ? 'denying' : 'silent'
      return this.#passOver(target, { kind, text: reasonOf(error) })
    }
  }

  /** Reports a server that is passed over for another reason than before. */
  #passOver(target: Target, problem: Problem): undefined {
    const isNew = problem.text !== this.#problems.get(target)?.text
    this.#problems.set(target, problem)
    if (!this.#isOne && isNew)
      this.#notices.warn(`Nth does not use the database server ${hostOf(target)}: ${problem.text}.`)
  }

  #isSilent(target: Target): boolean {
    return ['silent', 'denying'].includes(this.#problems.get(target)?.kind ?? '')
  }

  /** Called when each has a problem. */
  #noneUsable(): UnusableDatabaseError {
    const problems = this.targets.map((target) => `${hostOf(target)}: ${this.#problems.get(target)?.text}`)
    const isDenied = this.targets.every((target) => this.#problems.get(target)?.kind === 'denying')
    const UnusableError = isDenied ? MisconfiguredDatabaseError : UnusableDatabaseError
    return new UnusableError(`No database server can be used (${problems.join('; ')})`)
  }
}

/** Reads the status of a server, whose database may not exist yet. */
async function statusOf(target: Target): Promise<ServerStatus> {
  const { database: _, ...server } = target
  const connection = await openConnection(server, { connectTimeoutMs: ASK_LIMIT_MS })
  try {
    return await withTimeout(ASK_LIMIT_MS, readStatusOn(connection))
  } finally {
    // In order, and not awaited: a server logs those that are only cut off.
    withTimeout(ASK_LIMIT_MS, connection.end()).catch(() => connection.destroy())
  }
}

function createSignal(): AbortController {
  const controller = new AbortController()
  // Each answer that is awaited has a listener.
  setMaxListeners(0, controller.signal)
  return controller
}
