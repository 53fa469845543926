import type { Answer } from '../connections/session.ts'

/** A statement of a flush, and how to read its answer. */
export interface Step {
  statement: string
  /** The key of the only row or claim that the statement is for. */
  owner?: string | undefined
  read?: ((answer: Answer) => void) | undefined
}

/** Statements that are sent together. */
export type FlushText = ReturnType<typeof textOf>

/** How the statements of a flush are written. */
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

/** Maximum rows of a kind for which one statement each is faster than locking all, then changing all. */
export const NARROW = 8

/** Splits rows by statement: one for all, or one for each. */
export function together<One>(some: readonly One[], { onePerStatement }: FlushForm): One[][] {
  if (onePerStatement) return some.map((one) => [one])
  return some.length > 0 ? [[...some]] : []
}

/** Follows a select, to show whether that failed or the statement after it. */
const MARK: Step = { statement: 'do 0' }

export function select(statement: string, owner?: string, read?: Step['read']): Step[] {
  return [{ statement, owner, read }, MARK]
}

export function textOf(steps: readonly Step[]) {
  return {
    statements: steps.map(({ statement }) => statement),
    ownerAt: (index: number) => steps[index]?.owner,
    read(answers: readonly Answer[]) {
      for (const [index, answer] of answers.entries()) steps[index]?.read?.(answer)
    },
  }
}

/** The key, if there is only one. */
export function ownerOf(members: readonly { run: { row: { key: string } } }[]): string | undefined {
  return members.length === 1 ? members[0]?.run.row.key : undefined
}
