import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import type { Target } from '../mysql/connections/target.ts'
import { MAX_BLOCK } from '../rules/sequenceDefinition.ts'
import { advance } from './advance.ts'
import { BACKUP_FILE } from './backup.ts'
import { withDatabase } from './database.ts'
import { readPreconditions } from './importer.ts'
import { openFile } from './source.ts'
import { checkAll, importAll } from './transfer/importAll.ts'
import { instantOf } from './transfer/jsonl.ts'

const USAGE = `Usage: nth restore <directory> [--advance <n>] [--continue]
       nth restore --advance <n>

Restores a backup of nth backup into an empty database, while Nth does not run: that of DATABASE_URL, or else the private
one of NTH_DATA_DIR. The backup is checked first, and not applied if anything is wrong. Prints its instant.

  --advance <n>  also move every sequence and exact counter on by n (1 to ${MAX_BLOCK}), so that no number issued after
                 that instant is issued again. Without a directory, only that: for a database restored otherwise;
                 each time by n. Those that were not moved are listed, such as gapless sequences
  --continue     go on with a restore that was interrupted
`

/** How long sessions that are about to end are waited for, in milliseconds. */
const SESSIONS_END_MS = 3000
const LOOK_EVERY_MS = 100

/** `nth restore`. */
export async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      advance: { type: 'string' },
      continue: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return void process.stdout.write(USAGE)
  const [directory, ...rest] = positionals
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const advanceBy = values.advance === undefined ? undefined : numberIn(values.advance)
  if (directory === undefined && advanceBy === undefined)
    throw new Error('Give the directory of the backup; see --help.')
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  if (directory !== undefined) return restore(directory, advanceBy, values.continue)
  if (advanceBy !== undefined) await withDatabase((target) => advance(target, advanceBy))
}

function numberIn(text: string): number {
  const number = /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (number >= 1 && number <= MAX_BLOCK) return number
  throw new Error(`--advance must be a whole number from 1 to ${MAX_BLOCK}; it is "${text}".`)
}

async function restore(directory: string, advanceBy: number | undefined, continues: boolean): Promise<void> {
  const path = join(directory, BACKUP_FILE)
  const withPath = (error: Error) => {
    throw new Error(`${path}: ${error.message}`, { cause: error })
  }
  const source = await openFile(path, 'default').catch(withPath)
  try {
    // A wrong file is reported before a database is started.
    const at = await instantOf(source.lines()).catch(withPath)
    await checkAll(source, true)
    await withDatabase(async (target) => {
      await assertUnused(target, continues)
      const refusals = await importAll(target, source, { isDryRun: false, overwrite: false, advice: ADVICE })
      if (refusals > 0) process.exitCode = 1
      const except = refusals > 0 ? `, except for what was refused: ${refusals}` : ''
      console.log(`Restored as of ${at.toISOString()}${except}.`)
      console.error(LATER)
      if (advanceBy === undefined) console.error(NOT_ADVANCED)
      else await advance(target, advanceBy, at)
    })
  } finally {
    await source.close()
  }
}

const LATER = `What happened later is missing: names first used, definitions, deletions, and revocations of API keys (see nth keys
list). Names first used later start again.`

const NOT_ADVANCED = `Numbers issued later will be issued again: nth restore --advance <n> moves all on by n, which must be more than any of
them has issued since.`

const ADVICE = 'Repeat the command with --continue.'

/** Numbers that are issued while a restore runs could come twice. */
async function assertUnused(target: Target, continues: boolean): Promise<void> {
  const until = performance.now() + SESSIONS_END_MS
  let { otherSessions, isEmpty } = await readPreconditions(target)
  while (otherSessions > 0 && performance.now() < until) {
    await pause(LOOK_EVERY_MS)
    otherSessions = (await readPreconditions(target)).otherSessions
  }
  if (otherSessions > 0)
    throw new Error(
      `The database ${target.database} is in use, by ${otherSessions} other sessions. Stop Nth, and disconnect other clients: numbers that are issued during a restore could come twice.`,
    )
  if (!isEmpty && !continues)
    throw new Error(
      `The database ${target.database} is not empty. Restore into a new one, such as another NTH_DATA_DIR; an interrupted restore goes on with --continue.`,
    )
}
