import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { type Notices, SILENT } from '../../../core/notices.ts'
import { UnusableDatabaseError } from '../errors.ts'
import { hostOf, type Target, type Targets } from '../target.ts'
import { withTimeout } from '../timeout.ts'
import { createAsking } from './asking.ts'
import { type Asked, choose, PartedClusterError, problemOf } from './choice.ts'
import type { Standing } from './standing.ts'

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
  notices?: Notices | undefined
}

/** How often the servers are asked again while nothing fails, and while an answer is awaited. */
const ASK_AGAIN_MS = 5000
const ASK_SOON_MS = 500
/** How long, and how often, a change of a cluster is waited for that some of its members don't see yet. */
const VIEW_CHANGE_MS = 300
const VIEW_CHANGES = 3

export function openHosts(
  targets: Targets,
  { acceptsLostCommits = false, notices = SILENT }: HostsOptions = {},
) {
  const isOne = targets.length === 1
  let chosen: Target | undefined = isOne ? targets[0] : undefined
  let latest = chosen
  let latestView: string | undefined
  let used = createSignal()
  let choosing: Promise<Target> | undefined
  let timer: NodeJS.Timeout | undefined
  const rules = { hosts: targets.length, acceptsLostCommits, cluster: undefined as string | undefined }
  const asking = createAsking(targets, rules, notices)

  async function askAndChoose(): Promise<Target> {
    for (let changes = 0; ; changes++) {
      const usable = await asking.all()
      if (usable.length === 0) throw asking.noneUsable()
      try {
        return take(choose(usable, latest, rules))
      } catch (error) {
        if (!(error instanceof PartedClusterError) || changes === VIEW_CHANGES) throw error
        await pause(VIEW_CHANGE_MS)
      }
    }
  }

  function take({ target, standing }: Asked): Target {
    reached(standing)
    const { view } = standing
    // What a node of Galera was asked while its cluster found together again may stay unanswered.
    if (target !== latest || (latestView !== undefined && view !== latestView)) leave()
    latestView = view
    if (target !== latest) notices.warn(`The database server ${hostOf(target)} is used.`)
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

  function askAgain(): void {
    chooseOnce().catch(() => undefined)
  }

  function askSoon(): void {
    if (asking.pastMs >= ASK_SOON_MS) askAgain()
  }

  /** Callers at the same time share one answer. */
  function chooseOnce(): Promise<Target> {
    choosing ??= askAndChoose()
      .catch(endChoice)
      .finally(() => {
        choosing = undefined
      })
    return choosing
  }

  /**
   * Leaves the server in use if no server may be used by what they answered: one that has left its cluster may serve as
   * before. One that is down, or busy, shows in what is sent to it.
   */
  function endChoice(error: unknown): never {
    if (error instanceof UnusableDatabaseError && !(latest && asking.isSilent(latest))) {
      leave()
      if (!isOne) chosen = undefined
    }
    throw error
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
      answer(timeLimitMs, promise) {
        const answered = withTimeout(timeLimitMs, promise, signal)
        // Most servers stand alone: there is nothing to ask meanwhile.
        if (!timer) return answered
        const repeat = setInterval(askSoon, ASK_SOON_MS)
        return answered.finally(() => clearInterval(repeat))
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
