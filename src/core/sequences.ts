import { gather } from './gather.ts'
import type { GroupCommit } from './groupCommit.ts'
import type { Claim } from './idempotency.ts'
import type { Row, Rows } from './lane.ts'
import { joinNames } from './names.ts'

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
  /** When it was first used; null: never. */
  createdAt: Date | null
}

export interface GroupState extends GroupKey {
  /** The last number dealt; null: none yet. */
  lastValue: number | null
  updatedAt: Date | null
}

/** A block of consecutive numbers that belongs to one caller. */
export interface SequenceNumbers {
  key: GroupKey
  /** The first number. */
  value: number
  lastValue: number
  count: number
  step: number
  at: Date
  /** Whether an earlier call with the same idempotency key took them. */
  isReplayed: boolean
}

/** Where sequences are kept. The row of a group holds the last number that it has dealt. */
export interface SequenceStore<R extends Row> {
  rows: Rows<GroupKey, R>
  /** The sequences that were ever used, of those asked for, in any order, by one statement. */
  readSequences(keys: readonly SequenceKey[]): Promise<SequenceState[]>
  /** The groups that have dealt numbers, of those asked for, in any order, by one statement. */
  readGroups(keys: readonly GroupKey[]): Promise<GroupState[]>
}

export interface Sequences {
  /**
   * Takes `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat gets the first ones again.
   *
   * @throws {NthError} OUT_OF_RANGE, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  next(key: GroupKey, count: number, claim?: Claim): Promise<SequenceNumbers>
  read(key: SequenceKey): Promise<SequenceState>
  readGroup(key: GroupKey): Promise<GroupState>
}

/** The most numbers that one call takes. */
export const MAX_BLOCK = 1_000_000

const START = 1
const STEP = 1

export function openSequences<R extends Row>(
  store: SequenceStore<R>,
  groupCommit: GroupCommit<R>,
): Sequences {
  const { read } = gather(
    sequenceKeyText,
    store.readSequences,
    (key): SequenceState => ({ ...key, createdAt: null }),
  )
  const { read: readGroup } = gather(
    groupKeyText,
    store.readGroups,
    (key): GroupState => ({ ...key, lastValue: null, updatedAt: null }),
  )

  return {
    read,
    readGroup,

    async next(key, count, claim) {
      const { answers, at, isReplayed } = await groupCommit.change(store.rows, [key], {
        operations: [{ kind: 'add', delta: count * STEP }],
        mode: 'one',
        claim,
        isTold: false,
      })
      const [dealt] = answers
      if (!dealt) throw new Error('A block without an answer')
      const { value: lastValue, previousValue } = dealt
      return { key, value: previousValue + STEP, lastValue, count, step: STEP, at, isReplayed }
    },
  }
}

/** The number that a group would deal next; null when it has come to the end of the safe range. */
export function nextValue({ lastValue }: Pick<GroupState, 'lastValue'>): number | null {
  if (lastValue === null) return START
  return lastValue > Number.MAX_SAFE_INTEGER - STEP ? null : lastValue + STEP
}

/** A number as text: the number itself, in a named group `group-number`. */
export function formatNumber(group: string, value: number): string {
  return group === '' ? String(value) : `${group}-${value}`
}

/** The numbers of a block, in order. */
export function numbersOf({ value, count, step }: SequenceNumbers): number[] {
  return Array.from({ length: count }, (_, index) => value + index * step)
}

/** A key as one text. */
export function sequenceKeyText({ namespace, name }: SequenceKey): string {
  return joinNames(namespace, name)
}

/** A key as one text. */
export function groupKeyText({ namespace, sequence, group }: GroupKey): string {
  return joinNames(namespace, sequence, group)
}
