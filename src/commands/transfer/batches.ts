import { joinNames } from '../../core/names.ts'
import type { Entry, Placed } from '../../core/transfer/entries.ts'

/** Entries and parts of one transaction: takes some tens of milliseconds, for which others wait. */
const MAX_ENTRIES = 500
const MAX_PARTS = 5000

/** Entries that are applied together: of one kind, each of other names. */
export async function* batchesOf(entries: AsyncIterable<Placed>): AsyncGenerator<Placed[]> {
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
export function keyOf(entry: Entry): string {
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
