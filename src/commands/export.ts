import { parseArgs } from 'node:util'
import { withDatabase } from './database.ts'
import { writeFile, writeToStdout } from './transfer/output.ts'
import { withSnapshot } from './transfer/snapshot.ts'
import { csvTexts, EXPORTED, jsonlTexts } from './transfer/texts.ts'

const USAGE = `Usage: nth export [--output <file>] [--format jsonl|csv]

Writes all counters, sequences and namespaces as of one instant: from the database of DATABASE_URL, or else the private
one of NTH_DATA_DIR, also while Nth runs.

  --output <file>  where to write it (the standard output)
  --format <name>  jsonl: everything, to be imported again; csv: values of counters, last numbers of sequence groups
                   (that of the file's name, or else jsonl)

Left out: API keys, and results under idempotency keys.
`

/** `nth export`. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      output: { type: 'string' },
      format: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return void process.stdout.write(USAGE)
  const { output } = values
  const format = values.format ?? (output?.endsWith('.csv') ? 'csv' : 'jsonl')
  if (format !== 'jsonl' && format !== 'csv')
    throw new Error(`--format must be jsonl or csv; it is "${format}".`)
  await withDatabase(async (target) => {
    const isWhole = await withSnapshot(target, (snapshot, shown) => {
      const texts = format === 'csv' ? csvTexts(snapshot, shown) : jsonlTexts(snapshot, EXPORTED, shown)
      return output === undefined ? writeToStdout(texts) : writeFile(output, texts).then(() => true)
    })
    if (isWhole) console.error('Left out: API keys, and results under idempotency keys.')
  })
}
