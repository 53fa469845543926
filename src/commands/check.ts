import { parseArgs } from 'node:util'
import { ignoredVariables, readConfig } from '../config.ts'
import { type Finding, inspect } from '../mysql/startup/inspect.ts'
import { openFilesWarning } from '../operations/process.ts'
import { withHosts } from './database.ts'

const USAGE = `Usage: nth check [--accept-lost-commits] [--help]

Checks the configuration, this machine and the database that nth start would use, also while Nth runs: prints what is
right and what is wrong, with what to do. Ends with 1 if Nth could not start, or could not work. In the database it
creates the table nth_check and drops it again.

  --accept-lost-commits  a database that was found to lack changes that it had committed is used again, by all processes.
                         Numbers that were lost are issued again, unless nth restore --advance has moved them on.
`

/** `nth check`. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { 'accept-lost-commits': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help) return void process.stdout.write(USAGE)
  // Throws an error with a line for each invalid variable.
  const config = readConfig()
  const { workers, writeTimeoutMs } = config
  report({ subject: 'configuration', level: 'ok', message: 'all variables are valid' })
  const ignored = ignoredVariables(config)
  if (ignored) report({ subject: 'variables', level: 'warning', message: ignored })
  const fewFiles = openFilesWarning()
  if (fewFiles) report({ subject: 'open files', level: 'warning', message: fewFiles })
  await withHosts(async (hosts) => {
    for await (const finding of inspect(
      hosts,
      { workers, writeTimeoutMs, acceptsLosses: values['accept-lost-commits'] ?? false },
      AbortSignal.timeout(CHECKED_WITHIN_MS),
    ))
      report(finding)
  })
}

const CHECKED_WITHIN_MS = 60_000

function report({ subject, level, message }: Finding): void {
  if (level === 'error') process.exitCode = 1
  console.log(`${level.padEnd(8)} ${subject.padEnd(14)} ${message}`)
}
