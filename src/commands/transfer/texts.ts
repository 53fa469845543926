import type { EntryType } from '../../core/transfer/entries.ts'
import type { Snapshot } from '../../mysql/transfer/export/snapshot.ts'
import { version } from '../../process/version.ts'
import { CSV_HEADER, csvLinesOf } from './csv/entries.ts'
import { endLine, headerLine, lineOf } from './jsonl/lines.ts'

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

/** A snapshot as CSV. */
export async function* csvTexts(snapshot: Snapshot, shown: Shown): AsyncGenerator<string> {
  let entries = 0
  yield CSV_HEADER
  for await (const entry of snapshot.entries(CSV_TYPES)) {
    yield csvLinesOf(entry)
    shown(++entries)
  }
}
