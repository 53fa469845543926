import { ER, hasErrorNumber } from '../connections/errors.ts'
import { type Answer, FailedStatement, firstRow, type Session } from '../connections/session.ts'

/** A table that exists only during a check. */
export const TABLE = 'nth_check'
export const CREATE = `create table ${TABLE} (id int not null, value bigint not null, primary key (id)) engine = InnoDB`
/** Its rows in each trial, each with the value 10. */
const ROWS = [1, 2, 3, 4]
export const SET_UP = [
  `delete from ${TABLE}`,
  `insert into ${TABLE} (id, value) values ${ROWS.map((id) => `(${id}, 10)`).join(', ')}`,
  'commit',
]
export const TIME_LIMIT_MS = 5000

/** Statements of trials: a value is set, read, incremented as a writer does it; one that fails. */
export const set = (id: number, value: string) => `update ${TABLE} set value = ${value} where id = ${id}`
export const read = (id: number, how = '') => `select value from ${TABLE} where id = ${id} ${how}`
export const ADD = set(1, 'last_insert_id(value) + 1')
export const FAIL = 'select if(0, 0, (select 1 union select 2))'

/** Adds 1 to the first row, in a transaction of its own that is repeated where a writer would. Returns the value before. */
export async function added(session: Session): Promise<number> {
  const [, answer] = await repeated(session, ['start transaction', ADD, 'commit'])
  return insertIdIn(answer)
}

/** Sends a transaction until it meets no other one. */
export async function repeated(session: Session, statements: readonly string[]): Promise<Answer[]> {
  const deadline = performance.now() + TIME_LIMIT_MS
  while (true) {
    try {
      return await session.send(statements)
    } catch (error) {
      const isConflict = hasErrorNumber(causeOf(error), ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
      if (!isConflict || performance.now() > deadline) throw error
      await session.send(['rollback'])
    }
  }
}

export async function valueIn(session: Session, id = 1): Promise<number> {
  const [answer] = await session.send([read(id), 'commit'])
  return Number(firstRow<{ value: number }>(answer)?.value)
}

export function insertIdIn(answer: Answer | undefined): number {
  return Number(Object(answer).insertId)
}

/** The index of the statement at which a text fails. */
export async function failingIndex(sent: Promise<unknown>): Promise<number | undefined> {
  const error = await sent.catch((failure: unknown) => failure)
  return error instanceof FailedStatement ? error.index : undefined
}

export function causeOf(error: unknown): Error {
  return (error instanceof FailedStatement ? error.cause : error) as Error
}
