import type { Placed } from '../../core/transfer/entries.ts'
import type { Options } from '../../core/transfer/outcome.ts'
import type { Target } from '../../mysql/connections/target.ts'
import { openImporter } from '../../mysql/transfer/import/importer.ts'
import { batchesOf } from './batches.ts'
import { createProgress } from './progress.ts'
import type { Source } from './source.ts'
import { createSummary } from './summary.ts'

export interface ImportOptions extends Options {
  isDryRun: boolean
  /** Whether it may have API keys and idempotency keys: whoever wrote the file is trusted with them. */
  takesKeys: boolean
}

/** Imports a source, and says on the standard error what was done. Returns how many entries were refused. */
export async function importAll(target: Target, source: Source, options: ImportOptions): Promise<number> {
  const importer = openImporter(target, options)
  const progress = createProgress(process.stderr)
  const summary = createSummary((line) => {
    progress.clear()
    console.error(line)
  })
  let entries = 0

  async function apply(batch: readonly Placed[]): Promise<void> {
    const results = await importer.apply(batch.map(({ entry }) => entry))
    for (const [index, placed] of batch.entries()) {
      const result = results[index]
      if (result) summary.add(placed, result)
    }
    entries += batch.length
    progress.show(entries, source.fraction())
  }

  // While a batch is applied, the next one is read.
  let applying = Promise.resolve()
  try {
    for await (const batch of batchesOf(source.entries)) {
      if (!options.takesKeys) assertWithoutKeys(batch)
      await applying
      applying = apply(batch)
      // Awaited before the next one; until then its failure must not count as unhandled.
      applying.catch(() => undefined)
    }
    await applying
  } finally {
    await applying.catch(() => undefined)
    await importer.close()
    progress.clear()
    if (options.isDryRun) console.error('Dry run: nothing was changed.')
    for (const line of summary.lines()) console.error(line)
  }
  return summary.refusals()
}

function assertWithoutKeys([first]: readonly Placed[]): void {
  const isKey = first?.entry.type === 'apiKey' || first?.entry.type === 'idempotencyKey'
  if (isKey)
    throw new Error(
      `Line ${first.line}: only nth restore takes API keys, and results under idempotency keys.`,
    )
}
