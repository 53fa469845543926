import type { ResultSetHeader } from 'mysql2'
import { type Answer, rowsOf } from '../mysql/session.ts'
import { integer, list } from '../mysql/sql.ts'

/** A text of statements, in the order in which they are sent, and how they are written. */
export class FlushText {
  readonly at: Date
  readonly isGalera: boolean
  readonly statements: string[]

  constructor(at: Date, isGalera = false, statements: string[] = []) {
    this.at = at
    this.isGalera = isGalera
    this.statements = statements
  }

  /** Adds a statement, and returns the index of its answer. */
  add(statement: string): number {
    return this.statements.push(statement) - 1
  }
}

/** Reads the answers to the statements that a function has added to a text. */
export type Reader<Value> = (answers: readonly Answer[]) => Value

/** The ids of rows, for `in (…)`. */
export function idsOf(works: readonly { row: { id: number } }[]): string {
  return list(works, ({ row }) => integer(row.id))
}

/** The rows of an answer by their id. */
export function byId<Row extends { id: number }>(answer: Answer | undefined): Map<number, Row> {
  return new Map(rowsOf<Row>(answer).map((row) => [row.id, row]))
}

/** The answer to a statement that is not a select. */
export function resultOf(answer: Answer | undefined): Pick<ResultSetHeader, 'affectedRows' | 'insertId'> {
  return answer === undefined || Array.isArray(answer) ? NO_RESULT : answer
}

const NO_RESULT = { affectedRows: 0, insertId: 0 }
