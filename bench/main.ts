import { bench } from './bench.ts'
import { beside } from './beside.ts'
import { charges } from './charges.ts'
import { gate } from './gate.ts'
import { holds } from './holds.ts'
import { live } from './live.ts'
import { mixed } from './mixed.ts'
import { HELP, readOptions } from './options.ts'
import { tickets } from './tickets.ts'

const MODES = { bench, beside, charges, gate, holds, live, mixed, tickets }

const ending = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => ending.abort())
try {
  const options = readOptions(process.argv.slice(2))
  const measure = options && MODES[options.mode]
  console.log(measure ? await measure({ ...options, say: console.error, signal: ending.signal }) : HELP)
} catch (error) {
  console.error(ending.signal.aborted ? 'Stopped.' : `FAILED: ${(error as Error).message}`)
  process.exitCode = 1
}
