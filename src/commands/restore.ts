import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import { Hosts } from '../mysql/hosts.ts'
import { Database } from '../mysql/pool.ts'
import { openConnection, type Target } from '../mysql/settings.ts'
import { JOBS } from '../mysql/slots.ts'
import { integer, REVISION_OF_NOW, raiseMark, readValue } from '../mysql/sql.ts'
import { migrateAgain } from '../repository/migrate.ts'
import { keyText } from '../rules/counter.ts'
import type { Entry, EntryOf, EntryType } from '../rules/entries.ts'
import { NthError } from '../rules/errors.ts'
import { claimOf } from '../rules/idempotency.ts'
import { MAX_BLOCK } from '../rules/sequenceDefinition.ts'
import { BACKUP_FILE } from './backup.ts'
import { audit, withDatabase } from './database.ts'
import { createProgress, withNotice } from './files.ts'
import { NO_EXPORT } from './formats.ts'
import { openOperations } from './openOperations.ts'
import { partsOf } from './paging.ts'
import { restoreRows } from './restoreRows.ts'
import { type Snapshot, withSnapshot } from './snapshot.ts'
import { checkAll, described, openFile, placedIn, type Source } from './source.ts'
import { Summary } from './summary.ts'

export const USAGE = `Usage: nth restore <path> [--advance <n>] [--continue]
       nth restore --advance <n>

Restores the directory of a backup, or the file of an export in JSON Lines, into an empty database: that of DATABASE_URL,
or else the private one of NTH_DATA_DIR. Stop Nth first. The file is checked, and not applied if anything is wrong.
Prints the instant whose state it has.

  --advance <n>  also move every sequence and exact counter on by n (1 to ${MAX_BLOCK}), so that no number issued after
                 that instant is issued again. Lists what it doesn't move, such as gapless sequences. Without a path, it
                 only moves the numbers, of a database that was restored in another way; a repeat moves them again
  --continue     go on with a restore that was interrupted: adds what is missing, and moves no number on twice
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
    },
  })
  const [path, ...rest] = positionals
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const advanceBy = values.advance === undefined ? undefined : numberIn(values.advance)
  if (path === undefined && advanceBy === undefined)
    throw new Error('Give the directory of a backup, or the file of an export; see --help.')
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  if (path !== undefined) return restore(path, advanceBy, values.continue)
  if (advanceBy !== undefined) await withDatabase((target) => advance(target, advanceBy))
}

function numberIn(text: string): number {
  const number = /^\d{1,7}$/.test(text) ? Number(text) : 0
  if (number >= 1 && number <= MAX_BLOCK) return number
  throw new Error(`--advance must be a whole number from 1 to ${MAX_BLOCK}; it is "${text}".`)
}

async function restore(path: string, advanceBy: number | undefined, continues: boolean): Promise<void> {
  const file = await fileAt(path)
  const source = await openFile(file)
  try {
    if (!source.header) throw new Error(`${file}: ${NO_EXPORT}`)
    const { at, revision = 0 } = source.header
    await checkAll(source)
    await withDatabase(async (target) => {
      await prepare(target, continues, Math.max(revision, 1000 * (at.getTime() - Date.UTC(2020, 0))))
      await restoreAll(target, source)
      console.log(`Restored as of ${at.toISOString()}.`)
      console.error(LATER)
      if (advanceBy === undefined) console.error(NOT_ADVANCED)
      else await advance(target, advanceBy, at)
    })
  } finally {
    await source.close()
  }
}

/** The file of a backup, which may also be given as its directory. */
async function fileAt(path: string): Promise<string> {
  const stats = await stat(path).catch(() => undefined)
  return stats?.isDirectory() ? join(path, BACKUP_FILE) : path
}

/** The tables of what is counted. Lines that only continue another one are part of it. */
const TABLES = {
  namespace: 'namespace',
  counter: 'counter',
  sequence: 'sequence',
  sequenceGroup: 'sequence_group',
  reservation: 'reservation',
  hold: 'hold',
  counterSubjects: 'counter_subject',
  sequenceGroupSubjects: 'sequence_subject',
  trustedDocument: 'trusted_document',
  apiKey: 'api_key',
  idempotencyKey: 'idempotency_key',
} as const

const KINDS = Object.entries(TABLES) as [keyof typeof TABLES, string][]

/** Time limit of a batch, with its retries after lost connections. */
const BATCH_LIMIT_MS = 120_000
/** Entries of one transaction. */
const BATCH = 200

/** Inserts all entries of a file, and prints how many of each kind were missing. */
async function restoreAll(target: Target, source: Source): Promise<void> {
  const options = { timeLimitMs: BATCH_LIMIT_MS, maxPending: 1, isForChanges: true }
  const database = new Database(new Hosts([target]), options)
  const progress = createProgress(process.stderr)
  const counts: { [Type in EntryType]?: number } = {}
  let [entries, line] = [0, 1]

  async function insertAll(): Promise<void> {
    const batches = partsOf(placedIn(source), BATCH, ({ entry }) => entry.type)
    for await (const [, batch] of batches) {
      const restored = batch.map(({ entry }) => entry)
      await database.withRetry(JOBS, (connection) => restoreRows(connection, restored))
      line = batch.at(-1)?.line ?? line
      entries += batch.length
      progress.show(entries, source.fraction())
      for (const entry of restored)
        counts[entry.type] = (counts[entry.type] ?? 0) + ('subjects' in entry ? entry.subjects.length : 1)
    }
  }

  const noticeOf = () =>
    `Restored up to line ${line}, and perhaps some lines after it. Repeat the command with --continue.`
  try {
    const [before = {}] = await database.select<Record<string, number>>(JOBS, COUNT_ROWS)
    await withNotice(noticeOf, insertAll)
    // Earlier versions let named sequence groups use a format that doesn't show them.
    await migrateAgain(target, '0009_past_formats.sql')
    const [after = {}] = await database.select<Record<string, number>>(JOBS, COUNT_ROWS)
    progress.clear()
    const summary = new Summary()
    for (const [type] of KINDS) {
      const created = (after[type] ?? 0) - (before[type] ?? 0)
      summary.add(type, 'created', created)
      summary.add(type, 'kept', Math.max(0, (counts[type] ?? 0) - created))
    }
    for (const sentence of summary.lines()) console.error(sentence)
  } finally {
    progress.clear()
    if (entries > 0) audit({ field: 'nth restore', count: entries })
    await database.close()
  }
}

const COUNT_ROWS = `select ${KINDS.map(([type, table]) => `(select count(*) from ${table}) as ${type}`).join(',\n       ')}`

const LATER = `Everything after that instant is missing: new names, definitions, deletions, and revocations of API keys (see nth keys
list). Names that were first used later start again.`

const NOT_ADVANCED = `Numbers issued later will be issued again. nth restore --advance <n> moves all on by n: choose more than any of them has
issued since.`

/**
 * Refuses a database that is used: numbers that are issued while a restore runs could come twice. Raises its mark to the
 * revision of the backup: what pages have seen must not be newer than what is restored.
 */
async function prepare(target: Target, continues: boolean, revision: number): Promise<void> {
  const connection = await openConnection(target)
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

/** Counts sessions that the user may see: without the right PROCESS its own, on a cluster the sessions of one node. */
const OTHER_SESSIONS = `(select count(*)
                from information_schema.processlist
               where db = database() and id <> connection_id())`

const HAS_ROWS = KINDS.map(([, table]) => `exists (select 1 from ${table})`).join(' or ')

/** Changes in flight: a flush takes about as many. */
const AT_ONCE = 500

/**
 * Moves every sequence group and exact counter of a database on, and prints those that it can't move.
 *
 * @param by how many numbers are skipped, 1 to 1 000 000
 * @param backupAt instant of the backup; a repeat for the same one moves nothing twice, while idempotency keys are kept
 */
export async function advance(target: Target, by: number, backupAt?: Date): Promise<void> {
  // A restored database gets all leaderboards when Nth starts: copies took 40 % of the database's processor time.
  const copiesToLeaderboards = backupAt === undefined
  // Where commits were lost, this is what makes up for it.
  const nth = openOperations(target, AT_ONCE, { copiesToLeaderboards, worksDespiteLoss: true })
  const gapless = new Set<string>()
  const moved = { counters: 0, groups: 0 }
  /** Numbers of counters and sequence groups that an earlier run for the same backup has moved on. */
  const replayed = { counters: 0, groups: 0 }

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
      // The counter counts down, such as a stock: more would be sold than there is.
      if (definition.minValue !== null) return ` has a minimum; its value is ${value}.`
      const options = { claim: claimFor(namespace, name) }
      const { isReplayed } = await nth.counters.incrementBy({ namespace, name }, by, options)
      const counts = isReplayed ? replayed : moved
      counts.counters++
    } else if (entry.type === 'sequenceGroup') {
      const { namespace, sequence, group } = entry
      if (gapless.has(keyText({ namespace, name: sequence }))) return ` is gapless; ${lastNumberOf(entry)}.`
      const options = { claim: claimFor(namespace, sequence, group) }
      const { isReplayed } = await nth.sequences.next({ namespace, sequence, group }, by, options)
      const counts = isReplayed ? replayed : moved
      counts.groups++
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
    const count = moved.counters + moved.groups
    if (count > 0) audit({ field: 'nth restore --advance', count })
    await nth.close()
  }
  const before = `${replayed.counters} counters and ${replayed.groups} groups had been moved on before`
  console.log(`${movedOn()}${replayed.counters + replayed.groups > 0 ? `; ${before}` : ''}.`)
}

function lastNumberOf({ latest }: EntryOf<'sequenceGroup'>): string {
  if (latest?.lastValue == null) return 'it has no number yet'
  return `its last number is ${latest.lastValue}${latest.period === 0 ? '' : `, in period ${latest.period}`}`
}
