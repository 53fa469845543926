import type { Entry, EntryType, Placed } from '../../core/transfer/entries.ts'
import { OUTCOMES, type Outcome, type Result } from '../../core/transfer/merge.ts'

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
export function createSummary(say: (line: string) => void) {
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
