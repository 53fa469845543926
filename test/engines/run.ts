import { setTimeout as pause } from 'node:timers/promises'
import { audit } from './audit.ts'
import { createBook } from './book.ts'
import type { Checks } from './checks.ts'
import { causeFault, type FaultKind, isPossible, type Scene, writingNodes } from './faultKinds.ts'
import { createJournal, type Journal, NO_FAULT } from './journal.ts'
import { startLoad } from './load.ts'
import { untilWhole } from './nodes.ts'
import type { Options } from './options.ts'
import { probeCausality } from './probes.ts'
import { startPulse } from './pulse.ts'

export interface Reporting {
  checks: Checks
  print(line: string): void
  /** Aborted when the run is to end early. */
  signal: AbortSignal
}

/** Normal load before the next fault, and the part of it that belongs to the one before. */
const NORMAL_MS = 5000
const AFTERMATH_MS = 3000

/** Counts while faults are caused, and checks all that was answered. */
export async function runFaults(scene: Scene, options: Options, reporting: Reporting): Promise<void> {
  const { checks, signal } = reporting
  const { servers, engine, random } = scene
  const journal = createJournal()
  const book = createBook()
  const load = await startLoad({ servers, book, journal }, options.callers, random)
  const pulse = await startPulse(engine.nodes, scene.topology, journal.noteWritten)
  try {
    await pause(NORMAL_MS)
    const faults = await causeFaults(scene, options, journal, reporting)
    if (options.probes > 0 && !signal.aborted) await checkCausality(scene, options.probes, reporting)
    await load.end()
    if (signal.aborted) return
    const { lost, twice } = await audit(engine.nodes, { book, confirmed: load.confirmed }, checks)
    checks.check('every answer was right', journal.wrong.length === 0, journal.wrong.slice(0, 10))
    const inVain = journal.stretches.get(NO_FAULT)?.unavailable ?? 0
    checks.check('without a fault, every call was applied', inVain === 0, inVain)
    const crashes = servers.flatMap((server) => server.crashes)
    checks.check('no server ended by itself', crashes.length === 0, crashes)
    summarize(journal, { faults, lost, twice }, reporting)
  } finally {
    pulse.end()
    await load.end()
  }
}

/** Causes one fault after the other. Returns how many. */
async function causeFaults(scene: Scene, options: Options, journal: Journal, { print, signal }: Reporting) {
  const { engine, topology } = scene
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  let faults = 0
  for (const kind of schedule(scene, options)) {
    if (signal.aborted || (options.kills === undefined && seconds() > options.seconds)) break
    await spread(scene, journal, print)
    const at = seconds()
    journal.begin(kind)
    const what = await causeFault(kind, scene)
    await untilWhole(engine.nodes, topology)
    print(
      `${at.toFixed(0).padStart(5)} s  ${kind}: ${what}; whole again after ${(seconds() - at).toFixed(1)} s`,
    )
    faults++
    if (options.kills === undefined) await pause(AFTERMATH_MS)
    await untilAnswered(journal)
    journal.begin(NO_FAULT)
    if (options.kills === undefined) await pause(NORMAL_MS)
  }
  while (options.faults.length === 0 && seconds() < options.seconds && !signal.aborted) await pause(200)
  return faults
}

function* schedule({ topology, random }: Scene, { kills, faults }: Options): Generator<FaultKind> {
  if (kills !== undefined) {
    const kinds: FaultKind[] = ['kill-writer', 'kill-other']
    const all = kinds.filter((kind) => isPossible(kind, topology)).flatMap((kind) => Array(kills).fill(kind))
    yield* random.sample(all, all.length)
    return
  }
  const possible = faults.filter((kind) => isPossible(kind, topology))
  while (possible.length > 0) yield* random.sample(possible, possible.length)
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

/** Waits until many calls were answered. */
async function untilAnswered(journal: Journal): Promise<void> {
  const goal = journal.answered + 500
  const deadline = performance.now() + 60_000
  while (journal.answered < goal) {
    if (performance.now() > deadline) throw new Error('Callers get no more answers')
    await pause(50)
  }
}

async function checkCausality(
  { servers }: Scene,
  rounds: number,
  { checks, print }: Reporting,
): Promise<void> {
  const { probes, stale, unanswered } = await probeCausality(servers, rounds)
  print(
    `causality: rounds ${rounds}, probes ${probes}, stale ${stale.length}, unanswered ${unanswered.length}`,
  )
  checks.check('one server answers by all that the other has answered', stale.length === 0, stale.slice(0, 5))
  checks.check('every probe was answered', unanswered.length === 0, unanswered.slice(0, 5))
}

function summarize(
  { stretches }: Journal,
  { faults, lost, twice }: { faults: number; lost: number; twice: number },
  { print }: Reporting,
): void {
  for (const [condition, stretch] of stretches) {
    const { times, answered, unavailable, unknown, unknownToNth, slow, longestMs, ownMs } = stretch
    const counts = `answered ${answered}, unavailable ${unavailable}, unknown ${unknown} (OUTCOME_UNKNOWN ${unknownToNth})`
    print(
      `${condition}: ${times} times, ${counts}, over 1 s ${slow}, longest wait ${longestMs.toFixed(0)} ms, without Nth ${ownMs.toFixed(0)} ms`,
    )
  }
  const all = [...stretches.values()]
  const answered = all.reduce((sum, stretch) => sum + stretch.answered, 0)
  const unknown = all.reduce((sum, stretch) => sum + stretch.unknown, 0)
  const [longestMs, ownMs] = [
    Math.max(...all.map((one) => one.longestMs)),
    Math.max(...all.map((one) => one.ownMs)),
  ]
  print(
    `faults ${faults}, answered ${answered}, unknown ${unknown}, lost ${lost}, twice ${twice}, longest wait ${longestMs.toFixed(0)} ms, without Nth ${ownMs.toFixed(0)} ms`,
  )
}
