import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import { type Answer, rowsOf } from '../connections/session.ts'

/** A statement of a flush, and how to read its answer. */
export interface Step {
  statement: string
  /** The key of the only row or claim that the statement is for. */
  owner?: string | undefined
  /** Whether its failure concerns the whole transaction: no row, and no claim. */
  isFirst?: boolean
  /** Reads the answer to a select, as rows of the type that `select` was called with. */
  readRows?: ((rows: never[]) => void) | undefined
  /** Reads the answer to any other statement. */
  readResult?: (result: ResultSetHeader) => void
}

/** How the statements of a flush are written. */
export interface FlushForm {
  /** Whether each row and claim has its own statements, so that a failure shows the failing key. */
  onePerStatement: boolean
  /** Whether a trigger on counters hides their values from the answers. */
  isTriggered: boolean
  /** Ids of sequence groups whose last number the answer lacks: a trigger hides it, or it was 0. */
  hidden: Set<number>
  /** Whether the server is one node of a Galera cluster. */
  isGalera: boolean
}

/** Splits rows by statement: one for all, or one for each. */
export function together<One>(some: readonly One[], { onePerStatement }: FlushForm): One[][] {
  if (onePerStatement) return some.map((one) => [one])
  return some.length > 0 ? [[...some]] : []
}

/** Follows a select, to show whether that failed or the statement after it. */
const MARK: Step = { statement: 'do 0' }

export function select<Row = RowDataPacket>(
  statement: string,
  owner?: string,
  readRows?: (rows: Row[]) => void,
): Step[] {
  return [{ statement, owner, readRows }, MARK]
}

export function readAnswers(steps: readonly Step[], answers: readonly Answer[]): void {
  for (const [index, answer] of answers.entries()) {
    steps[index]?.readRows?.(rowsOf<never>(answer))
    if (!Array.isArray(answer)) steps[index]?.readResult?.(answer)
  }
}

/** The key, if there is only one. */
export function ownerOf(members: readonly { row: { key: string } }[]): string | undefined {
  return members.length === 1 ? members[0]?.row.key : undefined
}
