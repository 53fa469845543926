import type { ResultSetHeader } from 'mysql2'
import type { Precautions } from '../../core/groupCommit/batch.ts'
import { type Answer, rowsOf, type Session } from '../connections/session.ts'
import { integer, list } from '../literals.ts'

/** A statement of a flush. */
export interface Statement {
  readonly text: string
  /** The key of the only row or claim that it is for. */
  readonly owner?: string | undefined
  readonly isSelect?: true
  /** Whether its failure concerns the whole transaction: no row, and no claim. */
  readonly isFence?: true
}

/** Statements that are sent one after another, and a function that reads their answers. */
export interface Section<Value> {
  readonly statements: readonly Statement[]
  read(answers: readonly Answer[], clock: Clock): Value
}

/** How the statements of a flush are written. */
export interface Form extends Pick<Precautions, 'onePerStatement'> {
  readonly at: Date
  /** Whether a trigger on counters hides their values from the answers. */
  readonly isTriggered: boolean
  /** Ids of sequence groups whose last number the answer lacks: a trigger hides it, or it was 0. */
  readonly hidden: Set<number>
  readonly isGalera: boolean
}

export function select(text: string, owner?: string): Statement {
  return { text, owner, isSelect: true }
}

/** Follows a select, to show whether that failed or the statement after it. */
const MARK: Statement = { text: 'do 0' }

/** The statements of some lists in one, with marks. */
export function withMarks(lists: readonly (readonly Statement[])[]): Statement[] {
  const statements: Statement[] = []
  for (const list of lists) {
    for (const statement of list) {
      statements.push(statement)
      if (statement.isSelect) statements.push(MARK)
    }
  }
  return statements
}

/** Where the clock was not read. */
export const NO_CLOCK: Clock = { now: 0, first: undefined }

/** Sends the statements of some lists, `withMarks`, as one text. Returns the answers to each list. */
export async function send<Lists extends readonly (readonly Statement[])[]>(
  session: Session,
  statements: readonly Statement[],
  lists: readonly [...Lists],
): Promise<{ [Index in keyof Lists]: Answer[] }> {
  const texts: string[] = []
  for (const { text } of statements) texts.push(text)
  const answers = await session.send(texts)
  const byList: Answer[][] = []
  let next = 0
  for (const list of lists) {
    const answersToList: Answer[] = []
    for (const { isSelect } of list) {
      const answer = answers[next]
      if (answer) answersToList.push(answer)
      next += isSelect ? 2 : 1
    }
    byList.push(answersToList)
  }
  // One for each list.
  return byList as { [Index in keyof Lists]: Answer[] }
}

/** Sections that are sent one after another, as one. */
export function joined<Value>(sections: readonly Section<readonly Value[]>[]): Section<readonly Value[]> {
  const [first, ...others] = sections
  if (first && others.length === 0) return first
  return {
    statements: sections.flatMap(({ statements }) => statements),
    read(answers, clock) {
      let next = 0
      return sections.flatMap((section) => {
        const from = next
        next += section.statements.length
        return section.read(answers.slice(from, next), clock)
      })
    },
  }
}

/** Splits rows by statement: one for all, or one for each. */
export function together<Item>(items: readonly Item[], { onePerStatement }: Form): (readonly Item[])[] {
  if (onePerStatement) return items.map((item) => [item])
  return items.length > 0 ? [items] : []
}

/** The key, if there is only one. */
export function ownerOf(works: readonly { row: { key: string } }[]): string | undefined {
  return works.length === 1 ? works[0]?.row.key : undefined
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

/** The database's clock, as far as it was read. */
export interface Clock {
  /** In milliseconds since 1970. */
  readonly now: number
  /** Initial revision of rows that are changed for the first time. */
  readonly first: number | undefined
}
