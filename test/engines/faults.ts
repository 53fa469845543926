// Counts through two Nth servers on a database that fails in many ways, and checks every number. See options.ts.
import { mkdir, rm } from 'node:fs/promises'
import { mulberry32 } from '../support/mulberry32.ts'
import { READS, runCanary } from './canary.ts'
import { Checks } from './checks.ts'
import { type Engine, startEngine } from './engine.ts'
import { queryNode, topologyOf } from './nodes.ts'
import { HELP, type Options, readOptions } from './options.ts'
import { runFaults } from './run.ts'
import { startServer } from './servers.ts'

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return print(HELP)
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())
  const checks = new Checks(print)
  print(`SEED=${options.seed}`)
  await rm(options.directory, { recursive: true, force: true })
  await mkdir(options.directory, { recursive: true })
  const engine = await startEngine(options.engine, options.directory, options.port, [
    `--innodb-flush-log-at-trx-commit=${options.flush}`,
  ])
  try {
    print(`${engine.version}: ${engine.nodes.map(({ host, port }) => `${host}:${port}`).join(', ')}`)
    if (options.isCanary) await checkCanary(engine, checks)
    else await withServers(engine, options, checks, interrupted.signal)
  } finally {
    await engine.stop()
  }
  if (interrupted.signal.aborted) throw new Error('Interrupted')
  print(`${checks.passed} passed, ${checks.failed} failed`)
  if (checks.failed > 0) process.exitCode = 1
}

async function checkCanary({ nodes }: Engine, checks: Checks): Promise<void> {
  const { answered, twice, lost, stale } = await runCanary(nodes)
  print(`unsafe form: answered ${answered}, twice ${twice}, lost ${lost}; stale ${stale} of ${READS} reads`)
  checks.check(
    'the unsafe form gives numbers twice, or loses them: else a run of the safe one proves nothing on this machine',
    twice + lost > 0,
  )
  checks.check('reads are stale without what prevents it', stale > 0)
}

async function withServers(
  engine: Engine,
  options: Options,
  checks: Checks,
  signal: AbortSignal,
): Promise<void> {
  const [first, ...others] = engine.nodes
  if (!first) throw new Error('The engine has no node')
  const names = ['nth1', 'nth2']
  for (const name of names) {
    await queryNode(first, `create user ${name}@'%'`, `grant all on *.* to ${name}@'%'`)
  }
  const topology = await topologyOf(engine.nodes)
  // In another order, so that they write to different nodes where both may be written to.
  const one = await startServer('nth1', engine.nodes, options.directory)
  try {
    const other = await startServer('nth2', [...others, first], options.directory)
    try {
      const scene = { engine, topology, servers: [one, other] as const, random: mulberry32(options.seed) }
      await runFaults(scene, options, { checks, print, signal })
    } finally {
      await other.close()
    }
  } finally {
    await one.close()
  }
}

await main()
