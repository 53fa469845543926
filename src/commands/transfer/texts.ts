import type { EntryType } from '../../core/transfer/entries.ts'
import type { Snapshot } from '../../mysql/transfer/export.ts'
import { version } from '../../process/version.ts'
import { openCsv } from './csv.ts'
import { endLine, headerLine, lineOf } from './jsonlLines.ts'

/** Called with the number of entries so far. */
type Shown = (entries: number) => void

/** What an export in JSON Lines has. */
export const EXPORTED: ReadonlySet<EntryType> = new Set([
  'namespace',
  'counter',
  'counterHistory',
  'sequence',
  'sequenceGroup',
  'reservation',
])

const CSV_TYPES: ReadonlySet<EntryType> = new Set(['counter', 'sequenceGroup'])

/** A snapshot as JSON Lines. */
export async function* jsonlTexts(
  snapshot: Snapshot,
  types: ReadonlySet<EntryType>,
  shown: Shown,
): AsyncGenerator<string> {
  let lines = 0
  yield headerLine(version, snapshot.at)
  for await (const entry of snapshot.entries(types)) {
    yield lineOf(entry)
    shown(++lines)
  }
  yield endLine(lines)
}

/** A snapshot as CSV. `escapes`: no spreadsheet takes a name for a formula. */
export async function* csvTexts(snapshot: Snapshot, escapes: boolean, shown: Shown): AsyncGenerator<string> {
  const csv = openCsv(escapes)
  let entries = 0
  yield csv.header
  for await (const entry of snapshot.entries(CSV_TYPES)) {
    yield csv.lineOf(entry)
    shown(++entries)
  }
}
