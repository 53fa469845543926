import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import { connectionOptions, openConnection, type Target } from '../mysql/settings.ts'
import { integer, REVISION_OF_NOW, raiseMark, readValue } from '../mysql/sql.ts'
import { SILENT } from '../operations/log.ts'
import { openNth } from '../repository/nth.ts'
import { keyText } from '../rules/counter.ts'
import type { Entry, EntryOf } from '../rules/entries.ts'
import { NthError } from '../rules/errors.ts'
import { claimOf } from '../rules/idempotency.ts'
import { MAX_BLOCK } from '../rules/sequenceDefinition.ts'
import { BACKUP_FILE } from './backup.ts'
import { withDatabase } from './database.ts'
import { withNotice } from './files.ts'
import { NO_EXPORT } from './formats.ts'
import { checkAll, described, importAll } from './import.ts'
import { partsOf } from './paging.ts'
import { type Snapshot, withSnapshot } from './snapshot.ts'
import { openFile } from './source.ts'

export const USAGE = `Usage: nth restore <directory> [--advance <n>] [--continue]
       nth restore --advance <n>

Restores a backup of nth backup into an empty database: that of DATABASE_URL, or else the private one of NTH_DATA_DIR.
Stop Nth first. The backup is checked, and not applied if anything is wrong. Prints the instant of the backup.

  --advance <n>  also move every sequence and exact counter on by n (1 to ${MAX_BLOCK}), so that no number issued after
                 the backup is issued again. Lists what it doesn't move, such as gapless sequences. Without a
                 directory, it only moves the numbers, of a database that was restored in another way; a repeat
                 moves them again
  --continue     go on with a restore that was interrupted
`

const CONNECT_TIMEOUT_MS = 10_000
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
    },
  })
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
  const source = await openFile(path, 'default')
  const { at, revision = 0 } = source
  try {
    if (!at) throw new Error(`${path}: ${NO_EXPORT}`)
    await checkAll(source, true)
    await withDatabase(async (target) => {
      await prepare(target, continues, Math.max(revision, 1000 * (at.getTime() - Date.UTC(2020, 0))))
      const refusals = await importAll(target, source, { isDryRun: false, overwrite: false, advice: ADVICE })
      if (refusals > 0) process.exitCode = 1
      console.log(
        `Restored as of ${at.toISOString()}.${refusals > 0 ? ` Refused entries: ${refusals}.` : ''}`,
      )
      console.error(LATER)
      if (advanceBy === undefined) console.error(NOT_ADVANCED)
      else await advance(target, advanceBy, at)
    })
  } finally {
    await source.close()
  }
}

const LATER = `Everything after that instant is missing: new names, definitions, deletions, and revocations of API keys (see nth keys
list). Names that were first used later start again.`

const NOT_ADVANCED = `Numbers issued later will be issued again. nth restore --advance <n> moves all on by n: choose more than any of them has
issued since.`

const ADVICE = 'Repeat the command with --continue.'

/**
 * Refuses a database that is used: numbers that are issued while a restore runs could come twice. Raises its mark to the
 * revision of the backup: what pages have seen must not be newer than what is restored.
 */
async function prepare(target: Target, continues: boolean, revision: number): Promise<void> {
  const connection = await openConnection(connectionOptions(target, CONNECT_TIMEOUT_MS))
  try {
    const until = performance.now() + SESSIONS_END_MS
    let others = await readValue(connection, OTHER_SESSIONS)
    while (others > 0 && performance.now() < until) {
      await pause(LOOK_EVERY_MS)
      others = await readValue(connection, OTHER_SESSIONS)
    }
    if (others > 0)
      throw new Error(
        `The database ${target.database} is in use, by ${others} other sessions. Stop Nth, and disconnect other clients: numbers that are issued during a restore could be issued twice.`,
      )
    if (!continues && (await readValue(connection, HAS_ROWS)) > 0)
      throw new Error(
        `The database ${target.database} is not empty. Restore into a new one, such as another NTH_DATA_DIR; an interrupted restore goes on with --continue.`,
      )
    await connection.query(raiseMark(`greatest(${REVISION_OF_NOW}, ${integer(revision)})`))
  } finally {
    await connection.end()
  }
}

/** Those that the user may see: without the right PROCESS its own, on a cluster those of one node. */
const OTHER_SESSIONS = `(select count(*)
                from information_schema.processlist
               where db = database() and id <> connection_id())`

const HAS_ROWS = ['counter', 'sequence', 'trusted_document', 'api_key', 'idempotency_key']
  .map((table) => `exists (select 1 from ${table})`)
  .join(' or ')

/** Changes in flight: a flush takes about as many. */
const AT_ONCE = 500
const TIME_LIMIT_MS = 60_000

/**
 * Moves every sequence group and exact counter of a database on, and prints those that it can't move.
 *
 * @param by how many numbers are skipped, 1 to 1 000 000
 * @param backupAt instant of the backup; a repeat for the same one moves nothing twice, while idempotency keys are kept
 */
export async function advance(target: Target, by: number, backupAt?: Date): Promise<void> {
  const nth = openOperations(target)
  const gapless = new Set<string>()
  const moved = { counters: 0, groups: 0 }

  const movedOn = () => `Moved on by ${by}: ${moved.counters} counters, ${moved.groups} sequence groups`
  const advice = backupAt
    ? 'Repeat the command with --continue: while idempotency keys are kept, it moves nothing twice.'
    : 'A repeat moves them once more.'
  const progressText = () => `${movedOn()}, and perhaps up to ${AT_ONCE} more of both. ${advice}`

  const claimFor = (namespace: string, ...names: string[]) =>
    backupAt && claimOf(namespace, JSON.stringify([backupAt, by, ...names]), [by], 'nth restore')

  /** Why an entry is not moved on; undefined: it was. */
  async function moveOn(entry: Entry): Promise<string | undefined> {
    // Callers of a counter with slots get no number of their own.
    if (entry.type === 'counter' && entry.definition?.slots === 1) {
      const { namespace, name, value, definition } = entry
      // It counts down, such as a stock: more would be sold than there is.
      if (definition.minValue !== null) return ` has a minimum; its value is ${value}.`
      await nth.counters.incrementBy({ namespace, name }, by, { claim: claimFor(namespace, name) })
      moved.counters++
    } else if (entry.type === 'sequenceGroup') {
      const { namespace, sequence, group } = entry
      if (gapless.has(keyText({ namespace, name: sequence }))) return ` is gapless; ${lastNumberOf(entry)}.`
      const options = { claim: claimFor(namespace, sequence, group) }
      await nth.sequences.next({ namespace, sequence, group }, by, options)
      moved.groups++
    }
    return undefined
  }

  async function advanceOne(entry: Entry): Promise<void> {
    const obstacle = await moveOn(entry).catch((error) => {
      if (!(error instanceof NthError) || error.code === 'UNAVAILABLE' || error.code === 'OUTCOME_UNKNOWN')
        throw error
      return `: ${error.message}`
    })
    if (obstacle) console.log(`Not moved on: ${described(entry)}${obstacle}`)
  }

  async function advanceAll(snapshot: Snapshot): Promise<void> {
    const entries = snapshot.entries('countersWithoutHistory', 'sequences', 'sequenceGroups')
    for await (const [, batch] of partsOf(entries, AT_ONCE)) {
      for (const entry of batch)
        if (entry.type === 'sequence' && entry.definition.gapless) gapless.add(keyText(entry))
      await Promise.all(batch.map(advanceOne))
    }
  }

  try {
    await withNotice(progressText, () => withSnapshot(target, advanceAll))
  } finally {
    await nth.close()
  }
  console.log(`${movedOn()}.`)
}

function openOperations(target: Target) {
  const { keyTtlMs } = readDatabaseConfig()
  return openNth([target], {
    timeoutMs: TIME_LIMIT_MS,
    maxPending: 2 * AT_ONCE,
    keyTtlMs,
    runsJobs: false,
    // Where commits were lost, this is what makes up for it.
    worksDespiteLoss: true,
    random: Math.random,
    notices: { ...SILENT, fault: console.error },
  })
}

function lastNumberOf({ latest }: EntryOf<'sequenceGroup'>): string {
  if (latest?.lastValue == null) return 'it has no number yet'
  return `its last number is ${latest.lastValue}${latest.period === 0 ? '' : `, in period ${latest.period}`}`
}
