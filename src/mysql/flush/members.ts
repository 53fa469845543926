import type { CounterRun } from '../../core/groupCommit/counterRun.ts'
import type { SequenceRun } from '../../core/groupCommit/sequenceRun.ts'
import type { Flush, Found } from '../../core/groupCommit/writer.ts'
import type { EarlierResults } from '../../core/idempotency.ts'
import type { SequenceGroupFound } from '../../core/sequences/state.ts'
import type { CounterRecord } from '../counters/update.ts'
import { inLockOrder, type SequenceGroupRecord } from '../sequences/record.ts'

/** What a flush touches, in lock order, and what its first round trip finds. */
export interface Members {
  counters: CounterMember[]
  sequenceGroups: SequenceGroupMember[]
  /** Initial revision of rows that are changed for the first time, if wanted. */
  first: number | undefined
  /** Results under used keys. */
  earlier: EarlierResults[]
  /** Number of unused keys that were claimed. */
  claimed: number
}

export interface CounterMember {
  run: CounterRun
  row: CounterRecord
  /** The value before; undefined: there is no such row; `unsure`: the answer doesn't show it. */
  before: number | 'unsure' | undefined
  periodTotals: number[] | undefined
  revision: number | undefined
}

export interface SequenceGroupMember {
  run: SequenceRun
  row: SequenceGroupRecord
  /** Undefined: it doesn't exist. */
  found: SequenceGroupFound | undefined
}

export function membersOf({ counters, sequenceGroups }: Flush): Members {
  return {
    counters: counters.map(counterMember).sort((a, b) => a.row.id - b.row.id),
    sequenceGroups: sequenceGroups.map(sequenceGroupMember).sort(inLockOrder),
    first: undefined,
    earlier: [],
    claimed: 0,
  }
}

export function counterMember(run: CounterRun): CounterMember {
  // All rows come from this store.
  const row = run.row as CounterRecord
  return { run, row, before: undefined, periodTotals: undefined, revision: undefined }
}

export function sequenceGroupMember(run: SequenceRun): SequenceGroupMember {
  // All rows come from this store.
  return { run, row: run.row as SequenceGroupRecord, found: undefined }
}

export function hasSlots({ row }: CounterMember): boolean {
  return row.definition.slots > 1
}

/** What was found, for the rows that exist. */
export function foundIn({ counters, sequenceGroups, earlier }: Members): Found {
  return {
    earlier,
    counters: new Map(
      counters.flatMap(({ run, before, periodTotals, revision }) =>
        typeof before === 'number' ? [[run, { value: before, periodTotals, revision }] as const] : [],
      ),
    ),
    sequenceGroups: new Map(
      sequenceGroups.flatMap(({ run, found }) => (found ? [[run, found] as const] : [])),
    ),
  }
}
