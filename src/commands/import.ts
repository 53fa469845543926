import { hash } from 'node:crypto'
import { parseArgs } from 'node:util'
import { readDatabaseConfig } from '../config.ts'
import type { Target } from '../mysql/settings.ts'
import { migrateAgain } from '../repository/migrate.ts'
import { keyText } from '../rules/counter.ts'
import type { Entry, EntryType, Placed } from '../rules/entries.ts'
import { type Options, OUTCOMES, type Result } from '../rules/merge.ts'
import { nameFault } from '../rules/names.ts'
import { sequenceGroupKeyText } from '../rules/sequence.ts'
import { withDatabase } from './database.ts'
import { createProgress, withNotice } from './files.ts'
import { openImporter } from './importer.ts'
import { openFile, type Source } from './source.ts'

export const USAGE = `Usage: nth import <file> [options]

Imports counters, sequences and namespaces from an export, or counters from CSV with the columns name, value and
optionally namespace, into the database of DATABASE_URL, or else the private one of NTH_DATA_DIR. It works while Nth
runs, too. A file named - is the standard input.

The file is checked first. If anything is wrong, the faults are listed by line, and nothing is applied.

If a number exists, the greater one stays; in a descending sequence, the lower one. So you can repeat an import, also
after an interruption.

  --dry-run           only print what would be done
  --overwrite         replace existing numbers and definitions by those of the file, even with lower numbers
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
    },
  })
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

/** Faults that are listed; the others are only counted. */
const MAX_LISTED = 20

/**
 * Reads a source whole, before any of it is applied.
 *
 * @param takesKeys whether it may have API keys and idempotency keys: whoever wrote the file is trusted with them
 * @throws {Error} that lists what is wrong with it
 */
export async function checkAll(source: Source, takesKeys: boolean): Promise<void> {
  const progress = createProgress(process.stderr)
  const lineOf = new Map<string, number>()
  const listed: string[] = []
  let [faults, parts] = [0, 0]

  function faultOf({ line, entry }: Placed): string | undefined {
    const { type } = entry
    if (!takesKeys && (type === 'trustedDocument' || type === 'apiKey' || type === 'idempotencyKey'))
      return 'only nth restore takes trusted documents, API keys and results of idempotency keys'
    // These continue what another line has.
    if (type === 'counterHistory' || type === 'sequenceGroupPeriods' || 'subjects' in entry) return undefined
    // Short, as all keys of a file are kept.
    const key = hash('sha256', `${type} ${keyOf(entry)}`, 'buffer').toString('latin1', 0, 12)
    const before = lineOf.get(key)
    if (before !== undefined) return `${described(entry)} is also in line ${before}`
    lineOf.set(key, line)
    return undefined
  }

  try {
    for await (const part of source.parts()) {
      const fault = 'fault' in part ? part.fault : faultOf(part)
      if (fault && ++faults <= MAX_LISTED) listed.push(`Line ${part.line}: ${fault}.`)
      progress.show(++parts, source.fraction())
    }
  } catch (error) {
    // It can't be read further.
    faults++
    listed.push((error as Error).message)
  } finally {
    progress.clear()
  }
  if (faults === 0) return
  const count = faults > listed.length ? `${faults}, of which the first ${MAX_LISTED} are listed` : faults
  throw new Error([...listed, `Nothing was applied. Faults: ${count}.`].join('\n'))
}

interface ImportOptions extends Options {
  /** How an import that ended early goes on, as a sentence. */
  advice: string
}

/** Notes that are shown; the others are only counted. */
const MAX_NOTES = 20

/**
 * Imports a source that was checked, and says on the standard error what was done. Returns how many entries were refused.
 *
 * @throws {Error} that says up to where it was applied
 */
export async function importAll(target: Target, source: Source, options: ImportOptions): Promise<number> {
  const importer = openImporter(target, options)
  const progress = createProgress(process.stderr)
  /** How many entries or subjects of a type had an outcome, by both. */
  const counts = new Map<string, number>()
  let [entries, notes, refusals] = [0, 0, 0]
  // The last lines of the last batch that was applied, and of the last one that was begun.
  let [applied, begun] = [0, 0]

  function note({ line, entry }: Placed, { outcome, note, subjects = { [outcome]: 1 } }: Result): void {
    for (const [each, count] of Object.entries(subjects)) {
      const key = `${entry.type} ${each}`
      counts.set(key, (counts.get(key) ?? 0) + count)
    }
    if (outcome === 'refused') refusals++
    if (!note || ++notes > MAX_NOTES + 1) return
    progress.clear()
    const isShown = notes <= MAX_NOTES
    console.error(isShown ? `Line ${line}: ${described(entry)}: ${note}.` : 'More of these are not shown.')
  }

  async function apply(batch: ReadonlyMap<string, Placed>): Promise<void> {
    begun = [...batch.values()].at(-1)?.line ?? begun
    const ordered = [...batch].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, placed]) => placed)
    const answers = await importer.apply(ordered.map(({ entry }) => entry))
    applied = begun
    const results = new Map(ordered.map((placed, index) => [placed, answers[index]]))
    for (const placed of batch.values()) note(placed, results.get(placed) ?? { outcome: 'unchanged' })
    entries += batch.size
    progress.show(entries, source.fraction())
  }

  function progressText(): string {
    if (options.isDryRun || begun === 0) return 'Nothing was applied.'
    // A batch may be divided, and its answer may be lost.
    const sure = applied > 0 ? `Applied up to line ${applied}` : 'Applied no line for certain'
    const uncertain = begun > applied ? `, and perhaps some lines up to ${begun}` : ''
    return `${sure}${uncertain}. ${options.advice}`
  }

  try {
    await withNotice(progressText, async () => {
      for await (const batch of batchesOf(source)) await apply(batch)
      // Earlier versions let named sequence groups use a format that doesn't show them.
      if (!options.isDryRun) await migrateAgain(target, '0009_past_formats.sql')
    })
  } finally {
    await importer.close()
    progress.clear()
    if (options.isDryRun) console.error('Dry run: nothing was changed.')
    for (const line of summaryOf(counts)) console.error(line)
  }
  return refusals
}

/** Lines that only continue another one are part of it. */
const KINDS: Partial<Record<EntryType, string>> = {
  namespace: 'Namespaces',
  counter: 'Counters',
  sequence: 'Sequences',
  sequenceGroup: 'Sequence groups',
  reservation: 'Reservations',
  counterSubjects: 'Subjects of counters',
  sequenceGroupSubjects: 'Subjects of sequence groups',
  trustedDocument: 'Trusted documents',
  apiKey: 'API keys',
  idempotencyKey: 'Idempotency keys',
}

function summaryOf(counts: ReadonlyMap<string, number>): string[] {
  return Object.entries(KINDS).flatMap(([type, title]) => {
    const parts = OUTCOMES.flatMap((outcome) => {
      const count = counts.get(`${type} ${outcome}`)
      return count ? `${count} ${outcome}` : []
    })
    return parts.length > 0 ? `${title}: ${parts.join(', ')}.` : []
  })
}

/** Entries and parts of one transaction: takes some tens of milliseconds, for which others wait. */
const MAX_ENTRIES = 500
const MAX_PARTS = 5000

/** Entries that are applied together, by their keys: of one kind, each of other names. */
async function* batchesOf(source: Source): AsyncGenerator<ReadonlyMap<string, Placed>> {
  let batch = new Map<string, Placed>()
  let parts = 0
  for await (const part of source.parts()) {
    if ('fault' in part) throw new Error(`Line ${part.line} has changed since it was checked.`)
    const [key, size] = [keyOf(part.entry), sizeOf(part.entry)]
    const [first = part] = batch.values()
    const isFull = batch.size === MAX_ENTRIES || (batch.size > 0 && parts + size > MAX_PARTS)
    if (isFull || batch.has(key) || first.entry.type !== part.entry.type) {
      yield batch
      batch = new Map()
      parts = 0
    }
    batch.set(key, part)
    parts += size
  }
  if (batch.size > 0) yield batch
}

function sizeOf(entry: Entry): number {
  const slots = entry.type === 'counter' ? (entry.definition?.slots ?? 1) : 1
  if ('history' in entry) return entry.history.length + slots
  if ('subjects' in entry) return entry.subjects.length
  return ('periods' in entry ? entry.periods : 'results' in entry ? entry.results : []).length + 1
}

/**
 * What identifies an entry among those of its type; several lines may continue the same one. Its order is that in which
 * all processes create such rows, so that they don't deadlock.
 */
function keyOf(entry: Entry): string {
  if ('token' in entry) return entry.token
  if ('hash' in entry) return entry.hash
  if (entry.type === 'trustedDocument') return entry.id
  if ('group' in entry) return sequenceGroupKeyText(entry)
  return 'namespace' in entry ? keyText(entry) : entry.name
}

/** An entry as part of a sentence. */
export function described(entry: Entry): string {
  const quoted = JSON.stringify
  if (entry.type === 'trustedDocument') return `trusted document ${entry.id}`
  if (entry.type === 'apiKey') return `API key ${entry.prefix}…`
  if (entry.type === 'idempotencyKey') return `idempotency key of hash ${entry.hash}`
  if (entry.type === 'namespace') return `namespace ${quoted(entry.name)}`
  if (entry.type === 'reservation') return `reservation of ${quoted(entry.formatted)}`
  const place = `in ${quoted(entry.namespace)}`
  if ('group' in entry) return `group ${quoted(entry.group)} of sequence ${quoted(entry.sequence)} ${place}`
  return `${entry.type === 'sequence' ? 'sequence' : 'counter'} ${quoted(entry.name)} ${place}`
}
