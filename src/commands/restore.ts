import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Target } from '../mysql/connections/target.ts'
import { readPreconditions } from '../mysql/transfer/import/preconditions.ts'
import { advance } from './advance.ts'
import { withDatabase } from './database.ts'
import { parseRestoreCommand, type RestoreCommand, USAGE } from './restoreArguments.ts'
import { BACKUP_FILE, backupInstant } from './transfer/backupFile.ts'
import { importAll } from './transfer/importAll.ts'
import { withNotice } from './transfer/interrupted.ts'
import { openFile } from './transfer/source.ts'

/** How long sessions that are about to end are waited for, in milliseconds. */
const SESSIONS_END_MS = 3000
const LOOK_EVERY_MS = 100

/** `nth restore`. */
export async function run(args: string[]): Promise<void> {
  const command = parseRestoreCommand(args)
  if (command.name === 'help') return void process.stdout.write(USAGE)
  const { directory, advanceBy } = command
  // A wrong directory is reported before a database is started.
  const at = directory === undefined ? undefined : await backupInstant(join(directory, BACKUP_FILE))
  await withDatabase(async (target) => {
    await withNotice(at ? INTERRUPTED : INTERRUPTED_ADVANCE, async () => {
      if (directory !== undefined && at) await restore(target, directory, at, command)
      if (advanceBy !== undefined) await advance(target, advanceBy, at)
    })
  })
}

async function restore(
  target: Target,
  directory: string,
  at: Date,
  { continues, advanceBy }: Pick<RestoreCommand, 'continues' | 'advanceBy'>,
): Promise<void> {
  await assertUnused(target, continues)
  const source = await openFile(join(directory, BACKUP_FILE), 'default')
  const refusals = await importAll(target, source, { isDryRun: false, overwrite: false, takesKeys: true })
  if (refusals > 0) process.exitCode = 1
  console.log(`Restored as of ${at.toISOString()}.`)
  console.error(LATER)
  if (advanceBy === undefined) console.error(NOT_ADVANCED)
}

const LATER = `What happened later is missing: names first used, definitions, deletions, and revocations of API keys (see nth keys
list). Names first used later start again.`

const NOT_ADVANCED = `Numbers issued later will be issued again: nth restore --advance <n> moves all on by n, which must be more than any of
them has issued since.`

const INTERRUPTED = 'Interrupted. Repeat the command with --continue.'
const INTERRUPTED_ADVANCE = 'Interrupted: some numbers were moved on. A repeat moves these on once more.'

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
