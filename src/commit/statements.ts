import type { ResultSetHeader } from 'mysql2'
import { type Answer, firstRow, rowsOf } from '../mysql/session.ts'
import { integer, list, REVISION_OF_NOW } from '../mysql/sql.ts'

/** A text of statements, in the order in which they are sent, and how they are written. */
export class FlushText {
  readonly at: Date
  readonly isGalera: boolean
  readonly statements: string[] = []

  constructor(at: Date, isGalera = false) {
    this.at = at
    this.isGalera = isGalera
  }

  /** Adds a statement, and returns the index of its answer. */
  add(statement: string): number {
    return this.statements.push(statement) - 1
  }
}

/** Reads the answers to the statements that a function has added to a text. */
export type Reader<Value> = (answers: readonly Answer[], clock: Clock) => Value

/** The database's clock, as far as it was read. */
export interface Clock {
  /** In milliseconds since 1970. */
  readonly now: number
  /** Initial revision of rows that are changed for the first time. */
  readonly first: number | undefined
}

/** Where the clock was not read. */
export const NO_CLOCK: Clock = { now: 0, first: undefined }

/** Reads the database's clock: also as the initial revision of rows, as results need it before they are written. */
export function readClock(text: FlushText): (answers: readonly Answer[]) => Clock {
  const clockAt = text.add(`select unix_timestamp() as now, ${REVISION_OF_NOW} as first`)
  return (answers) => {
    const row = firstRow<Record<'now' | 'first', number>>(answers[clockAt])
    return { now: 1000 * (row?.now ?? 0), first: row?.first }
  }
}

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
