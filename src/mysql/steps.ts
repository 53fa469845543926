import type { Run } from '../core/batch.ts'
import type { Remembered } from '../core/idempotency.ts'
import type { CountingRow, CountingTable } from './counting.ts'
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
  /** What each run's row held before; `undefined`: there is no such row; `unsure`: the answer doesn't tell. */
  before: (number | undefined | 'unsure')[]
  /** What was added before in the running periods of those runs where it is asked, in the order of their definitions. */
  tallies: (number[] | undefined)[]
  remembered: Remembered[]
  /** How many keys were claimed, as nobody had used them. */
  claimed: number
}

export interface FlushForm {
  /** Whether each row and claim has statements of its own, so that a failure has a culprit. */
  isSingly: boolean
  /** Tables whose triggers keep the value out of the answer. */
  triggered: ReadonlySet<CountingTable>
}

export interface Member {
  run: Run<CountingRow>
  index: number
}

export interface Step {
  statement: string
  /** The key of the only row or claim that the statement is for. */
  owner?: string | undefined
  read?: (answer: Answer, finds: Finds) => void
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

export function hasSlots({ row }: Run<CountingRow>): boolean {
  return row.definition.slots > 1
}

/** The key, if there is one only. */
export function ownerOf(keys: readonly string[]): string | undefined {
  return keys.length === 1 ? keys[0] : undefined
}
