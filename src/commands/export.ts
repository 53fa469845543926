import { parseArgs } from 'node:util'
import type { EntryType } from '../core/transfer/entries.ts'
import { openSnapshot, type Snapshot } from '../mysql/transfer/export/snapshot.ts'
import { version } from '../process/version.ts'
import { withDatabase } from './database.ts'
import { CSV_HEADER, csvLinesOf } from './transfer/csvEntries.ts'
import { endLine, headerLine, lineOf } from './transfer/jsonlLines.ts'
import { writeOutput } from './transfer/output.ts'
import { createProgress } from './transfer/progress.ts'

const USAGE = `Usage: nth export [--output <file>] [--format jsonl|csv]

Writes all counters, sequences and namespaces as of one instant: from the database of DATABASE_URL, or else the private
one of NTH_DATA_DIR, also while Nth runs.

  --output <file>  where to write it (the standard output)
  --format <name>  jsonl: everything, to be imported again; csv: values of counters, last numbers of sequence groups
                   (that of the file's name, or else jsonl)

Left out: API keys, and results under idempotency keys.
`

const CSV_TYPES: ReadonlySet<EntryType> = new Set(['counter', 'sequenceGroup'])
const ALL_TYPES: ReadonlySet<EntryType> = new Set([
  'namespace',
  'counter',
  'counterHistory',
  'sequence',
  'sequenceGroup',
  'reservation',
])

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
    const snapshot = await openSnapshot(target)
    try {
      const progress = createProgress(process.stderr)
      const total = process.stderr.isTTY ? await snapshot.size() : 0
      const texts = format === 'csv' ? csvTexts(snapshot, shown) : jsonlTexts(snapshot, shown)
      const isWhole = await writeOutput(output, texts)
      progress.clear()
      if (isWhole) console.error('Left out: API keys, and results under idempotency keys.')

      function shown(entries: number): void {
        progress.show(entries, total > 0 ? entries / total : undefined)
      }
    } finally {
      await snapshot.close()
    }
  })
}

type Shown = (entries: number) => void

async function* jsonlTexts(snapshot: Snapshot, shown: Shown): AsyncGenerator<string> {
  let lines = 0
  yield headerLine(version, snapshot.at)
  for await (const entry of snapshot.entries(ALL_TYPES)) {
    yield lineOf(entry)
    shown(++lines)
  }
  yield endLine(lines)
}

async function* csvTexts(snapshot: Snapshot, shown: Shown): AsyncGenerator<string> {
  let entries = 0
  yield CSV_HEADER
  for await (const entry of snapshot.entries(CSV_TYPES)) {
    yield csvLinesOf(entry)
    shown(++entries)
  }
}
