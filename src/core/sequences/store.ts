import type { PageByName } from '../counters/pages.ts'
import { joinNames } from '../names.ts'
import type { Rows, SequenceGroupRow } from '../rows.ts'
import type { Position } from './blocks.ts'
import type { History, PastFormat, SequenceDefinition } from './definition.ts'
import type { Reservation } from './state.ts'

export interface SequenceKey {
  namespace: string
  name: string
}

export interface SequenceGroupKey {
  namespace: string
  sequence: string
  /** Name of the sequence group; may be empty. */
  group: string
}

export interface SequenceState extends SequenceKey {
  /** Undefined: neither used nor defined; its namespace's defaults apply. */
  definition: SequenceDefinition | undefined
  /** When it was first used or defined; null: never. */
  createdAt: Date | null
}

export interface SequenceGroupState extends SequenceGroupKey {
  /** The last number issued; in a gapless sequence the furthest one; null: none yet. */
  lastValue: number | null
  lastFormatted: string | null
  /** The number that would be issued now; null: the sequence is exhausted. */
  nextValue: number | null
  /** `nextValue` as it would be formatted now. */
  nextFormatted: string | null
  updatedAt: Date | null
  /** Higher in the newer of two states. */
  revision: number
}

export interface StoredSequenceGroup extends SequenceGroupKey {
  definition: SequenceDefinition
  /** The last number issued, and its format; undefined: none yet. */
  latest: { value: number; at: Date; format: string | null; timeZone: string } | undefined
  /** Position in the current period. */
  position: Position
  /** The first released or expired number to reissue; null: none. */
  free: number | null
  revision: number
}

export interface SequenceGroupsRead {
  /** The requested ones, used or not, of sequences that exist, in any order. */
  groups: StoredSequenceGroup[]
  /** Revision of all other requested ones. */
  revision: number
}

export interface SequenceStore {
  rows: Rows<SequenceGroupKey, SequenceGroupRow>
  /** Reads the sequences that were ever used or defined, in any order, with one statement. */
  readSequences(keys: readonly SequenceKey[]): Promise<SequenceState[]>
  /** Reads sequence groups as of an instant. */
  readSequenceGroups(keys: readonly SequenceGroupKey[], now: Date): Promise<SequenceGroupsRead>
  /** Reads the reservations that exist, in any order, with one statement. */
  readReservations(tokens: readonly string[]): Promise<Reservation[]>
  /** Reads the sequence groups of reservations in the same way. */
  readReservationSequenceGroups(
    tokens: readonly string[],
  ): Promise<{ token: string; group: SequenceGroupKey }[]>
  list(namespace: string, page: PageByName): Promise<SequenceState[]>
  listSequenceGroups(sequence: SequenceKey, page: PageByName, now: Date): Promise<StoredSequenceGroup[]>
  /** Changes a definition, one caller at a time, while no numbers are issued. Creates the sequence if missing. */
  define(
    key: SequenceKey,
    change: (history: History) => { definition: SequenceDefinition; formatHistory: readonly PastFormat[] },
    /** The time of the change, and its deadline on the clock of `performance.now()`, in milliseconds. */
    when: { at: Date; deadline: number },
  ): Promise<SequenceState>
  delete(key: SequenceKey): Promise<void>
}

/** A key as one string. */
export function sequenceGroupKeyText({ namespace, sequence, group }: SequenceGroupKey): string {
  return joinNames(namespace, sequence, group)
}
