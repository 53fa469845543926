import { rowsOf } from '../mysql/session.ts'
import { bytes, hex, instant, integer, list, orNull } from '../mysql/sql.ts'
import { calendarOf, PERIODS, type Period } from '../rules/calendar.ts'
import type { FirstCount } from '../rules/counter.ts'
import type { CounterRow, Row, SequenceGroupRow } from '../rules/rows.ts'
import { type FirstNumber, periodKeyAt } from '../rules/sequence.ts'
import { COLUMNS, type PeriodsRow, periodCode, startSecond } from './periodStatements.ts'
import type { FlushText, Reader } from './statements.ts'

/** How the subjects of some kind of rows are stored, with what the first call of each returned. */
interface SubjectColumns<R extends Row, First> {
  table: string
  /** The columns of its primary key. The first one has the id of the row, the last one is `subject`. */
  key: readonly string[]
  /** Its other columns. */
  columns: readonly string[]
  /** A join that leaves out subjects that may call again as if for the first time. */
  join?: string
  /** The values of the key before `subject`, of a row at an instant. */
  placeOf(row: R, at: Date): string[]
  /** The values of the other columns. */
  valuesOf(first: First): string[]
  /** `stored` has the other columns as well. */
  firstIn(stored: StoredSubject): First
}

export type StoredSubject = { id: number; subject: Buffer; value: number }
type StoredCount = StoredSubject & PeriodsRow & { counted_at: Date }
type StoredNumber = StoredSubject & { generation: number; formatted: Buffer; issued_at: Date }

/** Work on a row. `subjects`: those of its operations, with their hashes; undefined: none. */
interface SubjectWork<R extends Row> {
  readonly row: R
  readonly subjects: ReadonlyMap<string, string> | undefined
}

interface SubjectWrite<R extends Row, First> {
  readonly work: SubjectWork<R>
  readonly before: { readonly subjects?: ReadonlyMap<string, First> | undefined }
  readonly after: { readonly subjects: ReadonlyMap<string, First> | undefined }
}

export type SubjectTable<R extends Row, First> = ReturnType<typeof subjectTable<R, First>>

function subjectTable<R extends Row, First>(options: SubjectColumns<R, First>) {
  const { table, key, columns, join = '', placeOf, valuesOf, firstIn } = options

  function isAt(row: R, at: Date, hashes: Iterable<string>): string {
    const place = placeOf(row, at).map((value, index) => `${table}.${key[index]} = ${value}`)
    return `${place.join(' and ')} and ${table}.subject in (${list([...hashes], hex)})`
  }

  /** Selects the subjects of works at an instant. At least one work has some. */
  function select(works: readonly SubjectWork<R>[], at: Date): string {
    const conditions = works.flatMap(({ row, subjects }) =>
      subjects ? isAt(row, at, subjects.values()) : [],
    )
    const selected = ['subject', ...columns].map((column) => `${table}.${column}`)
    return `select ${table}.${key[0]} as id, ${selected.join(', ')}
  from ${table} force index (primary) ${join}
 where ${conditions.join('\n    or ')}`
  }

  /** Returns a function that gives what was selected of the subjects of a work; undefined: it has none. */
  function firstsIn(rows: readonly StoredSubject[]) {
    const found = new Map(rows.map((row) => [`${row.id} ${row.subject.toString('hex')}`, firstIn(row)]))
    return ({ row: { id }, subjects }: SubjectWork<R>): Map<string, First> | undefined => {
      const firsts = new Map<string, First>()
      for (const [subject, hash] of subjects ?? []) {
        const first = found.get(`${id} ${hash}`)
        if (first) firsts.set(subject, first)
      }
      return subjects && firsts
    }
  }

  /** Stores rows, which are given as the values of all columns. */
  function insert(rows: readonly string[]): string {
    const updates = columns.map((column) => `${column} = values(${column})`)
    return `insert into ${table} (${[...key, ...columns].join(', ')})
values ${list(rows, (values) => `(${values})`)}
on duplicate key update ${updates.join(', ')}`
  }

  return {
    ...options,
    select,
    firstsIn,

    /**
     * Reads the subjects of rows that are locked: nobody else changes them. A locking read: a plain one may miss the
     * writes of a transaction that has just released its locks. Undefined: there are no subjects.
     */
    lock(works: readonly SubjectWork<R>[], text: FlushText): Reader<ReturnType<typeof firstsIn>> | undefined {
      if (!works.some(({ subjects }) => subjects)) return undefined
      const lockedAt = text.add(`${select(works, text.at)}
 order by ${key.map((column) => `${table}.${column}`).join(', ')}
   for update`)
      return (answers) => firstsIn(rowsOf(answers[lockedAt]))
    },

    /** The statements that write the subjects of rows, as far as they have changed. */
    write(writes: readonly SubjectWrite<R, First>[], at: Date): string[] {
      const stored: string[] = []
      const statements: string[] = []
      for (const { work, before, after } of writes) {
        const { row, subjects = [] } = work
        const removed: string[] = []
        for (const [subject, hash] of subjects) {
          const first = after.subjects?.get(subject)
          if (first === before.subjects?.get(subject)) continue
          if (first) stored.push([...placeOf(row, at), hex(hash), ...valuesOf(first)].join(', '))
          else removed.push(hash)
        }
        if (removed.length > 0) statements.push(`delete from ${table} where ${isAt(row, at, removed)}`)
      }
      return stored.length > 0 ? [...statements, insert(stored)] : statements
    },
  }
}

/** The subjects that counters have counted. */
export const COUNTS = subjectTable<CounterRow, FirstCount>({
  table: 'counter_subject',
  key: ['counter_id', 'period', 'start', 'subject'],
  columns: ['value', 'counted_at', ...PERIODS.map((period) => COLUMNS[period].added)],
  placeOf({ id, forgottenSecond, definition: { oncePer, timeZone } }, at) {
    const since = oncePer && calendarOf(timeZone).bucketAt(oncePer, at.getTime()).start
    return [integer(id), periodCode(oncePer), since === null ? integer(forgottenSecond) : startSecond(since)]
  },
  valuesOf({ value, at, valuesIn }) {
    const added = PERIODS.map((period) => orNull(valuesIn[period] ?? null, integer))
    return [integer(value), instant(at), ...added]
  },
  firstIn(stored: StoredCount) {
    const valuesIn: { [P in Period]?: number } = {}
    for (const period of PERIODS) {
      const added = stored[COLUMNS[period].added]
      if (added !== null) valuesIn[period] = Number(added)
    }
    return { value: stored.value, at: stored.counted_at, valuesIn }
  },
})

/** The condition of subjects that were not forgotten. Those that count once in a period are known by the salt only. */
export const isKept = (forgottenSecond: string) => `(period > 0 or start = ${forgottenSecond})`

/** The subjects that have numbers of sequence groups. Numbers of an earlier generation count as none, and are overwritten. */
export const NUMBERS = subjectTable<SequenceGroupRow, FirstNumber>({
  table: 'sequence_subject',
  key: ['group_id', 'period_key', 'subject'],
  columns: ['generation', 'value', 'formatted', 'issued_at'],
  join: 'straight_join sequence_value force index (primary) using (group_id, period_key, generation)',
  placeOf({ id, definition }, at) {
    return [integer(id), integer(periodKeyAt(definition, at))]
  },
  valuesOf({ generation, value, formatted, issuedAt }) {
    return [integer(generation), integer(value), bytes(formatted), instant(issuedAt)]
  },
  firstIn({ generation, value, formatted, issued_at }: StoredNumber) {
    return { generation, value, formatted: formatted.toString(), issuedAt: issued_at.getTime() }
  },
})
