import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { Notices } from '../../../core/notices.ts'
import { select } from '../../select.ts'
import { failureOf, isLockout, reasonOf, UnusableDatabaseError } from '../errors.ts'
import { connectionOptions, sendSettings } from '../settings.ts'
import { hostOf, type Target, type Targets } from '../target.ts'
import { withTimeout } from '../timeout.ts'
import { type Asked, type ChoiceRules, problemOf } from './choice.ts'
import { readStanding } from './standing.ts'

/** Time limit for asking a server, in milliseconds. */
const ASK_LIMIT_MS = 1000
/** Least time between two rounds, however many callers find that none can be used. */
const ASK_LEAST_MS = 100

/**
 * Asks the servers of a database what they say of themselves, all at once.
 *
 * @param notices get a warning when one is passed over for another reason than before
 */
export function createAsking(targets: Targets, rules: ChoiceRules, notices: Notices) {
  const isOne = targets.length === 1
  let askedAt = Number.NEGATIVE_INFINITY
  /** Why servers are not used. */
  const passedOver = new Map<Target, string>()
  /** Those that did not answer when they were last asked, or not as they should. */
  const silent = new Set<Target>()
  /** Those of them that would answer the same again: they denied access, or a right is missing. */
  const denying = new Set<Target>()

  /** Its answer, if it may be used. */
  async function usableOf(target: Target): Promise<Asked | undefined> {
    try {
      const asked = await ask(target)
      silent.delete(target)
      denying.delete(target)
      const problem = problemOf(asked.standing, rules)
      note(target, problem)
      return problem === undefined ? asked : undefined
    } catch (error) {
      // With one there is nothing to choose: its own error says most.
      if (isOne) throw error
      silent.add(target)
      if (isLockout(error) || failureOf(error) === 'fault') denying.add(target)
      else denying.delete(target)
      note(target, reasonOf(error))
      return undefined
    }
  }

  function note(target: Target, problem: string | undefined): void {
    const before = passedOver.get(target)
    if (problem === undefined) passedOver.delete(target)
    else passedOver.set(target, problem)
    if (!isOne && problem !== undefined && problem !== before)
      notices.warn(`The database server ${hostOf(target)} is not used: ${problem}.`)
  }

  return {
    /**
     * Returns those that may be used. In a cluster, one that did not answer the last time is not waited for: its members
     * speak for it by their majority.
     *
     * @throws the error of the only one, if it doesn't answer
     */
    async all(): Promise<Asked[]> {
      await pause(Math.max(0, askedAt + ASK_LEAST_MS - performance.now()))
      askedAt = performance.now()
      const asked = targets.map((target) => ({ isAwaited: !silent.has(target), answer: usableOf(target) }))
      const usableAmong = async (some: typeof asked) =>
        (await Promise.all(some.map(({ answer }) => answer))).filter((usable) => usable !== undefined)
      const usable = await usableAmong(asked.filter(({ isAwaited }) => isAwaited))
      return usable.some(({ standing }) => standing.cluster !== '') ? usable : usableAmong(asked)
    },

    /** How long ago they were last asked, in milliseconds. */
    get pastMs() {
      return performance.now() - askedAt
    },

    /** Whether a server did not answer when it was last asked. */
    isSilent: (target: Target) => silent.has(target),

    noneUsable(): UnusableDatabaseError {
      const problems = targets.map((target) => `${hostOf(target)}: ${passedOver.get(target)}`)
      return new UnusableDatabaseError(`No database server can be used (${problems.join('; ')})`, {
        isFinal: targets.every((target) => denying.has(target)),
      })
    },
  }
}

/** Asks a server, whose database may not exist yet. */
async function ask(target: Target): Promise<Asked> {
  const { database: _, ...server } = connectionOptions(target, ASK_LIMIT_MS)
  const connection = await createConnection(server)
  // Without a listener, the loss of a connection would end the process.
  connection.on('error', () => undefined)
  try {
    const reading = sendSettings(connection).then(() =>
      readStanding((statement) => select(connection, statement)),
    )
    return { target, standing: await withTimeout(ASK_LIMIT_MS, reading) }
  } finally {
    // In order, and not awaited: a server logs those that are only cut off.
    withTimeout(ASK_LIMIT_MS, connection.end()).catch(() => connection.destroy())
  }
}
