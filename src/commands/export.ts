import { parseArgs } from 'node:util'
import { withDatabase } from './database.ts'
import { writeFile, writeToStdout } from './files.ts'
import { csvTexts, jsonlTexts } from './formats.ts'
import { EXPORTED, withSnapshot } from './snapshot.ts'

export const USAGE = `Usage: nth export [--output <file>] [--format jsonl|csv]

Writes all counters, sequences and namespaces as of one instant, from the database of DATABASE_URL, or else the private
one of NTH_DATA_DIR. It works while Nth runs, too.

  --output <file>  where to write it (the standard output): a new file, a pipe or a device
  --format <name>  jsonl: everything, which nth restore reads; csv: values of counters, last numbers of sequence groups
                   in their present periods (by the file's name, otherwise jsonl). An apostrophe is written before
                   names that a spreadsheet would take for formulas; nth import removes it

It leaves out API keys, trusted documents and results of idempotency keys.
`

const LEFT_OUT = {
  jsonl: 'The export has no API keys, trusted documents or results of idempotency keys.',
  csv: 'The export has only the values of counters, and the last numbers of sequence groups in their present periods.',
}

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      output: { type: 'string' },
      format: { type: 'string' },
      spreadsheet: { type: 'boolean' },
    },
  })
  const { output, spreadsheet } = values
  const format = values.format ?? (output?.endsWith('.csv') ? 'csv' : 'jsonl')
  if (format !== 'jsonl' && format !== 'csv')
    throw new Error(`--format must be jsonl or csv; it is "${format}".`)
  if (spreadsheet) console.error('--spreadsheet has no effect any more: every CSV is safe for spreadsheets.')
  await withDatabase(async (target) => {
    const isWhole = await withSnapshot(target, ({ at, hasSubjects, entries }) => {
      const texts =
        format === 'csv'
          ? csvTexts(entries('countersWithoutHistory', 'currentNumbers'))
          : jsonlTexts(at, hasSubjects, entries(...EXPORTED))
      return output === undefined ? writeToStdout(texts) : writeFile(output, texts).then(() => true)
    })
    if (isWhole) console.error(LEFT_OUT[format])
  })
}
