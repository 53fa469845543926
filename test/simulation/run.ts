import { checkHistory } from '../history/check.ts'
import type { CallRecord } from '../history/history.ts'
import { mulberry32 } from '../support/mulberry32.ts'
import { SimulatedServer } from './database.ts'
import { type Plan, SEQUENCE, shortened } from './plan.ts'
import { type Breakage, type NthProcess, openProcess } from './process.ts'
import { Scheduler } from './scheduler.ts'

/*
 * Simulation of the commit pipeline: several processes of Nth, each with its own group commit, on one simulated database,
 * clock and network, with everything that the code says may go wrong. A run is a function of its seed.
 *
 * Real are `commit`, from the group commit down to the texts that a writer sends, the fence and the row cache, `rules`, and
 * of `mysql` the reconnecting session and the failover detector. Simulated are time, the network, and a server that
 * understands these texts by their shape (`statements.ts`).
 *
 * This does not cover SQL: how a real server executes these statements, its locks and their order, its snapshots, and the
 * certification and replication of a cluster; nor periods, slots, subjects, reservations, definitions of sequences, HTTP and GraphQL.
 * Those have tests on real servers.
 */

export interface Run {
  plan: Plan
  history: CallRecord[]
  /** What is wrong with it. */
  faults: string[]
  /** Parts of the history that were checked, and for how many of them the search gave up. */
  components: number
  givenUp: number
}

/** After its deadline, when a call is answered at the latest: its process may have been frozen. */
const LATEST_MS = 15_000
/** What is still on its way arrives, or its session has ended. */
const ARRIVAL_MS = 3500
/** How long a search of the checker may take: some 50 ms. */
const LIMIT = 10_000

/** Runs a plan. */
export async function runPlan(plan: Plan, breakage: Breakage = {}): Promise<Run> {
  // The plan has used the first numbers of the seed.
  const random = mulberry32(plan.seed ^ 0x5eed)
  const scheduler = new Scheduler()
  const server = new SimulatedServer(scheduler, random)
  server.mayKill = plan.mayKill
  const faults: string[] = []
  const losses: { id: number; what: string; isAccepted: boolean }[] = []
  const options = { ...plan, ...breakage, server, losses, onFault: (error: unknown) => note(error) }
  const processes = Array.from({ length: plan.processes }, () => openProcess(options))
  const history: CallRecord[] = []
  /** The processes that have to answer, one for each call. */
  const unanswered = new Map<CallRecord, NthProcess>()
  let callers = 0
  /** When commits were lost. From then on, numbers may be issued again, until somebody notices. */
  let lostAt = Number.POSITIVE_INFINITY

  function note(error: unknown): void {
    const text =
      error instanceof Error ? `${error.message}${error.cause ? `: ${error.cause}` : ''}` : String(error)
    // What an operator hears of faults that are planned.
    if (!/lacks changes|^Error 1644|finds no row/.test(text)) faults.push(text)
  }

  async function call(process: NthProcess, operation: CallRecord['operation']): Promise<void> {
    const sentAt = scheduler.nowMs
    const record: CallRecord = {
      caller: String(++callers),
      operation,
      sentAt,
      answeredAt: null,
      outcome: { kind: 'unknown' },
    }
    const isWhole = lostAt === Number.POSITIVE_INFINITY
    if (isWhole) history.push(record)
    unanswered.set(record, process)
    // Its machine may be frozen, or die.
    await new Promise<void>((resolve) => scheduler.after(0, resolve, process.machine))
    const outcome = await process.call(operation)
    unanswered.delete(record)
    const couldKnow = process.machine.lostAt < sentAt
    if (couldKnow && outcome.kind === 'answered' && !isRead(operation))
      faults.push(`Commits were lost that it knew of, but it answered ${JSON.stringify(operation)}`)
    // What it answered since may have been lost: the call is one of unknown outcome.
    if (lostAt < Number.POSITIVE_INFINITY) return
    if (outcome.kind !== 'unknown') record.answeredAt = scheduler.nowMs
    record.outcome = outcome
    if (process.machine.frozenUntil === 0 && scheduler.nowMs > sentAt + plan.timeoutMs + 2500)
      faults.push(`It answered after ${scheduler.nowMs - sentAt} ms: ${JSON.stringify(operation)}`)
  }

  for (const { at, process, operation } of plan.calls)
    scheduler.after(at, () => {
      const target = processes[process]
      if (target) void call(target, operation)
    })
  for (const fault of plan.faults) scheduler.after(fault.at, () => happen(fault))

  function happen(fault: Plan['faults'][number]): void {
    const process = 'process' in fault ? processes[fault.process] : undefined
    switch (fault.kind) {
      case 'trip':
        process?.faults.push(fault.trip)
        return
      case 'freeze':
        if (process) process.machine.frozenUntil = scheduler.nowMs + fault.forMs
        return
      case 'cut':
        if (process) process.machine.cutUntil = scheduler.nowMs + fault.forMs
        return
      case 'clock':
        if (process) process.machine.clockErrorMs = fault.byMs
        return
      case 'death': {
        if (!process) return
        process.machine.isDead = true
        if (fault.hasPower)
          for (const session of server.sessions.values())
            if (session.machine === process.machine) void session.run([]).then(() => session.end())
        scheduler.after(200, () => {
          processes[fault.process] = openProcess(options)
        })
        return
      }
      case 'failover':
        if (server.isDown) return
        if (server.crash(fault.lostCommits)) lostAt = Math.min(lostAt, scheduler.nowMs)
        scheduler.after(fault.forMs, () => server.start())
        return
      case 'lock': {
        const group = server.committed(`groupName ${fault.name}`)
        const id = (group ?? server.committed(`name ${fault.name}`))?.id
        const session = server.open()
        const locking = session.lock(`${group ? 'position' : 'counter'} ${id}`)
        void Promise.resolve(locking).catch(() => undefined)
        scheduler.after(fault.forMs, () => session.end())
        return
      }
      case 'trigger':
        server.refused.add(fault.name)
        scheduler.after(fault.forMs, () => server.refused.delete(fault.name))
    }
  }

  const isAnswered = () => [...unanswered.values()].every(({ machine }) => machine.isDead)
  const lastAt = Math.max(0, ...plan.calls.map(({ at }) => at), ...plan.faults.map(({ at }) => at))
  await scheduler.runUntil(lastAt)
  await scheduler.runUntil(lastAt + plan.timeoutMs + LATEST_MS, isAnswered)
  await scheduler.runUntil(scheduler.nowMs + ARRIVAL_MS)
  if (lostAt === Number.POSITIVE_INFINITY) {
    const operations = plan.calls.map(({ operation }) => operation)
    const named = operations.flatMap((each) => ('name' in each && !('group' in each) ? each.name : []))
    const groups = operations.flatMap((each) => ('group' in each ? (each.group ?? '') : []))
    const [reader] = processes
    if (reader) void call(reader, { kind: 'counters', names: [...new Set(named)] })
    for (const group of new Set(groups))
      if (reader) void call(reader, { kind: 'sequenceGroup', name: SEQUENCE, group })
    await scheduler.runUntil(scheduler.nowMs + plan.timeoutMs + LATEST_MS, isAnswered)
    for (const [key, { results }] of server.rowsOf('key'))
      if (results === null) faults.push(`A call that was refused, or that is none, keeps ${key}`)
  }
  if (!isAnswered()) faults.push(`Calls are not answered: ${JSON.stringify([...unanswered.keys()])}`)
  const { faults: found, components, givenUp } = checkHistory(history, { limit: LIMIT })
  for (const { message, call } of found) faults.push(`${message}: ${JSON.stringify(call)}`)
  return { plan, history, faults, components, givenUp: givenUp.length }
}

function isRead({ kind }: CallRecord['operation']): boolean {
  return kind === 'counters' || kind === 'sequenceGroup'
}

/** A run of the shortest plan that is left of one that fails; undefined if it doesn't. */
export async function shortestFailure(plan: Plan, breakage?: Breakage): Promise<Run | undefined> {
  const fails = async (each: Plan) => (await runPlan(each, breakage)).faults.length > 0
  return (await fails(plan)) ? runPlan(await shortened(plan, fails), breakage) : undefined
}

/** A run as a text for people. */
export function textOf({ plan, history, faults }: Run): string {
  const { calls, faults: planned, ...network } = plan
  const lines = [...planned.toSorted((a, b) => a.at - b.at), ...history].map((each) => JSON.stringify(each))
  return [...faults, JSON.stringify(network), ...lines].join('\n')
}
