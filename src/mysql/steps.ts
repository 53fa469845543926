import type { CounterRun } from '../core/batch.ts'
import type { Earlier } from '../core/idempotency.ts'
import type { GroupFound } from '../core/numberState.ts'
import type { CountingRow } from './counting.ts'
import type { Answer } from './session.ts'

/** Statements of a flush, and how to read their answers. */
export interface FlushText {
  statements: string[]
  /** The key of the only row or claim that the statement of an index is for. */
  ownerAt(index: number): string | undefined
  /** Notes what the flush finds. */
  read(answers: readonly Answer[], finds: Finds): void
}

/** What a flush finds. */
export interface Finds {
  /** What each counter held before; `undefined`: there is no such row; `unsure`: the answer doesn't tell. */
  before: (number | undefined | 'unsure')[]
  /** What was added before in the running periods of those counters where it is asked, in the order of their definitions. */
  periodTotals: (number[] | undefined)[]
  /** The revision before of those counters where it is asked, and of some others. */
  revisions: (number | undefined)[]
  /** The revision that rows begin with which are changed for the first time, where it is asked. */
  first: number | undefined
  /** What each group has issued before; undefined: there is no such group. */
  positions: (GroupFound | undefined)[]
  remembered: Earlier[]
  /** How many keys were claimed, as nobody had used them. */
  claimed: number
}

export interface FlushForm {
  /** Whether each row and claim has statements of its own, so that a failure has a failingKey. */
  onePerStatement: boolean
  /** Whether a trigger on counters keeps the value out of the answer. */
  isTriggered: boolean
  /** The ids of groups whose last number the answer doesn't tell: a trigger keeps it back, or it was 0. */
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

/** Up to so many rows of a kind, a statement for each is quicker than locking all and then changing all. */
export const NARROW = 8

/** Rows as statements take them: all by one, or each by one of its own. */
export function together<One>(
  some: readonly One[],
  { onePerStatement }: Pick<FlushForm, 'onePerStatement'>,
): One[][] {
  if (onePerStatement) return some.map((one) => [one])
  return some.length > 0 ? [[...some]] : []
}

/** Stands behind a select, so that it is known whether that one failed or what follows. */
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

/** The key, if there is one only. */
export function ownerOf(keys: readonly string[]): string | undefined {
  return keys.length === 1 ? keys[0] : undefined
}
