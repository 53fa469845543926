import type { CounterRun } from '../../core/groupCommit/batch.ts'
import type { EarlierResults } from '../../core/idempotency.ts'
import type { GroupFound } from '../../core/sequences/state.ts'
import type { Answer } from '../connections/session.ts'
import type { CountingRow } from '../counters/update.ts'

/** Statements of a flush, and how to read their answers. */
export interface FlushText {
  statements: string[]
  /** The key of the only row or claim that the statement of an index is for. */
  ownerAt(index: number): string | undefined
  /** Stores what the answers contain. */
  read(answers: readonly Answer[], finds: Finds): void
}

/** What a flush finds. */
export interface Finds {
  /** Each counter's value before; `undefined`: there is no such row; `unsure`: the answer doesn't show it. */
  before: (number | undefined | 'unsure')[]
  /** Totals of the current periods before, for counters where wanted, in the order of their definitions. */
  periodTotals: (number[] | undefined)[]
  /** Revisions before, for counters where wanted and some others. */
  revisions: (number | undefined)[]
  /** Initial revision of rows that are changed for the first time, if wanted. */
  first: number | undefined
  /** State of each sequence group before; undefined: it does not exist. */
  positions: (GroupFound | undefined)[]
  earlier: EarlierResults[]
  /** Number of unused keys that were claimed. */
  claimed: number
}

export interface FlushForm {
  /** Whether each row and claim has its own statements, so that a failure shows the failing key. */
  onePerStatement: boolean
  /** Whether a trigger on counters hides their values from the answers. */
  isTriggered: boolean
  /** Ids of sequence groups whose last number the answer lacks: a trigger hides it, or it was 0. */
  hidden: Set<number>
  /** Whether the server is one node of a Galera cluster. */
  isClustered: boolean
}

export interface Member {
  run: CounterRun<CountingRow>
  index: number
}

export interface Step {
  statement: string
  /** The key of the only row or claim that the statement is for. */
  owner?: string | undefined
  read?: (answer: Answer, finds: Finds) => void
}

/** Maximum rows of a kind for which one statement each is faster than locking all, then changing all. */
export const NARROW = 8

/** Splits rows by statement: one for all, or one for each. */
export function together<One>(
  some: readonly One[],
  { onePerStatement }: Pick<FlushForm, 'onePerStatement'>,
): One[][] {
  if (onePerStatement) return some.map((one) => [one])
  return some.length > 0 ? [[...some]] : []
}

/** Follows a select, to show whether that failed or the statement after it. */
export const MARK = 'do 0'

export function textOf(steps: readonly Step[]): FlushText {
  return {
    statements: steps.map(({ statement }) => statement),
    ownerAt: (index) => steps[index]?.owner,
    read(answers, finds) {
      for (const [index, answer] of answers.entries()) steps[index]?.read?.(answer, finds)
    },
  }
}

export function hasSlots({ row }: CounterRun<CountingRow>): boolean {
  return row.definition.slots > 1
}

/** The key, if there is only one. */
export function ownerOf(keys: readonly string[]): string | undefined {
  return keys.length === 1 ? keys[0] : undefined
}
