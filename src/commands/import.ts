import type { Placed } from '../core/transfer/entries.ts'
import type { Target } from '../mysql/connections/target.ts'
import { openImporter } from '../mysql/transfer/import/importer.ts'
import { withDatabase } from './database.ts'
import { type ImportCommand, parseImportCommand, USAGE } from './importArguments.ts'
import { batchesOf } from './transfer/batches.ts'
import { createProgress } from './transfer/progress.ts'
import { openFile, openForeign } from './transfer/source.ts'
import { createSummary } from './transfer/summary.ts'

/** `nth import`. */
export async function run(args: string[]): Promise<void> {
  const command = parseImportCommand(args)
  if (command.name === 'help') return void process.stdout.write(USAGE)
  await withDatabase((target) => execute(command, target))
}

async function execute(command: Exclude<ImportCommand, { name: 'help' }>, target: Target): Promise<void> {
  const { isDryRun, overwrite, namespace } = command
  const source =
    'file' in command
      ? await openFile(command.file, namespace)
      : openForeign(command.from, command.select, namespace)
  const importer = openImporter(target, { isDryRun, overwrite })
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
    if (isDryRun) console.error('Dry run: nothing was changed.')
    for (const line of summary.lines()) console.error(line)
  }
  if (summary.refusals() > 0) process.exitCode = 1
}
