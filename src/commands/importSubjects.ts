import { periodCode, startSecond } from '../commit/periodStatements.ts'
import {
  COUNTS,
  NUMBERS,
  type StoredSubject,
  type SubjectColumns,
  subjectLiteral,
} from '../commit/subjectStatements.ts'
import { integer, list, select } from '../mysql/sql.ts'
import { keyText } from '../rules/counter.ts'
import type { EntryOf } from '../rules/entries.ts'
import type { Result } from '../rules/merge.ts'
import type { FirstNumber } from '../rules/sequence.ts'
import type { ImportContext } from './importContext.ts'
import { lockCounters } from './importCounters.ts'
import { lockGroups, lockPositions } from './importSequences.ts'

/** Adds subjects to those of counters, under the lock of their values: only its holder writes subjects. */
export async function importCounterSubjects(
  context: ImportContext,
  entries: readonly EntryOf<'counterSubjects'>[],
): Promise<Result[]> {
  const withoutHistory = entries.map((entry) => ({ ...entry, history: [] }))
  const present = await lockCounters(context.connection, withoutHistory)
  const results: Result[] = []
  for (const { subjects, subjectSalt, period, start, ...key } of entries) {
    const counter = present.get(keyText(key))?.counter
    const placeIn = (id: number) => [integer(id), periodCode(period), startSecond(start.getTime())]
    const place = counter?.salt === subjectSalt ? placeIn(counter.id) : undefined
    results.push(await addSubjects(context, COUNTS, place, subjects, (one, other) => one.at < other.at))
  }
  return results
}

/** The same for sequence groups, under the lock of the rows in which they issue numbers. */
export async function importGroupSubjects(
  context: ImportContext,
  entries: readonly EntryOf<'sequenceGroupSubjects'>[],
): Promise<Result[]> {
  const withPeriods = entries.map((entry) => ({ ...entry, periods: [entry] }))
  const groupOf = await lockGroups(context, withPeriods)
  await lockPositions(context.connection, withPeriods, groupOf)
  // Those of the latest generation are in force.
  const isBefore = (one: FirstNumber, other: FirstNumber) =>
    one.generation === other.generation ? one.issuedAt < other.issuedAt : one.generation > other.generation
  const results: Result[] = []
  for (const entry of withPeriods) {
    const { id, sequence } = groupOf(entry)
    const place = sequence.salt === entry.subjectSalt ? [integer(id), integer(entry.period)] : undefined
    const subjects = entry.subjects.map((one) => ({ ...one, issuedAt: one.issuedAt.getTime() }))
    results.push(await addSubjects(context, NUMBERS, place, subjects, isBefore))
  }
  return results
}

/** Subjects per statement: at most 60 kB, as a line can't be divided otherwise. */
const MAX_ROWS = 200

/** Adds subjects. Of two calls of one subject, the one before stays: its caller has that number. */
async function addSubjects<First>(
  { connection, isDryRun }: ImportContext,
  { table, key, columns, firstIn, valuesOf }: SubjectColumns<never, First>,
  // The values of the key before `subject`; undefined: what has them does not exist, or has another salt.
  place: readonly string[] | undefined,
  subjects: readonly (First & { subject: string })[],
  isBefore: (one: First, other: First) => boolean,
): Promise<Result> {
  // A dry run has not kept what the line of the counter or sequence does. Otherwise that line shows why it was refused.
  const missing = isDryRun ? 'created' : 'refused'
  if (!place) return { outcome: missing, subjects: { [missing]: subjects.length } }
  const selected = [...key, ...columns].join(', ')
  const rows = await select<StoredSubject>(
    connection,
    `select ${selected}
       from ${table} force index (primary)
      where ${place.map((value, index) => `${key[index]} = ${value}`).join(' and ')}
        and subject in (${list(subjects, ({ subject }) => subjectLiteral(subject))})
      order by ${key.join(', ')}
        for update`,
  )
  const present = new Map(rows.map((row) => [row.subject.toString('hex'), firstIn(row)]))
  const counts = { created: 0, raised: 0, unchanged: 0 }
  const values: string[] = []
  for (const one of subjects) {
    const other = present.get(one.subject)
    const outcome = !other ? 'created' : isBefore(one, other) ? 'raised' : 'unchanged'
    counts[outcome] += 1
    const row = [...place, subjectLiteral(one.subject), ...valuesOf(one)]
    if (outcome !== 'unchanged') values.push(`(${row.join(', ')})`)
  }
  for (let from = 0; from < values.length; from += MAX_ROWS)
    await connection.query(
      `insert into ${table} (${selected})
values ${values.slice(from, from + MAX_ROWS).join(', ')}
on duplicate key update ${columns.map((column) => `${column} = values(${column})`).join(', ')}`,
    )
  return { outcome: values.length > 0 ? 'raised' : 'unchanged', subjects: counts }
}
