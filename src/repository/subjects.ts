import { firstCountIn, SUBJECT, type SubjectRow, subjectsAt } from '../commit/subjectStatements.ts'
import { type Connection, type Database, retried } from '../mysql/pool.ts'
import { select } from '../mysql/sql.ts'
import { type CounterKey, type FirstCount, keyText } from '../rules/counter.ts'
import { joinNames } from '../rules/names.ts'
import { subjectHash } from '../rules/subjects.ts'
import { batchReads } from './batches.ts'
import { readCounterRows } from './counterRows.ts'

interface SubjectKey extends CounterKey {
  subject: string
}

type SubjectState = SubjectKey & { first: FirstCount }

/**
 * Returns a function that reads what the first call of a subject returned; undefined: it has not counted. All that is
 * requested in one event loop tick is read together.
 */
export function openFirstCounts(database: Database, now: () => Date) {
  const { read } = batchReads<SubjectKey, SubjectState, undefined>(
    ({ namespace, name, subject }) => joinNames(namespace, name, subject),
    retried(database, (connection, keys: readonly SubjectKey[]) => readFirstCounts(connection, keys, now())),
    () => undefined,
  )
  return async ({ namespace, name }: CounterKey, subject: string): Promise<FirstCount | undefined> =>
    (await read({ namespace, name, subject }))?.first
}

async function readFirstCounts(connection: Connection, keys: readonly SubjectKey[], at: Date) {
  const rows = await readCounterRows(connection, keys)
  const wanted = keys.flatMap((key) => {
    const row = rows.get(keyText(key))
    return row?.salt === undefined ? [] : [{ key, row, hash: subjectHash(row.salt, key.subject) }]
  })
  if (wanted.length === 0) return []
  const found = await select<SubjectRow & { counter_id: number }>(
    connection,
    `select counter_id, ${SUBJECT}
       from counter_subject force index (primary)
      where ${wanted.map(({ row, hash }) => subjectsAt(row, at, [hash])).join(' or ')}`,
  )
  const firsts = new Map(
    found.map((row) => [`${row.counter_id} ${row.subject.toString('hex')}`, firstCountIn(row)]),
  )
  return wanted.flatMap(({ key, row, hash }): SubjectState[] => {
    const first = firsts.get(`${row.id} ${hash}`)
    return first ? [{ ...key, first }] : []
  })
}
