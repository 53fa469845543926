import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { checkHistory } from '../history/check.ts'
import { type CallRecord, lineOf } from '../history/history.ts'
import { createRecorder } from '../history/recorder.ts'
import { summaryOf, writeFaults } from '../history/report.ts'
import { audit } from './audit.ts'
import type { Checks } from './checks.ts'
import type { Node } from './engine.ts'
import { causeFault, type FaultKind, isPossible, type Scene, writingNodes } from './faultKinds.ts'
import { createJournal, type Journal, NO_FAULT } from './journal.ts'
import { startLoad } from './load.ts'
import { queryNode, untilWhole } from './nodes.ts'
import type { Options } from './options.ts'
import { send } from './request.ts'

export interface Reporting {
  checks: Checks
  print(line: string): void
  /** Aborted when the run is to end early. */
  signal: AbortSignal
}

/** Normal load before the next fault, and the part of it that belongs to the one before. */
const NORMAL_MS = 5000
const AFTERMATH_MS = 3000

/** A round ends after so many seconds, with the fault that is being caused: its calls are kept until they are checked. */
const ROUND_S = 300

/** A run of several rounds. */
interface Run {
  scene: Scene
  options: Options
  reporting: Reporting
  journal: Journal
  /** Undefined: none for now. */
  kinds: Iterator<FaultKind | undefined, void>
  /** How long it has lasted. */
  seconds(): number
  faults: number
  /** When the last fault began. */
  faultAt: number
  checked: { calls: number; components: number; faults: number; givenUp: number }
}

/** Counts while faults are caused, and checks all that was answered. */
export async function runFaults(scene: Scene, options: Options, reporting: Reporting): Promise<void> {
  const { checks, signal } = reporting
  const journal = createJournal()
  const startedAt = performance.now()
  const run: Run = {
    ...{ scene, options, reporting, journal, faults: 0, faultAt: 0 },
    kinds: schedule(scene, options),
    seconds: () => (performance.now() - startedAt) / 1000,
    checked: { calls: 0, components: 0, faults: 0, givenUp: 0 },
  }
  for (let round = 1, isOver = false; !isOver && !signal.aborted; round++)
    isOver = await runRound(run, `round ${round}`)
  if (signal.aborted) return
  const { faults, givenUp, components } = run.checked
  checks.check('some order of the calls explains every answer', faults === 0, faults)
  checks.check('the search gave up on less than 1 % of the components', givenUp < components / 100, givenUp)
  checks.check('every answer was right', journal.wrong.length === 0, journal.wrong.slice(0, 10))
  const inVain = journal.stretches.get(NO_FAULT)?.unavailable ?? 0
  checks.check('without a fault, every call was applied', inVain === 0, inVain)
  const crashes = scene.servers.flatMap((server) => server.crashes)
  checks.check('no server ended by itself', crashes.length === 0, crashes)
  summarize(run)
}

/** Counts in a namespace of its own. Returns whether it was the last round. */
async function runRound(run: Run, namespace: string): Promise<boolean> {
  const { scene, options, journal } = run
  const { checks, print, signal } = run.reporting
  const { servers, engine, random } = scene
  const recorder = createRecorder()
  const ending = new AbortController()
  const surroundings = { servers, recorder, journal, namespace, signal: ending.signal }
  const load = await startLoad(surroundings, options.callers, random)
  try {
    await pause(NORMAL_MS)
    const end = await causeFaults(run)
    if (end === 'loss') {
      print('The database has lost commits, and a server has noticed it.')
      checks.check('a database that flushes each commit loses none', options.flush !== 1)
      await pause(NOTICE_MS)
      ending.abort()
    }
    await load.end()
    if (signal.aborted) return true
    const stored = end === 'loss' ? [] : await audit(engine.nodes, namespace, recorder.records, checks)
    // Until a process has noticed a loss, its reads may show what is left.
    const isRead = ({ operation: { kind } }: CallRecord) => kind === 'counters' || kind === 'sequenceGroup'
    const calls = recorder.records.filter(
      (record) => end !== 'loss' || !isRead(record) || (record.answeredAt ?? 0) < run.faultAt,
    )
    checkCalls(run, [...calls, ...stored], join(options.directory, namespace))
    if (end === 'loss') await checkRefusals(scene, checks)
    return end !== 'round'
  } finally {
    ending.abort()
    await load.end()
  }
}

/** How long other processes may take to notice a loss that one has noted. */
const NOTICE_MS = 5000

/** Checks the calls of a round. What is wrong is kept as files. */
function checkCalls({ checked, reporting }: Run, history: readonly CallRecord[], directory: string): void {
  const result = checkHistory(history)
  const { calls, components, faults, givenUp } = result
  checked.calls += calls
  checked.components += components
  checked.faults += faults.length
  checked.givenUp += givenUp.length
  reporting.print(summaryOf(result).slice(0, MAX_SUMMARY))
  if (faults.length + givenUp.length === 0) return
  writeFaults(directory, result)
  for (const record of history) appendFileSync(join(directory, 'history.jsonl'), lineOf(record))
  reporting.print(`See ${directory}`)
}

/** Characters of what is wrong with a round. */
const MAX_SUMMARY = 5000

/** Whether any node says that commits were lost. One that is just joining its cluster again can't tell. */
async function hasNotedLoss(nodes: readonly Node[]): Promise<boolean> {
  const looks = nodes.map(
    async (node) => (await queryNode(node, 'select 1 from nth.lost_commits')).length > 0,
  )
  return (await Promise.all(looks.map((look) => look.catch(() => false)))).includes(true)
}

/** After a loss, no server issues a number. */
async function checkRefusals({ servers }: Scene, checks: Checks): Promise<void> {
  for (const server of servers) {
    const { errors: [error] = [] } = await send(server, 'mutation { increment(name: "hot") { value } }')
    checks.check(`${server.name} refuses changes`, error?.extensions.code === 'UNAVAILABLE', error)
  }
}

/** Causes one fault after the other, until a round is over, or all are, or the database has lost commits. */
async function causeFaults(run: Run): Promise<'round' | 'over' | 'loss'> {
  const { scene, options, journal, kinds, seconds } = run
  const { print, signal } = run.reporting
  const { engine, topology } = scene
  const isOver = () => signal.aborted || (options.kills === undefined && seconds() > options.seconds)
  const endS = seconds() + ROUND_S
  while (!isOver()) {
    if (seconds() > endS) return 'round'
    const { value: kind, done } = kinds.next()
    if (done) break
    if (kind === undefined) {
      await pause(200)
      continue
    }
    await spread(scene, journal, print)
    const at = seconds()
    journal.begin(kind)
    run.faultAt = performance.now()
    const what = await causeFault(kind, scene)
    await untilWhole(engine.nodes, topology)
    print(
      `${at.toFixed(0).padStart(5)} s  ${kind}: ${what}; whole again after ${(seconds() - at).toFixed(1)} s`,
    )
    run.faults++
    if (options.kills === undefined) await pause(AFTERMATH_MS)
    if (await untilAnswered(journal, engine.nodes)) return 'loss'
    journal.begin(NO_FAULT)
    if (options.kills === undefined) await pause(NORMAL_MS)
  }
  return 'over'
}

function* schedule(
  { topology, random }: Scene,
  { kills, faults }: Options,
): Generator<FaultKind | undefined> {
  if (kills !== undefined) {
    const kinds: FaultKind[] = ['kill-writer', 'kill-other']
    const all = kinds.filter((kind) => isPossible(kind, topology)).flatMap((kind) => Array(kills).fill(kind))
    yield* random.sample(all, all.length)
    return
  }
  const possible = faults.filter((kind) => isPossible(kind, topology))
  while (true) yield* possible.length > 0 ? random.sample(possible, possible.length) : [undefined]
}

/** A server stays at the node that it changed to. Where nodes are equals, one of two that share a node is moved. */
async function spread(scene: Scene, journal: Journal, print: (line: string) => void): Promise<void> {
  if (scene.topology !== 'galera') return
  for (const server of scene.servers) {
    const [one, other] = await writingNodes(scene)
    if (one !== other) return
    journal.begin('restart of a server')
    await server.restart('SIGTERM')
    print(`         ${server.name} restarted, as both wrote to node ${one.number}`)
    journal.begin(NO_FAULT)
    await pause(2000)
  }
}

/** Waits until many calls were answered, or none ever will be, as a loss of commits was noticed: then returns true. */
async function untilAnswered(journal: Journal, nodes: readonly Node[]): Promise<boolean> {
  const goal = journal.answered + 500
  const deadline = performance.now() + 60_000
  while (journal.answered < goal) {
    if (await hasNotedLoss(nodes)) return true
    if (performance.now() > deadline) throw new Error('Callers get no more answers')
    await pause(200)
  }
  return false
}

function summarize({ journal: { stretches }, faults, checked, reporting: { print } }: Run): void {
  for (const [condition, stretch] of stretches) {
    const { times, answered, unavailable, unknown, unknownToNth, slow, longestMs } = stretch
    const counts = `answered ${answered}, unavailable ${unavailable}, unknown ${unknown} (OUTCOME_UNKNOWN ${unknownToNth})`
    print(
      `${condition}: ${times} times, ${counts}, over 1 s ${slow}, longest wait ${longestMs.toFixed(0)} ms`,
    )
  }
  const all = [...stretches.values()]
  const answered = all.reduce((sum, stretch) => sum + stretch.answered, 0)
  const unknown = all.reduce((sum, stretch) => sum + stretch.unknown, 0)
  const longestMs = Math.max(...all.map((one) => one.longestMs))
  print(
    `calls ${checked.calls}, components ${checked.components}: ${checked.faults} faults, ${checked.givenUp} given up`,
  )
  print(`faults ${faults}, answered ${answered}, unknown ${unknown}, longest wait ${longestMs.toFixed(0)} ms`)
}
