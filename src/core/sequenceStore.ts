import type { PageByName } from './listing.ts'
import { joinNames } from './names.ts'
import type { Reservation } from './numberState.ts'
import type { Position } from './numbers.ts'
import type { History, PastFormat, SequenceDefinition } from './sequenceDefinition.ts'
import type { Row, Rows } from './writer.ts'

export interface SequenceKey {
  namespace: string
  name: string
}

export interface GroupKey {
  namespace: string
  sequence: string
  /** May be empty: the sequence without groups. */
  group: string
}

export interface SequenceState extends SequenceKey {
  /** Undefined: neither used nor defined, so that it would be as its namespace says. */
  definition: SequenceDefinition | undefined
  /** When it was first used or defined; null: neither yet. */
  createdAt: Date | null
}

export interface GroupState extends GroupKey {
  /** The last number issued, of a gapless sequence the furthest; null: none yet. */
  lastValue: number | null
  lastFormatted: string | null
  /** What would be issued now; null: there is nothing left. */
  nextValue: number | null
  /** The same as text, as it would be written now. */
  nextFormatted: string | null
  updatedAt: Date | null
  /** Of two states the newer has the higher one. */
  revision: number
}

/** A group as it is stored. */
export interface StoredGroup extends GroupKey {
  definition: SequenceDefinition
  /** What it has issued last, and how that was written; undefined: nothing yet. */
  latest: { value: number; at: Date; format: string | null; timeZone: string } | undefined
  /** Where it stands in the running period. */
  position: Position
  /** The number that was given back and is to be issued first; null: none. */
  free: number | null
  revision: number
}

/** Groups that were asked for. */
export interface GroupsRead {
  /** Those, used or not, of the sequences that are there, in any order. */
  groups: StoredGroup[]
  /** The revision of the others. */
  revision: number
}

/** Where sequences are kept. */
export interface SequenceStore<R extends Row> {
  rows: Rows<GroupKey, R>
  /** The groups of reservations, by what names these. They can't be made. */
  rowsOfReservations: Rows<string, R>
  /** The sequences that were ever used or defined, of those asked for, in any order, by one statement. */
  readSequences(keys: readonly SequenceKey[]): Promise<SequenceState[]>
  /** Reads groups as of an instant. */
  readGroups(keys: readonly GroupKey[], now: Date): Promise<GroupsRead>
  /** Those that there are, in any order, by one statement. */
  readReservations(tokens: readonly string[]): Promise<Reservation[]>
  /** The groups that they are of, likewise. */
  readReservationGroups(tokens: readonly string[]): Promise<{ token: string; group: GroupKey }[]>
  list(namespace: string, page: PageByName): Promise<SequenceState[]>
  listGroups(sequence: SequenceKey, page: PageByName, now: Date): Promise<StoredGroup[]>
  /** Changes what a sequence is, one caller at a time, while nothing is issued. Makes it where it isn't there. */
  define(
    key: SequenceKey,
    change: (history: History) => { definition: SequenceDefinition; formatHistory: readonly PastFormat[] },
    /** When it is done, and until when it may take, on the clock of `performance.now()`. */
    when: { at: Date; deadline: number },
  ): Promise<SequenceState>
  delete(key: SequenceKey): Promise<void>
}

/** A key as one text. */
export function sequenceKeyText({ namespace, name }: SequenceKey): string {
  return joinNames(namespace, name)
}

/** A key as one text. */
export function groupKeyText({ namespace, sequence, group }: GroupKey): string {
  return joinNames(namespace, sequence, group)
}
