import { isDeepStrictEqual, parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import { openHosts } from '../mysql/hosts.ts'
import { type Database, openDatabase } from '../mysql/pool.ts'
import type { Target } from '../mysql/settings.ts'
import { JOINED } from '../mysql/slots.ts'
import { SILENT } from '../operations/log.ts'
import { openNth } from '../repository/nth.ts'
import { type PositionReading, readPositionsIn } from '../repository/sequenceGroups.ts'
import { isKnownZone, isPeriodKey, periodKeyOf } from '../rules/calendar.ts'
import {
  apply,
  type CounterKey,
  type CounterOperation,
  type CounterResult,
  type CounterState,
  DEFAULT_RETENTION,
  type Definition,
  keyText,
  RowState,
  UNBOUNDED,
} from '../rules/counter.ts'
import type { Entry, EntryOf, GroupPeriod, Placed } from '../rules/entries.ts'
import { assertInvariant, NthError } from '../rules/errors.ts'
import { nameFault } from '../rules/names.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import { applyToSequence, numberState, raiseRefusal, type SequenceOperation } from '../rules/sequence.ts'
import { defaultSequenceDefinition, type SequenceDefinition, union } from '../rules/sequenceDefinition.ts'
import { withDatabase } from './database.ts'
import { createProgress, withNotice } from './files.ts'
import { partsOf } from './paging.ts'
import { checkAll, described, openFile, type Source } from './source.ts'

export const USAGE = `Usage: nth import <file> [options]

Raises counters and sequence groups to the numbers of a file: an export or a backup in JSON Lines, or CSV with the columns
name and value, and optionally namespace. The database is that of DATABASE_URL, or else the private one of NTH_DATA_DIR. It
works while Nth runs, too. A file named - is the standard input.

The file is checked first. If anything is wrong, the faults are listed by line, and nothing is applied.

If a number exists, the greater one stays; in a descending sequence, the lower one. Counters and sequences that don't exist
are defined as in the file. So you can repeat an import, also after an interruption. Totals of periods, reservations,
subjects, keys and documents stay behind: nth restore takes them into an empty database.

  --dry-run           only print what would be done
  --namespace <name>  namespace of counters without one (default)
  --max-size <MiB>    maximum size of what is read from the standard input or a pipe (1024)

The exit code is 1 if a number was refused.
`

const OVERWRITE = `--overwrite is gone: nth import only raises numbers. To lower one, call reset or restartSequence; to change a definition,
defineCounter or defineSequence; to take over everything, nth restore into an empty database.`

const MIB = 2 ** 20

/** `nth import`. */
export async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      overwrite: { type: 'boolean' },
      namespace: { type: 'string', default: 'default' },
      'max-size': { type: 'string', default: '1024' },
    },
  })
  const [file, ...rest] = positionals
  const { namespace, overwrite, 'dry-run': isDryRun, 'max-size': size } = values
  if (overwrite) throw new Error(OVERWRITE)
  if (file === undefined) throw new Error('Give the file to import; see --help.')
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  const fault = nameFault(namespace)
  if (fault) throw new Error(`--namespace ${fault.message}.`)
  if (!/^[1-9]\d{0,6}$/.test(size))
    throw new Error(`--max-size must be a whole number from 1 to 9999999; it is "${size}".`)
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  const source = await openFile(file, { namespace, maxSize: Number(size) * MIB })
  try {
    await checkAll(source)
    await withDatabase(async (target) => {
      if ((await importAll(target, source, isDryRun)) > 0) process.exitCode = 1
    })
  } finally {
    await source.close()
  }
}

/** What an import does with a namespace, counter, sequence or sequence group. */
const OUTCOMES = ['created', 'raised', 'kept', 'refused'] as const

/** `note`: why it was refused, or what differs. */
interface Result {
  outcome: (typeof OUTCOMES)[number]
  note?: string | undefined
}

/** Notes that are shown; the others are only counted. */
const MAX_NOTES = 20
/** Entries that are applied together: about as many as a flush takes. */
const BATCH = 1000

/**
 * Imports a source that was checked, and says on the standard error what was done. Returns how many entries were refused.
 *
 * @throws {Error} that says up to where it was applied
 */
async function importAll(target: Target, source: Source, isDryRun: boolean): Promise<number> {
  const importer = new Importer(target, isDryRun)
  const progress = createProgress(process.stderr)
  /** How many entries of a type had an outcome, by both. */
  const counts = new Map<string, number>()
  const left = new LeftBehind()
  let [entries, notes, refusals] = [0, 0, 0]
  // The last lines of the last batch that was applied, and of the one that was begun.
  let [applied, begun] = [0, 0]

  function note({ line, entry }: Placed, { outcome, note }: Result): void {
    const key = `${entry.type} ${outcome}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
    if (outcome === 'refused') refusals++
    if (!note || ++notes > MAX_NOTES + 1) return
    progress.clear()
    console.error(
      notes <= MAX_NOTES ? `Line ${line}: ${described(entry)}: ${note}` : 'More of these are not shown.',
    )
  }

  async function applyAll(): Promise<void> {
    for await (const [, batch] of partsOf(placedIn(source), BATCH, ({ entry }) => entry.type)) {
      begun = batch.at(-1)?.line ?? begun
      const results = await importer.apply(batch.map(({ entry }) => entry))
      applied = begun
      for (const [index, placed] of batch.entries()) {
        const result = results[index]
        if (result) note(placed, result)
        left.add(placed.entry, result !== undefined)
      }
      entries += batch.length
      progress.show(entries, source.fraction())
    }
  }

  function progressText(): string {
    if (isDryRun || begun === 0) return 'Nothing was applied.'
    const sure = applied > 0 ? `Applied up to line ${applied}` : 'Applied no line for certain'
    const uncertain = begun > applied ? `, and perhaps some lines up to ${begun}` : ''
    return `${sure}${uncertain}. Repeat the command to go on.`
  }

  try {
    await withNotice(progressText, applyAll)
  } finally {
    await importer.close()
    progress.clear()
    if (isDryRun) console.error('Dry run: nothing was changed.')
    for (const [type, title] of Object.entries(TITLES)) {
      const parts = OUTCOMES.flatMap((outcome) => {
        const count = counts.get(`${type} ${outcome}`)
        return count ? `${count} ${outcome}` : []
      })
      if (parts.length > 0) console.error(`${title}: ${parts.join(', ')}.`)
    }
    for (const line of left.lines()) console.error(line)
  }
  return refusals
}

const TITLES = {
  namespace: 'Namespaces',
  counter: 'Counters',
  sequence: 'Sequences',
  sequenceGroup: 'Sequence groups',
  sequenceGroupPeriods: 'Further periods of sequence groups',
}

async function* placedIn(source: Source): AsyncGenerator<Placed> {
  for await (const part of source.parts()) {
    if ('fault' in part) throw new Error(`Line ${part.line} has changed since it was checked.`)
    yield part
  }
}

/** Counts what an import leaves behind. */
class LeftBehind {
  readonly #counts = new Map<string, number>()

  add(entry: Entry, isApplied: boolean): void {
    if ('history' in entry) this.#count('totals of periods', entry.history.length)
    else if ('subjects' in entry) this.#count('subjects', entry.subjects.length)
    else if (entry.type === 'reservation') this.#count('reservations', 1)
    else if (entry.type === 'apiKey') this.#count('API keys', 1)
    else if (entry.type === 'trustedDocument') this.#count('trusted documents', 1)
    else if (entry.type === 'idempotencyKey') this.#count('results of idempotency keys', 1)
    else if (!isApplied) this.#count('sequence groups with numbers of past periods only', 1)
  }

  #count(what: string, count: number): void {
    if (count > 0) this.#counts.set(what, (this.#counts.get(what) ?? 0) + count)
  }

  lines(): string[] {
    const counts = [...this.#counts].map(([what, count]) => `${what} ${count}`)
    return counts.length > 0 ? [`Left behind: ${counts.join(', ')}.`] : []
  }
}

const TIME_LIMIT_MS = 60_000

/** What raises the numbers of entries, or compares them with those that are there. */
class Importer {
  readonly #nth: ReturnType<typeof openNth>
  /** For comparisons. */
  readonly #database: Database
  readonly #isDryRun: boolean
  /** In a dry run: the definitions of the sequences that would be created. */
  readonly #planned = new Map<string, SequenceDefinition>()

  constructor(target: Target, isDryRun: boolean) {
    this.#isDryRun = isDryRun
    this.#database = openDatabase(openHosts([target]), { timeLimitMs: TIME_LIMIT_MS, maxPending: 10 })
    this.#nth = openNth([target], {
      timeoutMs: TIME_LIMIT_MS,
      maxPending: 2 * BATCH,
      keyTtlMs: readDatabaseConfig().keyTtlMs,
      runsJobs: false,
      random: Math.random,
      notices: { ...SILENT, fault: console.error },
    })
  }

  /** Applies entries of one type. Returns a result for each; undefined: it is left behind. */
  async apply(entries: readonly Entry[]): Promise<readonly (Result | undefined)[]> {
    // They are of the type of the first one.
    switch (entries[0]?.type) {
      case 'namespace':
        return this.#defineNamespaces(entries as EntryOf<'namespace'>[])
      case 'counter':
        return this.#raiseCounters(entries as EntryOf<'counter'>[])
      case 'sequence':
        return this.#defineSequences(entries as EntryOf<'sequence'>[])
      case 'sequenceGroup':
      case 'sequenceGroupPeriods':
        return this.#raiseGroups(entries as GroupEntry[])
      default:
        return []
    }
  }

  async #defineNamespaces(entries: readonly EntryOf<'namespace'>[]): Promise<Result[]> {
    const existing = await this.#nth.namespaces.existing(entries.map(({ name }) => name))
    return each(entries, async ({ name, timeZone, periods, leaderboards }) => {
      if (existing.has(name)) return { outcome: 'kept' }
      if (!this.#isDryRun) await this.#nth.namespaces.define(name, { timeZone, periods, leaderboards })
      return { outcome: 'created' }
    })
  }

  async #raiseCounters(entries: readonly EntryOf<'counter'>[]): Promise<Result[]> {
    const states = this.#isDryRun ? await this.#nth.counters.readMany(entries.map(counterKeyIn)) : []
    return each(entries, async (entry, index) => {
      const { value, definition: change } = entry
      const state = states[index]
      const { isNew, previousValue, ...present } = state
        ? raised(state, { kind: 'raise', to: value, change })
        : await this.#nth.counters.raise(counterKeyIn(entry), value, change)
      if (isNew) return { outcome: 'created' }
      const isOther = change && present.definition && !isSame(change, present.definition)
      const outcome = present.value > previousValue ? 'raised' : 'kept'
      return { outcome, note: isOther ? OTHER_DEFINITION : undefined }
    })
  }

  async #defineSequences(entries: readonly EntryOf<'sequence'>[]): Promise<Result[]> {
    const states = await this.#nth.sequences.readMany(entries.map(counterKeyIn))
    return each(entries, async (entry, index) => {
      const { definition, formatHistory, pastFormats = [], hasMigratedRepeats = false } = entry
      const present = states[index]?.definition
      if (present) {
        const isOther = !isDeepStrictEqual(present, definition)
        return { outcome: 'kept', note: isOther ? OTHER_DEFINITION : undefined }
      }
      const imported = { pastFormats: union(formatHistory, pastFormats), hasMigratedRepeats }
      if (this.#isDryRun) this.#planned.set(keyText(entry), definition)
      else await this.#nth.sequences.define(entry, definition, undefined, imported)
      return { outcome: 'created' }
    })
  }

  async #raiseGroups(entries: readonly GroupEntry[]): Promise<(Result | undefined)[]> {
    const keys = entries.map(({ namespace, sequence: name }) => ({ namespace, name }))
    const states = await this.#nth.sequences.readMany(keys)
    const raises = entries.map((entry, index) => {
      const key = { namespace: entry.namespace, name: entry.sequence }
      const definition =
        states[index]?.definition ?? this.#planned.get(keyText(key)) ?? defaultSequenceDefinition('UTC')
      return { entry, definition, periods: ongoing(entry, definition) }
    })
    const places = raises.flatMap(({ entry, periods }) => periods.map(({ period }) => ({ ...entry, period })))
    const readings = this.#isDryRun
      ? await this.#database.withRetry(JOINED, (connection) => readPositionsIn(connection, places))
      : undefined
    const results = await each(raises, async ({ entry, definition, periods }) => {
      const { namespace, sequence, group } = entry
      // One that was raised but has issued no number has no time zone of its own, and nor has a CSV.
      const isIssued = entry.type !== 'sequenceGroup' || entry.latest?.timeZone !== undefined
      const outcomes: Result['outcome'][] = []
      for (const { period, lastValue: last, nextValue: next } of periods) {
        const position = { last, next }
        // Refused before anything is created.
        const refusal = raiseRefusal(definition, group, period, position)
        if (refusal) throw refusal
        const reading = readings?.(entry, period)
        const operation = { kind: 'raise', period, position, isIssued } as const
        outcomes.push(
          reading
            ? raisedGroup({ definition, group }, reading, operation)
            : await this.#nth.sequences.raise({ namespace, sequence, group }, period, position, isIssued),
        )
      }
      return { outcome: OUTCOMES.find((outcome) => outcomes.includes(outcome)) ?? 'kept' }
    })
    return results.map((result, index) => (raises[index]?.periods.length === 0 ? undefined : result))
  }

  async close(): Promise<void> {
    await Promise.all([this.#nth.close(), this.#database.close()])
  }
}

const OTHER_DEFINITION = 'it has another definition here, which stays.'

/** @throws {NthError} if the database can't be used; what refuses one entry is its result */
function each<Item>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  return Promise.all(
    items.map((item, index) =>
      work(item, index).catch((error): Result => {
        const isRefusal = error instanceof NthError && !FAILURES.has(error.code)
        if (!isRefusal) throw error
        return { outcome: 'refused', note: error.message }
      }),
    ),
  )
}

const FAILURES: ReadonlySet<string> = new Set(['UNAVAILABLE', 'OUTCOME_UNKNOWN', 'INTERNAL_SERVER_ERROR'])

function counterKeyIn({ namespace, name }: CounterKey): CounterKey {
  return { namespace, name }
}

/** Whether callers see the same definition: not since when periods are tracked. */
function isSame(one: Definition, other: Definition): boolean {
  const visible = ({ periods, ...rest }: Definition) => {
    return { ...rest, periods: periods.map(({ period, keepDays }) => ({ period, keepDays })) }
  }
  return isDeepStrictEqual(visible(one), visible(other))
}

/** What a counter would become. */
function raised(state: CounterState, operation: CounterOperation): CounterResult {
  const row = new RowState(state.definition ?? { ...UNBOUNDED, ...DEFAULT_RETENTION })
  row.value = state.value
  row.isNew = state.definition === undefined
  const result = apply(row, operation, new Date())
  if (result instanceof NthError) throw result
  return result
}

type GroupEntry = EntryOf<'sequenceGroup'> | EntryOf<'sequenceGroupPeriods'>

/** The positions of an entry in the present and later periods; and in its latest one, if that can't be compared with them. */
function ongoing(entry: GroupEntry, { restartEvery, timeZone }: SequenceDefinition): readonly GroupPeriod[] {
  const present = isKnownZone(timeZone) ? periodKeyOf(restartEvery, timeZone, new Date()) : 0
  const latest = entry.type === 'sequenceGroup' && entry.latest?.isCurrent ? entry.latest.period : undefined
  return entry.periods.filter(({ period }) =>
    isPeriodKey(period, restartEvery) ? period >= present : period === latest,
  )
}

/** What would be done with a sequence group. */
function raisedGroup(
  row: Pick<SequenceGroupRow, 'definition' | 'group'>,
  reading: PositionReading,
  operation: Extract<SequenceOperation, { kind: 'raise' }>,
): Result['outcome'] {
  const state = numberState({ row, periodKey: operation.period }, { ...NOTHING_READ, ...reading })
  const result = applyToSequence(state, operation, new Date())
  if (result instanceof NthError) throw result
  assertInvariant(result.kind === 'raise', 'the result is that of the operation')
  return result.outcome
}

/** What has no influence on a raise. */
const NOTHING_READ = {
  generation: 0,
  now: 0,
  free: [],
  reservations: [],
  confirmed: null,
  subjects: undefined,
  revision: undefined,
}
