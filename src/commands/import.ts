import { parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import { nameFault } from '../rules/names.ts'
import { withDatabase } from './database.ts'
import { openFile } from './source.ts'
import { checkAll, importAll } from './transfer/importAll.ts'

const USAGE = `Usage: nth import <file> [options]

Imports counters, sequences and namespaces from an export, or counters from CSV with the columns name and value, and
optionally namespace: into the database of DATABASE_URL, or else the private one of NTH_DATA_DIR, also while Nth runs.
A file named - is the standard input.

All of it is checked first. If anything is wrong, that is listed by line, and nothing is applied.

Of a present number and that of the file the greater one stays, or the one further in the direction of a sequence. So an
import can be repeated, also after it was interrupted.

  --dry-run           only say what would be done
  --overwrite         let numbers and definitions of the file replace present ones, also with lower numbers
  --namespace <name>  namespace of counters without one (default)

The exit code is 1 if an entry was refused.
`

/** `nth import`. */
export async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      overwrite: { type: 'boolean', default: false },
      namespace: { type: 'string', default: 'default' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return void process.stdout.write(USAGE)
  const [file, ...rest] = positionals
  const { namespace, overwrite, 'dry-run': isDryRun } = values
  if (file === undefined) throw new Error('Give the file to import; see --help.')
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const fault = nameFault(namespace)
  if (fault) throw new Error(`--namespace ${fault.message}.`)
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  const source = await openFile(file, namespace)
  try {
    await checkAll(source, false)
    await withDatabase(async (target) => {
      const advice = 'Repeat the command to go on.'
      const refusals = await importAll(target, source, { isDryRun, overwrite, advice })
      if (refusals > 0) process.exitCode = 1
    })
  } finally {
    await source.close()
  }
}
