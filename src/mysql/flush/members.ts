import type { CounterFound, CounterRun } from '../../core/groupCommit/counterRun.ts'
import type { SequenceRun } from '../../core/groupCommit/sequenceRun.ts'
import type { Flush, Found } from '../../core/groupCommit/writer.ts'
import type { EarlierResults } from '../../core/idempotency.ts'
import type { SequenceGroupFound } from '../../core/sequences/state.ts'
import { type PeriodsRow, periodsFound } from '../counters/periods.ts'
import type { CounterRecord } from '../counters/record.ts'
import { inLockOrder, type SequenceGroupRecord } from '../sequences/record.ts'

/** What a flush touches, in lock order, and what its first round trip finds. */
export interface Members {
  counters: CounterMember[]
  sequenceGroups: SequenceGroupMember[]
  /** Initial revision of rows that are changed for the first time, if it was read. */
  first: number | undefined
  /** The database's clock, in milliseconds since 1970, if it was read. */
  now: number
  /** Results under used keys. */
  earlier: EarlierResults[]
  /** Number of unused keys that were claimed. */
  claimed: number
}

export interface CounterMember {
  run: CounterRun
  row: CounterRecord
  /** Undefined: there is no such row. */
  found: CounterFound | undefined
  /** Whether its row must be read again: the answer doesn't show the value, or it may not have the running periods. */
  isUnclear: boolean
  /** Whether its addition was made. */
  isAdded: boolean
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
    now: 0,
    earlier: [],
    claimed: 0,
  }
}

export function counterMember(run: CounterRun): CounterMember {
  // All rows come from this store.
  const row = run.row as CounterRecord
  return { run, row, found: undefined, isUnclear: false, isAdded: false }
}

export function sequenceGroupMember(run: SequenceRun): SequenceGroupMember {
  // All rows come from this store.
  return { run, row: run.row as SequenceGroupRecord, found: undefined }
}

export function hasSlots({ row }: CounterMember): boolean {
  return row.definition.slots > 1
}

/** A counter's row, with the columns of periods. */
export type ValueRow = PeriodsRow & Record<'value' | 'revision', number | string | null>

/** A counter as its row shows it, which includes its addition if that was made. */
export function counterFound(
  { first, now }: Members,
  { run, isAdded }: CounterMember,
  row: ValueRow,
): CounterFound {
  const [addition, raise] = isAdded ? [run.addition ?? 0, run.raise] : [0, 0]
  const revision = row.revision ?? first
  return {
    value: Number(row.value) - addition,
    revision: revision === undefined ? undefined : Number(revision) - raise,
    isAdded,
    periods: periodsFound(run, row, addition),
    now,
  }
}

/** What was found, for the rows that exist. */
export function foundIn({ counters, sequenceGroups, earlier }: Members): Found {
  return {
    earlier,
    counters: new Map(counters.flatMap(({ run, found }) => (found ? [[run, found] as const] : []))),
    sequenceGroups: new Map(
      sequenceGroups.flatMap(({ run, found }) => (found ? [[run, found] as const] : [])),
    ),
  }
}
