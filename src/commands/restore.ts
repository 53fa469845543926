import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Target } from '../mysql/connections/target.ts'
import { readPreconditions } from '../mysql/transfer/import.ts'
import { readDatabaseConfig } from '../process/config.ts'
import { advance } from './advance.ts'
import { withDatabase } from './database.ts'
import { parseRestoreCommand, USAGE } from './restoreArguments.ts'
import { BACKUP_FILE, backupInstant } from './transfer/backupFile.ts'
import { checkAll, importAll } from './transfer/importAll.ts'
import { openFile } from './transfer/source.ts'

/** How long sessions that are about to end are waited for, in milliseconds. */
const SESSIONS_END_MS = 3000
const LOOK_EVERY_MS = 100

/** `nth restore`. */
export async function run(args: string[]): Promise<void> {
  const command = parseRestoreCommand(args)
  if (command.name === 'help') return void process.stdout.write(USAGE)
  const { directory, advanceBy, continues } = command
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  if (directory !== undefined) return restore(directory, advanceBy, continues)
  if (advanceBy !== undefined) await withDatabase((target) => advance(target, advanceBy))
}

async function restore(directory: string, advanceBy: number | undefined, continues: boolean): Promise<void> {
  // A wrong file is reported before a database is started.
  const path = join(directory, BACKUP_FILE)
  const at = await backupInstant(path)
  const source = await openFile(path, 'default')
  try {
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
