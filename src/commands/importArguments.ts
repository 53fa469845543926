import { parseArgs } from 'node:util'
import { nameFault } from '../core/names.ts'
import { parseTarget, type Target } from '../mysql/connections/target.ts'

export const USAGE = `Usage: nth import <file> [options]
       nth import --from mysql://user:password@host/database --select <statement> [options]

Imports counters, sequences and namespaces from an export, or counters from CSV with the columns name and value, and
optionally namespace: into the database of DATABASE_URL, or else the private one of NTH_DATA_DIR, also while Nth runs.
A file named - is the standard input.

All of it is checked first. If anything is wrong, that is listed by line, and nothing is applied.

Of a present number and that of the file the greater one stays, or the one further in the direction of a sequence. So an
import can be repeated, also after it was interrupted.

  --dry-run           only say what would be done
  --overwrite         let numbers and definitions of the file replace present ones, also with lower numbers
  --namespace <name>  namespace of counters without one (default)
  --from <url>        import the rows of a select from another database
  --select <text>     that select, such as: select title as name, copies as value from booksales

The exit code is 1 if an entry was refused.
`

export type ImportCommand =
  | { name: 'help' }
  | ({ name: 'import'; isDryRun: boolean; overwrite: boolean; namespace: string } & ImportSource)

type ImportSource = { file: string } | { from: Target; select: string }

/**
 * Parses the arguments of `nth import`.
 *
 * @throws {Error} saying what is wrong with them
 */
export function parseImportCommand(args: string[]): ImportCommand {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      overwrite: { type: 'boolean', default: false },
      namespace: { type: 'string', default: 'default' },
      from: { type: 'string' },
      select: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return { name: 'help' }
  const [file, ...rest] = positionals
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const { from, select, namespace, overwrite, 'dry-run': isDryRun } = values
  const fault = nameFault(namespace)
  if (fault) throw new Error(`--namespace ${fault.message}.`)
  const command = { name: 'import' as const, isDryRun, overwrite, namespace }
  if (file !== undefined) {
    if (from !== undefined || select !== undefined) throw new Error('Give a file, or --from and --select.')
    return { ...command, file }
  }
  if (from === undefined && select === undefined) throw new Error('Give the file to import; see --help.')
  if (from === undefined) throw new Error('--select also needs --from.')
  if (select === undefined) throw new Error('--from also needs --select.')
  return { ...command, from: targetIn(from), select }
}

function targetIn(text: string): Target {
  try {
    return parseTarget(text)
  } catch (error) {
    throw new Error(`--from ${(error as Error).message}.`, { cause: error })
  }
}
