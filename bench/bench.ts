import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from './database.ts'
import { fillLeaderboards } from './fill.ts'
import { type Generator, startGenerator } from './generator.ts'
import type { Figures } from './load/measure.ts'
import { describeMachine } from './machine.ts'
import type { Options } from './options.ts'
import { startRedis } from './redis.ts'
import { SERVES, type Stores, type System, type SystemId, startLine } from './systems.ts'
import { changesMany, type Workload } from './workloads.ts'

/** What a system did with a workload, round by round. */
export interface Result {
  workload: Workload
  system: System
  rounds: Figures[]
}

export interface Run {
  /** What it ran on, as lines of Markdown. */
  machine: string[]
  results: Result[]
}

export interface BenchOptions extends Options {
  /** Told how far it is. */
  say: (message: string) => void
  signal: AbortSignal
}

interface Serving {
  system: System
  url: string
}

type Closers = (() => Promise<void>)[]

/**
 * Starts all systems, measures them in turn, round by round, and ends them again.
 *
 * @throws {Error} at the first wrong number or answer of any of them
 */
export async function bench(options: BenchOptions): Promise<Run> {
  const closers: Closers = []
  try {
    const directory = await mkdtemp(join(tmpdir(), 'nth-bench-'))
    closers.push(() => rm(directory, { recursive: true, force: true }))
    const stores = await openStores(options, directory, closers)
    const generator = startGenerator()
    closers.push(generator.end)
    // Ends what is under way, which fails then.
    options.signal.addEventListener('abort', generator.end)

    const serving = await startSystems(options, stores, closers)
    if (stores.database && serving.some(({ system }) => system.id === 'nth')) {
      await fillLeaderboards(options, stores.database)
    }
    await touchAll(options, serving, generator)
    return {
      machine: await describeMachine(stores),
      results: await measureAll(options, serving, generator),
    }
  } finally {
    await closeAll(closers)
  }
}

/** Closes what was opened, last first, each even if the one before it failed. */
async function closeAll(closers: Closers): Promise<void> {
  const failures: unknown[] = []
  for (const close of closers.reverse()) {
    await close().catch((error) => failures.push(error))
  }
  if (failures.length > 0) throw new AggregateError(failures, `Not everything could be ended: ${failures}`)
}

async function openStores(
  { systems, distanceMs, say, signal }: BenchOptions,
  directory: string,
  closers: Closers,
): Promise<Stores> {
  const stores: Stores = {}
  const isNeeded = (store: keyof Stores) => systems.some(({ needs }) => needs === store)
  if (isNeeded('database')) {
    const database = await openDatabase(await folder(directory, 'database'), { say, signal })
    closers.push(database.close)
    stores.database = database.target
    if (distanceMs > 0) {
      const line = await startLine(database.target, distanceMs)
      closers.push(line.end)
      stores.database = line.target
    }
  }
  if (isNeeded('redis')) {
    const redis = await startRedis({ directory: await folder(directory, 'redis'), say, signal })
    if (redis) {
      closers.push(redis.child.end)
      stores.redis = redis
    }
  }
  return stores
}

async function folder(directory: string, name: string): Promise<string> {
  const path = join(directory, name)
  await mkdir(path)
  return path
}

async function startSystems(
  { systems, workloads, signal }: BenchOptions,
  stores: Stores,
  closers: Closers,
): Promise<Serving[]> {
  const serving: Serving[] = []
  for (const system of systems) {
    signal.throwIfAborted()
    const isUsed = workloads.some((workload) => workload.systems.includes(system.id))
    const hasStore = !system.needs || stores[system.needs]
    if (!isUsed || !hasStore) continue
    const child = system.start(stores)
    closers.push(child.end)
    serving.push({ system, url: await child.printed(SERVES) })
  }
  return serving
}

/** Makes every row by a change of it, which also warms up every system and is checked as all is. */
async function touchAll(
  { workloads, say, signal }: BenchOptions,
  serving: Serving[],
  generator: Generator,
): Promise<void> {
  for (const { system, url } of serving) {
    say(`making the rows of ${system.title}`)
    for (const workload of workloads.filter(isOf(system.id))) {
      signal.throwIfAborted()
      await about(system, workload, generator.touch(url, workload.id))
    }
  }
}

async function measureAll(
  { rounds, workloads, seconds, warmupSeconds, say, signal }: BenchOptions,
  serving: Serving[],
  generator: Generator,
): Promise<Result[]> {
  const time = { seconds, warmupSeconds }
  const results = workloads.flatMap((workload) =>
    serving
      .filter(({ system }) => isOf(system.id)(workload))
      .map(({ system, url }) => ({ workload, system, url, rounds: [] as Figures[] })),
  )
  for (let round = 1; round <= rounds; round++) {
    // To and fro, so that none always comes after the same other one, which may have left the disk busy.
    for (const { workload, system, url, rounds: done } of round % 2 === 1 ? results : results.toReversed()) {
      signal.throwIfAborted()
      const figures = await about(system, workload, generator.measure(url, workload.id, time))
      done.push(figures)
      say(`round ${round} of ${rounds}, ${workload.id}, ${system.id}: ${speed(workload, figures)}`)
    }
  }
  return results
}

function speed(workload: Workload, { requestsPerSecond, changesPerSecond }: Figures): string {
  const requests = `${Math.round(requestsPerSecond)} requests/s`
  return changesMany(workload) ? `${requests}, ${Math.round(changesPerSecond)} counters/s` : requests
}

function isOf(id: SystemId): (workload: Workload) => boolean {
  return ({ systems }) => systems.includes(id)
}

/** Says of a failure where it happened. */
async function about<T>(system: System, workload: Workload, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw new Error(`${system.title} failed in "${workload.title}": ${(error as Error).message}`, {
      cause: error,
    })
  }
}
