import { hash } from 'node:crypto'
import type { Placed } from '../../core/transfer/entries.ts'
import type { Options } from '../../core/transfer/merge.ts'
import type { Target } from '../../mysql/connections/target.ts'
import { openImporter } from '../../mysql/transfer/import.ts'
import { batchesOf, keyOf } from './batches.ts'
import { withNotice } from './interrupted.ts'
import { createProgress } from './progress.ts'
import type { Source } from './source.ts'
import { createSummary, described } from './summary.ts'

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
