import { bench } from './bench.ts'
import { cluster } from './cluster.ts'
import { gate } from './gate.ts'
import { live } from './live.ts'
import { million } from './million.ts'
import { mixed } from './mixed.ts'
import { HELP, type Options, readOptions } from './options.ts'
import { report } from './report.ts'
import { tickets } from './tickets.ts'

const ending = new AbortController()

async function main(): Promise<number> {
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => ending.abort())
  try {
    const options = readOptions(process.argv.slice(2))
    if (options) await run(options)
    else console.log(HELP)
    return 0
  } catch (error) {
    console.error(ending.signal.aborted ? 'Stopped.' : `FAILED: ${(error as Error).message}`)
    return 1
  }
}

async function run(options: Options): Promise<void> {
  if (options.tickets) {
    console.log(await tickets({ rounds: options.rounds, say: console.error, signal: ending.signal }))
    return
  }
  if (options.gate) {
    console.log(await gate({ ...options, say: console.error, signal: ending.signal }))
    return
  }
  if (options.cluster) {
    console.log(await cluster({ ...options, say: console.error, signal: ending.signal }))
    return
  }
  if (options.live) {
    console.log(await live({ ...options, say: console.error, signal: ending.signal }))
    return
  }
  if (options.million) {
    console.log(await million({ ...options, say: console.error, signal: ending.signal }))
    return
  }
  if (options.mixed) {
    const { report, faults } = await mixed({ ...options, say: console.error, signal: ending.signal })
    console.log(report)
    if (faults.length > 0) throw new Error(faults.join('; '))
    return
  }
  const { results, machine } = await bench({ ...options, say: console.error, signal: ending.signal })
  console.log(report(options, machine, results))
}

process.exitCode = await main()
