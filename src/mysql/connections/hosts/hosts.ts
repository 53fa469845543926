import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import { select } from '../../select.ts'
import { reasonOf, UnusableDatabaseError } from '../errors.ts'
import { connectionOptions } from '../settings.ts'
import { hostOf, type Target, type Targets } from '../target.ts'
import { withTimeout } from '../timeout.ts'
import { type Asked, choose, PartedClusterError, problemOf } from './choice.ts'
import { readStanding, type Standing } from './standing.ts'

/**
 * The server that all connections of a process lead to, of those that its database has: `choice.ts` has the rules.
 *
 * States: one is chosen, or none. A failure on a connection to it, and every few seconds the server's own word, ends the
 * choice; the next connection asks all servers. They are asked again and again also while nothing fails: on servers that
 * are not a cluster, two processes that write to different ones would each continue the numbers by themselves.
 */
export type Hosts = ReturnType<typeof openHosts>

/** The server that was chosen, until another one is, or none. */
export interface Host {
  readonly target: Target
  /** Whether connections to it must not be used any more. */
  isLeft(): boolean
  /**
   * Takes what it says of itself on a new connection.
   *
   * @throws {UnusableDatabaseError} if it must not be used
   */
  check(standing: Standing): void
  /**
   * Waits for its answer. While that takes long, all servers are asked again and again: another one may have taken over.
   *
   * @throws {LostAnswerError} if there is none in time, or if it is left meanwhile
   */
  answer<T>(timeLimitMs: number, promise: Promise<T>): Promise<T>
  /** Called when it failed: all are asked before the next connection. */
  failed(): void
}

export interface HostsOptions {
  /** Whether commits may be lost: by replicas that were behind, and by databases that went back in time. */
  acceptsLostCommits?: boolean | undefined
  /** Called with what an operator should know of a server, as a sentence. */
  say?: ((message: string) => void) | undefined
}

/** Time limit for asking a server, in milliseconds. */
const ASK_LIMIT_MS = 1000
/** How often the servers are asked again while nothing fails, and while an answer is awaited. */
const ASK_AGAIN_MS = 5000
const ASK_SOON_MS = 500
/** Least time between two rounds, however many callers find that none can be used. */
const ASK_LEAST_MS = 100
/** How long, and how often, a change of a cluster is waited for that some of its members don't see yet. */
const VIEW_CHANGE_MS = 300
const VIEW_CHANGES = 3

export function openHosts(
  targets: Targets,
  { acceptsLostCommits = false, say = () => undefined }: HostsOptions = {},
) {
  const isOne = targets.length === 1
  let chosen: Target | undefined = isOne ? targets[0] : undefined
  let latest = chosen
  let latestView: string | undefined
  let used = createSignal()
  let choosing: Promise<Target> | undefined
  let timer: NodeJS.Timeout | undefined
  let askedAt = Number.NEGATIVE_INFINITY
  /** Why servers are not used. */
  const passedOver = new Map<Target, string>()
  /** Those that did not answer when they were last asked. */
  const silent = new Set<Target>()
  const rules = { hosts: targets.length, acceptsLostCommits, cluster: undefined as string | undefined }

  /** Asks a server, whose database may not exist yet. */
  async function ask(target: Target): Promise<Asked> {
    const { database: _, ...server } = connectionOptions(target, ASK_LIMIT_MS)
    const connection = await createConnection(server)
    // Without a listener, the loss of a connection would end the process.
    connection.on('error', () => undefined)
    try {
      const reading = readStanding((statement) => select(connection, statement))
      return { target, standing: await withTimeout(ASK_LIMIT_MS, reading) }
    } finally {
      // In order, and not awaited: a server logs those that are only cut off.
      withTimeout(ASK_LIMIT_MS, connection.end()).catch(() => connection.destroy())
    }
  }

  /**
   * The servers that may be used. In a cluster, one that did not answer the last time is not waited for: its members speak
   * for it by their majority.
   */
  async function askAll(): Promise<Asked[]> {
    await pause(Math.max(0, askedAt + ASK_LEAST_MS - performance.now()))
    askedAt = performance.now()
    const asked = targets.map((target) => ({ isAwaited: !silent.has(target), answer: usableOf(target) }))
    const usableAmong = async (some: typeof asked) =>
      (await Promise.all(some.map(({ answer }) => answer))).filter((usable) => usable !== undefined)
    const usable = await usableAmong(asked.filter(({ isAwaited }) => isAwaited))
    return usable.some(({ standing }) => standing.cluster !== '') ? usable : usableAmong(asked)
  }

  /** Its answer, if it may be used. */
  async function usableOf(target: Target): Promise<Asked | undefined> {
    try {
      const asked = await ask(target)
      silent.delete(target)
      const problem = problemOf(asked.standing, rules)
      note(target, problem)
      return problem === undefined ? asked : undefined
    } catch (error) {
      // With one there is nothing to choose: its own error says most.
      if (isOne) throw error
      silent.add(target)
      note(target, reasonOf(error))
      return undefined
    }
  }

  function note(target: Target, problem: string | undefined): void {
    const before = passedOver.get(target)
    if (problem === undefined) passedOver.delete(target)
    else passedOver.set(target, problem)
    if (!isOne && problem !== undefined && problem !== before)
      say(`The database server ${hostOf(target)} is not used: ${problem}.`)
  }

  async function askAndChoose(): Promise<Target> {
    for (let changes = 0; ; changes++) {
      const usable = await askAll()
      if (usable.length === 0) throw noneUsable()
      try {
        return take(choose(usable, latest, rules))
      } catch (error) {
        if (!(error instanceof PartedClusterError) || changes === VIEW_CHANGES) throw error
        await pause(VIEW_CHANGE_MS)
      }
    }
  }

  function noneUsable(): UnusableDatabaseError {
    const problems = targets.map((target) => `${hostOf(target)}: ${passedOver.get(target)}`)
    return new UnusableDatabaseError(`No database server can be used (${problems.join('; ')})`)
  }

  function take({ target, standing }: Asked): Target {
    reached(standing)
    const { view } = standing
    // What a node of Galera was asked while its cluster found together again may stay unanswered.
    if (target !== latest || (latestView !== undefined && view !== latestView)) leave()
    latestView = view
    if (target !== latest) {
      say(`The database server ${hostOf(target)} is used.`)
    }
    latest = target
    chosen = target
    return target
  }

  /** Connections that were opened before must not be used any more. */
  function leave(): void {
    used.abort()
    used = createSignal()
  }

  function reached(standing: Standing): void {
    rules.cluster ??= standing.cluster
    if (standing.cluster !== '' || !isOne) timer ??= setInterval(askAgain, ASK_AGAIN_MS).unref()
  }

  /** One that has left its cluster may answer as before. One that is down, or busy, shows in what is sent to it. */
  function askAgain(): void {
    chooseOnce().catch((error) => {
      const isAnswer = error instanceof UnusableDatabaseError && !(latest && silent.has(latest))
      if (!isAnswer) return
      leave()
      if (!isOne) chosen = undefined
    })
  }

  function askSoon(): void {
    if (performance.now() - askedAt >= ASK_SOON_MS) askAgain()
  }

  /** Callers at the same time share one answer. */
  function chooseOnce(): Promise<Target> {
    choosing ??= askAndChoose().finally(() => {
      choosing = undefined
    })
    return choosing
  }

  function hostAt(target: Target): Host {
    const { signal } = used
    return {
      target,
      isLeft: () => signal.aborted,
      check(standing) {
        const problem = problemOf(standing, rules)
        if (problem)
          throw new UnusableDatabaseError(`The database server ${hostOf(target)} can't be used: ${problem}`)
        reached(standing)
      },
      async answer(timeLimitMs, promise) {
        const asking = timer && setInterval(askSoon, ASK_SOON_MS)
        return withTimeout(timeLimitMs, promise, signal).finally(() => clearInterval(asking))
      },
      failed() {
        if (!isOne && !signal.aborted) chosen = undefined
      },
    }
  }

  return {
    targets,

    /**
     * The server to connect to.
     *
     * @throws {UnusableDatabaseError} if there is none
     */
    current: async (): Promise<Host> => hostAt(chosen ?? (await chooseOnce())),

    /** Asks all servers, also if there is only one. It throws the same errors, and that of one that doesn't answer. */
    choose: chooseOnce,

    close(): void {
      clearInterval(timer)
    },
  }
}

function createSignal(): AbortController {
  const controller = new AbortController()
  // One for each answer that is awaited.
  setMaxListeners(0, controller.signal)
  return controller
}
