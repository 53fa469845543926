import type { ResultSetHeader } from 'mysql2'
import { type Answer, rowsOf, type Session } from '../connections/session.ts'
import { integer, list } from '../literals.ts'

/** Statements that are sent one after another, and a function that reads their answers. */
export interface Section<Value> {
  readonly statements: readonly string[]
  read(answers: readonly Answer[], clock: Clock): Value
}

/** The database's clock, as far as it was read. */
export interface Clock {
  /** In milliseconds since 1970. */
  readonly now: number
  /** Initial revision of rows that are changed for the first time. */
  readonly first: number | undefined
}

/** Where the clock was not read. */
export const NO_CLOCK: Clock = { now: 0, first: undefined }

/** How the statements of a flush are written. */
export interface Form {
  readonly at: Date
  /** Whether triggers hide the values of rows from the answers. */
  readonly isTriggered: boolean
  readonly isGalera: boolean
}

type Lists = readonly (readonly string[])[]
type AnswersTo<All extends Lists> = { [Index in keyof All]: Answer[] }

/** Sends the statements of some lists as one text. Returns the answers to each list. */
export async function send<All extends Lists>(session: Session, lists: readonly [...All]) {
  return splitBy(lists, await session.send(lists.flat()))
}

/** The answers to each of some lists of statements. */
export function splitBy<All extends Lists>(lists: readonly [...All], answers: readonly Answer[]) {
  const byList: Answer[][] = []
  let from = 0
  for (const { length } of lists) {
    byList.push(answers.slice(from, from + length))
    from += length
  }
  // One for each list.
  return byList as AnswersTo<All>
}

/** Sections that are sent one after another, as one. */
export function joined<Value>(sections: readonly Section<readonly Value[]>[]): Section<readonly Value[]> {
  const [first, ...others] = sections
  if (first && others.length === 0) return first
  const lists = sections.map(({ statements }) => statements)
  return {
    statements: lists.flat(),
    read(answers, clock) {
      const byList = splitBy(lists, answers)
      return sections.flatMap(({ read }, index) => read(byList[index] ?? [], clock))
    },
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
