import { parseArgs } from 'node:util'
import { MAX_BLOCK } from '../core/sequences/blocks.ts'

export const USAGE = `Usage: nth restore <directory> [--advance <n>] [--continue]
       nth restore --advance <n>

Restores a backup of nth backup into an empty database, while Nth does not run: that of DATABASE_URL, or else the private
one of NTH_DATA_DIR. The backup is checked first, and not applied if anything is wrong. Prints its instant.

  --advance <n>  also move every sequence and exact counter on by n (1 to ${MAX_BLOCK}), so that no number issued after
                 that instant is issued again. Without a directory, only that: for a database restored otherwise;
                 each time by n. Those that were not moved are listed, such as gapless sequences
  --continue     go on with a restore that was interrupted
`

export interface RestoreCommand {
  name: 'restore'
  /** Undefined: only `advanceBy` applies. */
  directory: string | undefined
  advanceBy: number | undefined
  continues: boolean
}

/**
 * Parses the arguments of `nth restore`.
 *
 * @throws {Error} saying what is wrong with them
 */
export function parseRestoreCommand(args: string[]): { name: 'help' } | RestoreCommand {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      advance: { type: 'string' },
      continue: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return { name: 'help' }
  const [directory, ...rest] = positionals
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const advanceBy = values.advance === undefined ? undefined : numberIn(values.advance)
  if (directory === undefined && advanceBy === undefined)
    throw new Error('Give the directory of the backup; see --help.')
  return { name: 'restore', directory, advanceBy, continues: values.continue }
}

function numberIn(text: string): number {
  const number = /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (number >= 1 && number <= MAX_BLOCK) return number
  throw new Error(`--advance must be a whole number from 1 to ${MAX_BLOCK}; it is "${text}".`)
}
