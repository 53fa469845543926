import type { EntryType } from '../rules/entries.ts'

/** What lines have, as the beginning of a sentence; lines that only continue another one are not counted. */
const TITLES: Partial<Record<EntryType, string>> = {
  namespace: 'Namespaces',
  counter: 'Counters',
  counterHistory: 'Totals of periods',
  sequence: 'Sequences',
  sequenceGroup: 'Sequence groups',
  reservation: 'Reservations',
  hold: 'Parts of holds',
  counterSubjects: 'Subjects of counters',
  sequenceGroupSubjects: 'Subjects of sequence groups',
  trustedDocument: 'Trusted documents',
  apiKey: 'API keys',
  idempotencyKey: 'Idempotency keys',
}

/** What is done with an entry of a file, in the order in which they are listed. */
export const OUTCOMES = ['created', 'raised', 'kept', 'refused', 'left behind'] as const

export type EntryOutcome = (typeof OUTCOMES)[number]

/** Counts what a command does with the entries of a file. */
export class Summary {
  readonly #counts = new Map<string, number>()

  add(type: EntryType, outcome: EntryOutcome, count = 1): void {
    const key = `${type} ${outcome}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count)
  }

  /** A sentence for each type that was counted. */
  lines(): string[] {
    return Object.entries(TITLES).flatMap(([type, title]) => {
      const parts = OUTCOMES.flatMap((outcome) => {
        const count = this.#counts.get(`${type} ${outcome}`)
        return count ? `${count} ${outcome}` : []
      })
      return parts.length > 0 ? `${title}: ${parts.join(', ')}.` : []
    })
  }
}
