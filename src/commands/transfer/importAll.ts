import { hash } from 'node:crypto'
import { joinNames } from '../../core/names.ts'
import type { Entry, EntryType, Placed } from '../../core/transfer/entries.ts'
import { type Options, OUTCOMES, type Outcome, type Result } from '../../core/transfer/merge.ts'
import type { Target } from '../../mysql/connections/target.ts'
import { openImporter } from '../../mysql/transfer/import.ts'
import { createProgress, withNotice } from './progress.ts'
import type { Source } from './source.ts'

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
  let faults = 0
  let parts = 0

  function faultOf({ line, entry }: Placed): string | undefined {
    const { type } = entry
    if (!takesKeys && (type === 'apiKey' || type === 'idempotencyKey'))
      return 'only nth restore takes API keys, and results under idempotency keys'
    // These continue what another line has.
    if (type === 'counterHistory' || type === 'sequenceGroupPeriods') return undefined
    // Short, as all keys of a file are kept.
    const key = hash('sha256', `${type} ${keyOf(entry)}`, 'buffer').toString('latin1', 0, 12)
    const before = lineOf.get(key)
    if (before !== undefined) return `${described(entry)} is also in line ${before}`
    lineOf.set(key, line)
    return undefined
  }

  function note(fault: string): void {
    if (++faults <= MAX_LISTED) listed.push(fault)
  }

  try {
    for await (const part of source.parts()) {
      const fault = 'fault' in part ? part.fault : faultOf(part)
      if (fault) note(`Line ${part.line}: ${fault}.`)
      progress.show(++parts, source.fraction())
    }
  } catch (error) {
    // It can't be read further.
    note((error as Error).message)
  } finally {
    progress.clear()
  }
  if (faults === 0) return
  const count = faults > MAX_LISTED ? `${faults}, of which the first ${MAX_LISTED} are listed` : faults
  throw new Error([...listed, `Nothing was applied. Faults: ${count}.`].join('\n'))
}

export interface ImportOptions extends Options {
  isDryRun: boolean
  /** How an import that ended early goes on, as a sentence. */
  advice: string
}

/**
 * Imports a source that was checked, and says on the standard error what was done. Returns how many entries were refused.
 *
 * @throws {Error} that says up to where it was applied
 */
export async function importAll(target: Target, source: Source, options: ImportOptions): Promise<number> {
  const importer = openImporter(target, options)
  const progress = createProgress(process.stderr)
  const summary = createSummary((line) => {
    progress.clear()
    console.error(line)
  })
  let entries = 0
  // The last lines of the last batch that was applied, and of the last one that was begun.
  let [applied, begun] = [0, 0]

  async function apply(batch: readonly Placed[]): Promise<void> {
    begun = batch.at(-1)?.line ?? begun
    const results = await importer.apply(batch.map(({ entry }) => entry))
    applied = begun
    for (const [index, placed] of batch.entries()) {
      const result = results[index]
      if (result) summary.add(placed, result)
    }
    entries += batch.length
    progress.show(entries, source.fraction())
  }

  function standing(): string {
    if (options.isDryRun || begun === 0) return 'Nothing was applied.'
    // A batch may be divided, and its answer may be lost.
    const uncertain = begun > applied ? `, perhaps also some of the following ones up to line ${begun}` : ''
    const sure = applied > 0 ? `Applied up to line ${applied}` : 'Applied: nothing for certain'
    return `${sure}${uncertain}. ${options.advice}`
  }

  async function applyBatches(): Promise<void> {
    // While a batch is applied, the next one is read.
    let applying = Promise.resolve()
    try {
      for await (const batch of batchesOf(entriesOf(source))) {
        await applying
        applying = apply(batch)
        // Awaited before the next one; until then its failure must not count as unhandled.
        applying.catch(() => undefined)
      }
      await applying
    } catch (error) {
      await applying.catch(() => undefined)
      throw new Error(`${(error as Error).message}\n${standing()}`, { cause: error })
    }
  }

  try {
    await withNotice(standing, applyBatches)
  } finally {
    await importer.close()
    progress.clear()
    if (options.isDryRun) console.error('Dry run: nothing was changed.')
    for (const line of summary.lines()) console.error(line)
  }
  return summary.refusals()
}

async function* entriesOf(source: Source): AsyncGenerator<Placed> {
  for await (const part of source.parts()) {
    if ('fault' in part) throw new Error(`Line ${part.line} has changed since it was checked.`)
    yield part
  }
}

/** Entries and parts of one transaction: takes some tens of milliseconds, for which others wait. */
const MAX_ENTRIES = 500
const MAX_PARTS = 5000

/** Entries that are applied together: of one kind, each of other names. */
async function* batchesOf(entries: AsyncIterable<Placed>): AsyncGenerator<Placed[]> {
  let batch: Placed[] = []
  let keys = new Set<string>()
  let parts = 0
  for await (const placed of entries) {
    const { entry } = placed
    const [key, size] = [keyOf(entry), sizeOf(entry)]
    const isFull = batch.length === MAX_ENTRIES || parts + size > MAX_PARTS
    if (batch.length > 0 && (isFull || keys.has(key) || batch[0]?.entry.type !== entry.type)) {
      yield batch
      batch = []
      keys = new Set()
      parts = 0
    }
    batch.push(placed)
    keys.add(key)
    parts += size
  }
  if (batch.length > 0) yield batch
}

/** What identifies an entry among those of its type; several lines may continue the same one. */
function keyOf(entry: Entry): string {
  switch (entry.type) {
    case 'namespace':
      return entry.name
    case 'reservation':
      return entry.token
    case 'apiKey':
    case 'idempotencyKey':
      return entry.hash
    case 'sequenceGroup':
    case 'sequenceGroupPeriods':
      return joinNames(entry.namespace, entry.sequence, entry.group)
    default:
      return joinNames(entry.namespace, entry.name)
  }
}

function sizeOf(entry: Entry): number {
  switch (entry.type) {
    case 'counter':
      return entry.history.length + (entry.definition?.slots ?? 1)
    case 'counterHistory':
      return entry.history.length
    case 'sequenceGroup':
    case 'sequenceGroupPeriods':
      return entry.periods.length
    case 'idempotencyKey':
      return entry.results.length
    default:
      return 1
  }
}

/** Notes that are shown; the others are only counted. */
const MAX_NOTES = 20

/** Lines that only continue another one are part of it. */
const KINDS: Partial<Record<EntryType, string>> = {
  namespace: 'Namespaces',
  counter: 'Counters',
  sequence: 'Sequences',
  sequenceGroup: 'Sequence groups',
  reservation: 'Reservations',
  apiKey: 'API keys',
  idempotencyKey: 'Idempotency keys',
}

/** Counts what an import did, and says why parts were not applied. */
function createSummary(say: (line: string) => void) {
  const counts = new Map<EntryType, Map<Outcome, number>>()
  let notes = 0
  let refusals = 0
  return {
    add({ line, entry }: Placed, { outcome, note }: Result): void {
      const own = counts.get(entry.type) ?? new Map<Outcome, number>()
      counts.set(entry.type, own.set(outcome, (own.get(outcome) ?? 0) + 1))
      if (outcome === 'refused') refusals++
      if (!note) return
      notes++
      if (notes <= MAX_NOTES) say(`Line ${line}: ${described(entry)}: ${note}.`)
      else if (notes === MAX_NOTES + 1) say('More of these are not shown.')
    },

    /** How many entries were not applied at all. */
    refusals: () => refusals,

    lines(): string[] {
      return Object.entries(KINDS).flatMap(([type, title]) => {
        // The keys of a record of types are types.
        const own = counts.get(type as EntryType)
        if (!own) return []
        const parts = OUTCOMES.flatMap((outcome) =>
          own.has(outcome) ? `${own.get(outcome)} ${outcome}` : [],
        )
        return `${title}: ${parts.join(', ')}.`
      })
    },
  }
}

/** An entry as part of a sentence. */
export function described(entry: Entry): string {
  switch (entry.type) {
    case 'namespace':
      return `namespace ${JSON.stringify(entry.name)}`
    case 'counter':
    case 'counterHistory':
      return `counter ${JSON.stringify(entry.name)} in ${JSON.stringify(entry.namespace)}`
    case 'sequence':
      return `sequence ${JSON.stringify(entry.name)} in ${JSON.stringify(entry.namespace)}`
    case 'reservation':
      return `reservation of ${JSON.stringify(entry.formatted)}`
    case 'apiKey':
      return `API key ${entry.prefix}…`
    case 'idempotencyKey':
      return `idempotency key of hash ${entry.hash}`
    default:
      return `group ${JSON.stringify(entry.group)} of sequence ${JSON.stringify(entry.sequence)} in ${JSON.stringify(entry.namespace)}`
  }
}
