import type { ResultSetHeader } from 'mysql2'
import { type Answer, rowsOf } from '../mysql/session.ts'
import { groupBy, hex, integer, list } from '../mysql/sql.ts'
import { rowKey } from '../rules/rows.ts'
import { type Batch, type CounterWork, type NotApplied, slotOf } from './batch.ts'

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

/** An expression with a literal for each row: that of the first one, except for those that it lists. */
export function eachOf<Work extends { row: { id: number } }>(
  works: readonly Work[],
  idColumn: string,
  literalOf: (work: Work) => string,
): string {
  const [only] = works
  if (only && works.length === 1) return literalOf(only)
  const [[first] = [''], ...others] = groupBy(works, literalOf)
  if (others.length === 0) return first
  const cases = others.map(([literal, some]) => `when ${idColumn} in (${idsOf(some)}) then ${literal}`)
  return `case ${cases.join(' ')} else ${first} end`
}

/** The condition for the slots of a counter that its operations change. */
export function slotsOf(work: CounterWork): string {
  const slot = slotOf(work)
  return `counter_id = ${integer(work.row.id)}${slot === undefined ? '' : ` and slot = ${integer(slot)}`}`
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

/** MySQL and MariaDB have different syntax for this lock; each executes only its own of these comments. */
const SHARED_NOWAIT = '/*M!100600 lock in share mode nowait */ /*!80001 for share nowait */'

/**
 * Locks the rows of a flush that no other session has locked, and waits for none. It fails at the quarantined counter,
 * before it locks any other row, and at the first locked claim or sequence group, as those may also be missing, and a
 * reservation must not skip a number. `keys` are those of the statements that may fail, by their index. Counters are known
 * to exist, so locked ones are skipped: those are returned, and so are those that are gone.
 */
export function tryLocks(
  { claims, counters, sequenceGroups }: Batch,
  quarantined: string | undefined,
  text: FlushText,
): { keys: readonly string[]; read: Reader<Extract<NotApplied, { kind: 'notLocked' }> | undefined> } {
  const keys: string[] = []
  const lockOne = (key: string, table: string, which: string, how = 'for update nowait') => {
    // Without rows, and after statements without any: so the index of the one that fails is known.
    keys[text.add(`select count(*) into @found from ${table} force index (primary) where ${which} ${how}`)] =
      key
  }
  const quarantinedWork = counters.find(({ row }) => rowKey(row) === quarantined)
  if (quarantinedWork) lockOne(rowKey(quarantinedWork.row), 'counter_value', slotsOf(quarantinedWork))
  for (const { hash } of claims) lockOne(hash, 'idempotency_key', `hash = ${hex(hash)}`)
  for (const { row, periodKey } of sequenceGroups) {
    const ofPeriod = `group_id = ${integer(row.id)} and period_key = ${integer(periodKey)}`
    lockOne(rowKey(row), 'sequence', `id = ${integer(row.sequenceId)}`, SHARED_NOWAIT)
    lockOne(rowKey(row), 'sequence_group', `id = ${integer(row.id)}`)
    lockOne(rowKey(row), 'sequence_value', ofPeriod)
  }
  const lockedAt = counters.map((work) =>
    text.add(`${SELECT_VERSIONS}${slotsOf(work)}\n   for update skip locked`),
  )
  const presentAt =
    counters.length > 0 ? text.add(`${SELECT_VERSIONS}counter_id in (${idsOf(counters)}) and slot = 0`) : -1
  const read = (answers: readonly Answer[]) => {
    const missing = counters.filter((work, index) => {
      if (work.isMissed) return false
      const locked = rowsOf(answers[lockedAt[index] ?? -1]).length
      return locked < (slotOf(work) === undefined ? work.row.definition.slots : 1)
    })
    if (missing.length === 0) return undefined
    const versions = new Map(rowsOf(answers[presentAt]).map((row) => [row.counter_id, row.version]))
    const keysOf = (areThere: boolean) =>
      missing.flatMap(({ row }) => ((versions.get(row.id) === row.version) === areThere ? [rowKey(row)] : []))
    return { kind: 'notLocked' as const, locked: keysOf(true), gone: keysOf(false) }
  }
  return { keys, read }
}

const SELECT_VERSIONS = `select counter_id, version
  from counter_value force index (primary)
 where `
