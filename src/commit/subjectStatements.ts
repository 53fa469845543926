import { rowsOf } from '../mysql/session.ts'
import { instant, integer, list, orNull } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import type { FirstCount } from '../rules/counter.ts'
import type { CounterRow } from '../rules/rows.ts'
import { onceSince } from '../rules/subjects.ts'
import type { CounterWork, CounterWrite } from './batch.ts'
import { COLUMNS, type PeriodsRow, periodCode, startSecond } from './periodStatements.ts'
import type { FlushText, Reader } from './statements.ts'

const ADDED = PERIODS.map((period) => COLUMNS[period].added)

/** Columns of `counter_subject`. */
export const SUBJECT = ['subject', 'value', 'counted_at', ...ADDED].join(', ')

export type SubjectRow = PeriodsRow & { value: number } & { subject: Buffer; counted_at: Date }

export function firstCountIn(row: SubjectRow): FirstCount {
  const valuesIn: { [P in Period]?: number } = {}
  for (const period of PERIODS) {
    const added = row[COLUMNS[period].added]
    if (added !== null) valuesIn[period] = Number(added)
  }
  return { value: row.value, at: row.counted_at, valuesIn }
}

/** The first columns of the key of a counter's subjects that count at an instant. */
function placeOf({ id, definition }: CounterRow, at: Date): string[] {
  const { oncePer, timeZone } = definition
  return [integer(id), periodCode(oncePer), startSecond(onceSince(oncePer, timeZone, at.getTime()))]
}

/** The condition for some of them, by their hashes. */
export function subjectsAt(row: CounterRow, at: Date, hashes: readonly string[]): string {
  const [id, period, start] = placeOf(row, at)
  const isAt = `counter_id = ${id} and period = ${period} and start = ${start}`
  return `${isAt} and subject in (${list(hashes, subjectLiteral)})`
}

/** A hash as a literal. */
export function subjectLiteral(hash: string): string {
  if (!/^[0-9a-f]{32}$/.test(hash)) throw new RangeError(`${hash} is not the hash of a subject`)
  return `x'${hash}'`
}

/**
 * Reads the subjects of counters, whose rows are locked: nobody else changes them. A locking read: a plain one may miss
 * the writes of a transaction that has just released its locks.
 */
export function lockSubjects(
  works: readonly CounterWork[],
  text: FlushText,
): Reader<(work: CounterWork) => Map<string, FirstCount> | undefined> {
  const conditions = works.flatMap(({ row, subjects }) =>
    subjects ? [subjectsAt(row, text.at, [...subjects.values()])] : [],
  )
  const lockedAt = text.add(`select counter_id, ${SUBJECT}
  from counter_subject force index (primary)
 where ${conditions.join('\n    or ')}
 order by counter_id, period, start, subject
   for update`)
  return (answers) => {
    const rows = rowsOf<SubjectRow & { counter_id: number }>(answers[lockedAt])
    const found = new Map(rows.map((row) => [`${row.counter_id} ${row.subject.toString('hex')}`, row]))
    return ({ row: { id }, subjects }) =>
      subjects &&
      new Map(
        [...subjects].flatMap(([subject, hash]) => {
          const row = found.get(`${id} ${hash}`)
          return row ? [[subject, firstCountIn(row)] as const] : []
        }),
      )
  }
}

/** The statements that write the subjects of counters, as far as they have changed. */
export function writeSubjects(counters: readonly CounterWrite[], at: Date): string[] {
  const stored: string[] = []
  const deletions: string[] = []
  for (const { work, before, after } of counters) {
    const { row, subjects = [] } = work
    const removed: string[] = []
    for (const [subject, hash] of subjects) {
      const first = after.subjects?.get(subject)
      if (first === before.subjects?.get(subject)) continue
      if (first) stored.push(valuesOf(row, hash, first, at))
      else removed.push(hash)
    }
    if (removed.length > 0)
      deletions.push(`delete from counter_subject where ${subjectsAt(row, at, removed)}`)
  }
  if (stored.length === 0) return deletions
  const updated = ['value', 'counted_at', ...ADDED].map((column) => `${column} = values(${column})`)
  return [
    ...deletions,
    `insert into counter_subject (counter_id, period, start, ${SUBJECT})
values ${stored.join(',\n       ')}
on duplicate key update ${updated.join(', ')}`,
  ]
}

function valuesOf(row: CounterRow, hash: string, first: FirstCount, at: Date): string {
  const added = PERIODS.map((period) => orNull(first.valuesIn[period] ?? null, integer))
  const values = [subjectLiteral(hash), integer(first.value), instant(first.at), ...added]
  return `(${[...placeOf(row, at), ...values].join(', ')})`
}
