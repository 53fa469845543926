import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import { select } from '../select.ts'
import { reasonOf, UnusableDatabaseError } from './errors.ts'
import { connectionOptions } from './settings.ts'
import { readStanding, type Standing } from './standing.ts'
import { hostOf, type Target, type Targets } from './target.ts'
import { withTimeout } from './timeout.ts'

/**
 * Chooses the server that all connections of a process use, of those that its database has.
 *
 * Every process chooses alike from the same answers, and asks again and again: on servers that are not a cluster, two
 * processes that write to different servers would each number on by themselves.
 */
export type Hosts = ReturnType<typeof openHosts>

export interface HostsOptions {
  /** Whether commits may be lost: by replicas that were behind, and by databases that went back in time. */
  acceptsLostCommits?: boolean | undefined
  /** Called with what an operator should know of a host, as a sentence. */
  say?: ((message: string) => void) | undefined
}

/** Time limit for asking a server, in milliseconds. */
const ASK_LIMIT_MS = 1000
/** How often the servers are asked again while nothing fails. */
const ASK_AGAIN_MS = 5000
/** Servers learn of a change of their cluster one after another. */
const VIEW_CHANGE_MS = 300
const VIEW_CHANGES = 3

interface Asked {
  target: Target
  standing: Standing
}

export function openHosts(
  targets: Targets,
  { acceptsLostCommits = false, say = () => undefined }: HostsOptions = {},
) {
  const isOne = targets.length === 1
  /** Used, unless it failed since it was chosen. */
  let chosen: Target | undefined = isOne ? targets[0] : undefined
  let latest = chosen
  let version = 0
  /** The cluster that was first reached. */
  let cluster: string | undefined
  let choosing: Promise<Target> | undefined
  const passedOver = new Map<Target, string>()
  let timer: NodeJS.Timeout | undefined

  /** Why a server must not be used; undefined: it may. */
  function problemOf({ cluster: its, problem, members, known, isReadOnly }: Standing): string | undefined {
    if (cluster !== undefined && its !== cluster && !acceptsLostCommits)
      return its === '' ? 'it has left its cluster' : 'it is in another cluster than before'
    if (problem) return problem
    if (its !== '' && members * 2 <= Math.max(known, targets.length))
      return `its cluster has ${members} of ${Math.max(known, targets.length)} members, which is no majority`
    // One that is alone can still be read.
    if (isReadOnly && !(isOne && its === '')) return 'it is read-only'
    return undefined
  }

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
      connection.destroy()
    }
  }

  function note(target: Target, problem: string | undefined): void {
    const before = passedOver.get(target)
    if (problem === undefined) passedOver.delete(target)
    else passedOver.set(target, problem)
    if (!isOne && problem !== undefined && problem !== before)
      say(`The database server ${hostOf(target)} is not used: ${problem}.`)
  }

  async function askAll(): Promise<Asked[]> {
    const answers = await Promise.allSettled(targets.map(ask))
    return answers.flatMap((answer, index) => {
      const target = targets[index] as Target
      const isAnswer = answer.status === 'fulfilled'
      const problem = isAnswer ? problemOf(answer.value.standing) : reasonOf(answer.reason)
      note(target, problem)
      // With one there is nothing to choose: its own error says most.
      if (isOne && !isAnswer) throw answer.reason
      return isAnswer && problem === undefined ? [answer.value] : []
    })
  }

  async function choose(): Promise<Target> {
    for (let changes = 0; ; changes++) {
      const usable = await askAll()
      const clustered = usable.filter(({ standing }) => standing.cluster !== '')
      const views = new Set(clustered.map(({ standing }) => `${standing.cluster} ${standing.view}`))
      if (views.size <= 1) return take(clustered.length > 0 ? clustered : onlyOne(usable))
      const hosts = clustered.map(({ target }) => hostOf(target)).join(', ')
      if (changes === VIEW_CHANGES)
        throw new UnusableDatabaseError(`The database servers ${hosts} are in clusters that have parted`)
      await pause(VIEW_CHANGE_MS)
    }
  }

  /** Of servers that are not in a cluster, one must be writable: with two, numbers would be issued twice. */
  function onlyOne(usable: Asked[]): Asked[] {
    if (usable.length === 0) {
      const problems = targets.map((target) => `${hostOf(target)}: ${passedOver.get(target)}`)
      throw new UnusableDatabaseError(`No database server can be used (${problems.join('; ')})`)
    }
    if (isOne) return usable
    if (!acceptsLostCommits) throw new UnusableDatabaseError(NO_CLUSTER, { isFinal: true })
    if (usable.length === 1) return usable
    const hosts = usable.map(({ target }) => hostOf(target)).join(', ')
    throw new UnusableDatabaseError(`The database servers ${hosts} are all writable, and not in a cluster`)
  }

  /** The one in use, if it may be; else the first. Those that are behind only if there is no other. */
  function take(usable: Asked[]): Target {
    const current = usable.filter(({ standing }) => !standing.isBehind)
    const best = current.length > 0 ? current : usable
    const { target, standing } = best.find(({ target }) => target === latest) ?? (best[0] as Asked)
    reached(standing)
    if (target !== latest) version++
    if (target !== latest && !isOne) say(`The database server ${hostOf(target)} is used.`)
    latest = target
    chosen = target
    return target
  }

  function reached(standing: Standing): void {
    cluster ??= standing.cluster
    if (standing.cluster !== '' || !isOne) watch()
  }

  function chooseOnce(): Promise<Target> {
    choosing ??= choose().finally(() => {
      choosing = undefined
    })
    return choosing
  }

  /** A server that is down shows in what is sent to it. One that has left its cluster may answer as before. */
  function watch(): void {
    timer ??= setInterval(() => {
      chooseOnce().catch((error) => {
        if (!(error instanceof UnusableDatabaseError)) return
        version++
        if (!isOne) chosen = undefined
      })
    }, ASK_AGAIN_MS).unref()
  }

  return {
    targets,
    acceptsLostCommits,

    /** Changes when connections that were opened before must not be used any more. */
    get version() {
      return version
    },

    /**
     * The server to connect to.
     *
     * @throws {UnusableDatabaseError} if there is none
     */
    current: async (): Promise<Target> => chosen ?? chooseOnce(),

    /** Asks all servers, also if there is only one. It throws the same errors, and that of one that doesn't answer. */
    choose: chooseOnce,

    /** Called with a server that failed: all are asked before the next connection. */
    suspect(target: Target): void {
      if (!isOne && target === chosen) chosen = undefined
    },

    /**
     * Called with what a server says on a new connection.
     *
     * @throws {UnusableDatabaseError} if it must not be used
     */
    check(target: Target, standing: Standing): void {
      const problem = problemOf(standing)
      if (problem)
        throw new UnusableDatabaseError(`The database server ${hostOf(target)} can't be used: ${problem}`)
      reached(standing)
    },

    close(): void {
      clearInterval(timer)
    },
  }
}

const NO_CLUSTER =
  'The database servers are not in a Galera cluster or replication group: when one takes over from another, it may lack commits, and their numbers are issued again. Set NTH_ACCEPT_LOST_COMMITS=1 to accept that, or give one server'
