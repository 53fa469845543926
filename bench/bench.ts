import { createConnection, type RowDataPacket } from 'mysql2/promise'
import type { Generator } from './generator.ts'
import type { Figures } from './load.ts'
import type { Options } from './options.ts'
import { childrenOf } from './processes.ts'
import { report } from './report.ts'
import { type Progress, type Resources, withResources } from './resources.ts'
import type { Running, System } from './systems.ts'
import type { Workload } from './workloads.ts'

/** What a system did with a workload, round by round. */
export interface Result {
  workload: Workload
  system: System
  rounds: Figures[]
}

type Served = { system: System } & Running

/**
 * Starts all systems and measures them in turn, round by round.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number or answer of any of them
 */
export function bench(options: Options & Progress): Promise<string> {
  const { systems, workloads, say, signal } = options
  return withResources(options, async (resources) => {
    const generator = resources.generator()
    const served: Served[] = []
    for (const system of systems) {
      signal.throwIfAborted()
      if (!workloads.some((workload) => workload.systems.includes(system.id))) continue
      const running = await system.start(resources)
      if (running) served.push({ system, ...resources.keep(running) })
    }
    const results = workloads.flatMap((workload) =>
      served
        .filter(({ system }) => workload.systems.includes(system.id))
        .map((of) => ({ workload, ...of, rounds: [] as Figures[] })),
    )
    for (const { workload, system, urls } of results) {
      signal.throwIfAborted()
      // Creates every name, and warms the system up.
      const isPrepared = system.database !== undefined
      const job = { urls: urls.slice(0, 1), workload: workload.id, isPrepared }
      const { requestsPerSecond } = await run(generator, system, workload, job)
      const statements = workload.statements?.[system.id]
      if (statements) {
        await execute(resources, system, statements)
        if (workload.readShare) await run(generator, system, workload, job)
      }
      say(`first change of all, ${workload.id}, ${system.id}: ${Math.round(requestsPerSecond)} requests/s`)
    }
    await measure(options, results, generator)
    const hasKeys = results.some(({ workload }) => workload.change === 'withKey')
    return report(options, resources.versions, results, hasKeys ? await bytesOfKey(resources) : undefined)
  })
}

/** Executes statements in the database of a system. */
async function execute(
  resources: Resources,
  { database }: System,
  statements: readonly string[],
): Promise<void> {
  const target = await resources.database()
  const connection = await createConnection({ ...target, database: database ?? target.database })
  for (const statement of statements) await connection.query(statement)
  await connection.end()
}

/** Returns how many bytes of the database of Nth an idempotency key takes, with its part of the table's index. */
async function bytesOfKey(resources: Resources): Promise<number> {
  const connection = await createConnection(await resources.database())
  await connection.query('analyze table idempotency_key')
  const [[row]] = await connection.query<RowDataPacket[]>(
    `select (data_length + index_length) / (select count(*) from idempotency_key) as bytes
       from information_schema.tables
      where table_schema = database() and table_name = 'idempotency_key'`,
  )
  await connection.end()
  return Number(row?.bytes)
}

async function measure(
  { rounds, seconds, warmupSeconds, say, signal }: Options & Progress,
  results: readonly (Result & Running)[],
  generator: Generator,
): Promise<void> {
  for (let round = 1; round <= rounds; round++) {
    // To and fro, so that none always comes after the same other one, which may have left the disk busy.
    for (const { workload, system, urls, pid, store, rounds: done } of round % 2 === 1
      ? results
      : results.toReversed()) {
      signal.throwIfAborted()
      const hasTimes = store !== undefined && process.platform === 'linux'
      const processes = hasTimes ? { processes: { system: [pid, ...childrenOf(pid)], store } } : {}
      const job = {
        urls,
        workload: workload.id,
        isPrepared: true,
        measured: { seconds, warmupSeconds, ...processes },
      }
      const figures = await run(generator, system, workload, job)
      done.push(figures)
      const speed = `${Math.round(figures.requestsPerSecond)} requests/s`
      say(`round ${round} of ${rounds}, ${workload.id}, ${system.id}: ${speed}`)
    }
  }
}

/** Names the system and the workload in a failure. */
async function run(
  generator: Generator,
  system: System,
  workload: Workload,
  job: Parameters<Generator['run']>[0],
): Promise<Figures> {
  try {
    return await generator.run(job)
  } catch (cause) {
    throw new Error(`${system.title} failed in "${workload.title}": ${(cause as Error).message}`, { cause })
  }
}
