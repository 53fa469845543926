import { isDeepStrictEqual, parseArgs } from 'node:util'
import { MissingRow } from '../commit/call.ts'
import { readDatabaseConfig } from '../config.ts'
import type { Target } from '../mysql/settings.ts'
import { RowState } from '../rules/addition.ts'
import { isKnownZone, isPeriodKey, periodKeyOf } from '../rules/calendar.ts'
import { DEFAULT_RETENTION, type Definition, keyText, UNBOUNDED } from '../rules/counter.ts'
import { apply } from '../rules/counterOperations.ts'
import type { Entry, EntryOf, GroupPeriod } from '../rules/entries.ts'
import { NthError } from '../rules/errors.ts'
import { nameFault } from '../rules/names.ts'
import { raiseRefusal } from '../rules/sequence.ts'
import { defaultSequenceDefinition, type SequenceDefinition, union } from '../rules/sequenceDefinition.ts'
import { audit, withDatabase } from './database.ts'
import { createProgress, withNotice } from './files.ts'
import { openOperations } from './openOperations.ts'
import { partsOf } from './paging.ts'
import { checkAll, described, openFile, placedIn, type Source } from './source.ts'
import { type EntryOutcome, OUTCOMES, Summary } from './summary.ts'

export const USAGE = `Usage: nth import <file> [options]

Raises counters and sequence groups to the numbers of a file: an export or a backup in JSON Lines, or CSV with the columns
name and value, and optionally namespace. The database is that of DATABASE_URL, or else the private one of NTH_DATA_DIR. It
works while Nth runs, too. A file named - is the standard input.

The file is checked first. If anything is wrong, the faults are listed by line, and nothing is applied.

If a number exists, the greater one stays; in a descending sequence, the lower one. Counters and sequences that don't exist
are defined as in the file. So you can repeat an import, also after an interruption. Totals of periods, reservations, holds,
subjects, keys and documents stay behind: nth restore takes them into an empty database.

  --dry-run           only print what would be done
  --namespace <name>  namespace of counters without one (default)
  --max-size <MiB>    maximum size of what is read from the standard input or a pipe (1024)

The exit code is 1 if a number was refused.
`

const OVERWRITE = `--overwrite is gone: nth import only raises numbers. To lower one, call reset or restartSequence; to change a definition,
defineCounter or defineSequence; to take over everything, nth restore into an empty database.`

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
  const source = await openFile(file, { namespace, maxSizeMib: Number(size) })
  try {
    await checkAll(source)
    await withDatabase(async (target) => {
      if ((await importAll(target, source, isDryRun)) > 0) process.exitCode = 1
    })
  } finally {
    await source.close()
  }
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
async function importAll(target: Target, source: Source, isTrial: boolean): Promise<number> {
  const nth = openOperations(target, BATCH)
  const importer = new Importer(nth, isTrial)
  const progress = createProgress(process.stderr)
  const summary = new Summary()
  let [entries, notes, refusals] = [0, 0, 0]
  // The last lines of the last batch that was applied, and of the one that was begun.
  let [applied, begun] = [0, 0]

  async function applyAll(): Promise<void> {
    for await (const [, batch] of partsOf(placedIn(source), BATCH, ({ entry }) => entry.type)) {
      begun = batch.at(-1)?.line ?? begun
      const results = await importer.apply(batch.map(({ entry }) => entry))
      applied = begun
      for (const [index, { line, entry }] of batch.entries()) {
        const { outcome, note } = results[index] ?? { outcome: 'left behind' as const }
        summary.add(entry.type, outcome, 'subjects' in entry ? entry.subjects.length : 1)
        if ('history' in entry) summary.add('counterHistory', 'left behind', entry.history.length)
        if (outcome === 'refused') refusals++
        if (!note || ++notes > MAX_NOTES + 1) continue
        progress.clear()
        const text = `Line ${line}: ${described(entry)}: ${note}`
        console.error(notes <= MAX_NOTES ? text : 'More of these are not shown.')
      }
      entries += batch.length
      progress.show(entries, source.fraction())
    }
  }

  function progressText(): string {
    if (isTrial || begun === 0) return 'Nothing was applied.'
    const sure = applied > 0 ? `Applied up to line ${applied}` : 'Applied no line for certain'
    const uncertain = begun > applied ? `, and perhaps some lines up to ${begun}` : ''
    return `${sure}${uncertain}. Repeat the command to go on.`
  }

  try {
    await withNotice(progressText, applyAll)
  } finally {
    await nth.close()
    progress.clear()
    if (isTrial) console.error('Dry run: nothing was changed.')
    else if (begun > 0)
      audit({
        field: 'nth import',
        count: entries,
        code: begun > applied ? 'OUTCOME_UNKNOWN' : undefined,
      })
    for (const line of summary.lines()) console.error(line)
  }
  return refusals
}

/** What was done with an entry. `note`: why it was refused, or what differs. */
interface Result {
  outcome: EntryOutcome
  note?: string | undefined
}

type GroupEntry = EntryOf<'sequenceGroup'> | EntryOf<'sequenceGroupPeriods'>

/** Raises the numbers of entries; in a trial, finds out what that would do. */
class Importer {
  readonly #nth: ReturnType<typeof openOperations>
  readonly #isTrial: boolean
  /** In a trial: the definitions of sequences that would be created. */
  readonly #planned = new Map<string, SequenceDefinition>()

  constructor(nth: ReturnType<typeof openOperations>, isTrial: boolean) {
    this.#nth = nth
    this.#isTrial = isTrial
  }

  /** Applies entries of one type. Returns a result for each; none: all of them are left behind. */
  async apply(entries: readonly Entry[]): Promise<Result[]> {
    // They are of the type of the first one.
    switch (entries[0]?.type) {
      case 'namespace':
        return this.#defineNamespaces(entries as EntryOf<'namespace'>[])
      case 'counter':
        return each(entries as EntryOf<'counter'>[], (entry) => this.#raiseCounter(entry))
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
      if (!this.#isTrial) await this.#nth.namespaces.define(name, { timeZone, periods, leaderboards })
      return { outcome: 'created' }
    })
  }

  async #raiseCounter({ namespace, name, value: to, definition }: EntryOf<'counter'>): Promise<Result> {
    const change = await this.#nth.counters
      .raise({ namespace, name }, to, definition, this.#isTrial)
      .catch((error) => {
        if (!(error instanceof MissingRow)) throw error
        const row = new RowState({ ...UNBOUNDED, ...DEFAULT_RETENTION })
        row.isNew = true
        const result = apply(row, { kind: 'raise', to, change: definition }, new Date())
        if (result instanceof NthError) throw result
        return result
      })
    if (change.isNew) return { outcome: 'created' }
    const isOther = definition && change.definition && !isSame(definition, change.definition)
    const outcome = change.value > change.previousValue ? 'raised' : 'kept'
    return { outcome, note: isOther ? OTHER_DEFINITION : undefined }
  }

  async #defineSequences(entries: readonly EntryOf<'sequence'>[]): Promise<Result[]> {
    const states = await this.#nth.sequences.readMany(
      entries.map(({ namespace, name }) => ({ namespace, name })),
    )
    return each(entries, async (entry, index) => {
      const { definition, formatHistory, pastFormats = [], hasMigratedRepeats = false } = entry
      const present = states[index]?.definition
      if (present) {
        const isOther = !isDeepStrictEqual(present, definition)
        return { outcome: 'kept', note: isOther ? OTHER_DEFINITION : undefined }
      }
      const imported = { pastFormats: union(formatHistory, pastFormats), hasMigratedRepeats }
      if (this.#isTrial) this.#planned.set(keyText(entry), definition)
      else await this.#nth.sequences.define(entry, definition, undefined, imported)
      return { outcome: 'created' }
    })
  }

  async #raiseGroups(entries: readonly GroupEntry[]): Promise<Result[]> {
    const keys = entries.map(({ namespace, sequence: name }) => ({ namespace, name }))
    const states = await this.#nth.sequences.readMany(keys)
    return each(entries, async (entry, index) => {
      const planned = this.#planned.get(keyText({ namespace: entry.namespace, name: entry.sequence }))
      return this.#raiseGroup(entry, states[index]?.definition ?? planned ?? defaultSequenceDefinition('UTC'))
    })
  }

  async #raiseGroup(entry: GroupEntry, definition: SequenceDefinition): Promise<Result> {
    const { namespace, sequence, group } = entry
    // A CSV doesn't say by which definition its numbers were issued; nor does a group that was raised by one.
    const isIssued = entry.type !== 'sequenceGroup' || entry.latest?.timeZone !== undefined
    const outcomes = new Set<EntryOutcome>()
    for (const { period, lastValue: last, nextValue: next } of ongoing(entry, definition)) {
      const position = { last, next }
      // Refused before anything is created.
      const refusal = raiseRefusal(definition, group, period, position)
      if (refusal) throw refusal
      const raise = { period, position, isIssued, isTrial: this.#isTrial }
      const outcome = await this.#nth.sequences
        .raise({ namespace, sequence, group }, raise)
        .catch((error): 'created' => {
          if (!(error instanceof MissingRow)) throw error
          return 'created'
        })
      outcomes.add(outcome)
    }
    // Of several periods, the one that changed most says what was done.
    return { outcome: OUTCOMES.find((outcome) => outcomes.has(outcome)) ?? 'left behind' }
  }
}

const OTHER_DEFINITION = 'it has another definition here, which stays.'

const FAILURES: ReadonlySet<string> = new Set(['UNAVAILABLE', 'OUTCOME_UNKNOWN', 'INTERNAL_SERVER_ERROR'])

/** @throws {NthError} if the database can't be used; what refuses one entry is its result */
function each<Item>(items: readonly Item[], work: (item: Item, index: number) => Promise<Result>) {
  const results = items.map((item, index) =>
    work(item, index).catch((error): Result => {
      const isRefusal = error instanceof NthError && !FAILURES.has(error.code)
      if (!isRefusal) throw error
      return { outcome: 'refused', note: error.message }
    }),
  )
  return Promise.all(results)
}

/** Whether callers see the same definition: not since when periods are tracked, nor whether it was held. */
function isSame(a: Definition, b: Definition): boolean {
  const visible = ({ periods, hasHolds: _, ...rest }: Definition) => {
    return { ...rest, periods: periods.map(({ period, keepDays }) => ({ period, keepDays })) }
  }
  return isDeepStrictEqual(visible(a), visible(b))
}

/** The positions of an entry in the present and later periods; and in its latest one, if that can't be compared with them. */
function ongoing(entry: GroupEntry, { restartEvery, timeZone }: SequenceDefinition): readonly GroupPeriod[] {
  const present = isKnownZone(timeZone) ? periodKeyOf(restartEvery, timeZone, new Date()) : 0
  const latest = entry.type === 'sequenceGroup' && entry.latest?.isCurrent ? entry.latest.period : undefined
  return entry.periods.filter(({ period }) =>
    isPeriodKey(period, restartEvery) ? period >= present : period === latest,
  )
}
