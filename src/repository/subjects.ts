import type { SubjectTable } from '../commit/subjectStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import type { Database } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import { integer } from '../mysql/sql.ts'
import type { Row, Rows } from '../rules/rows.ts'
import { createSalt, subjectHash } from '../rules/subjects.ts'
import type { Owner } from '../rules/turns.ts'
import { batchOwnReads } from './batches.ts'

/** The subjects of counters, or of sequence groups. */
export function openSubjects<Name, R extends Row, First>(
  { database, rows, now }: { database: Database; rows: Rows<Name, R>; now: () => Date },
  table: SubjectTable<R, First>,
) {
  type Subject = { row: R; hash: string }
  type Found = Subject & { first: First }

  async function readFirsts(connection: Connection, subjects: readonly Subject[]): Promise<Found[]> {
    const works = subjects.map(({ row, hash }) => ({ row, hash, subjects: new Map([[hash, hash]]) }))
    const firstsOf = table.firstsIn(await connection.select(table.select(works, now())))
    return works.flatMap((work) => {
      const first = firstsOf(work)?.get(work.hash)
      return first ? [{ first, ...work }] : []
    })
  }

  const { read } = batchOwnReads<Subject, Found, undefined>(
    ({ row, hash }) => `${row.id} ${hash}`,
    (subjects, owner) => database.withRetry(owner, (connection) => readFirsts(connection, subjects)),
    () => undefined,
  )

  return {
    /**
     * Reads what the first call of a subject returned, with the row; undefined: it has not called. All that an
     * owner requests in one event loop tick is read together.
     */
    async first(name: Name, subject: string, owner: Owner) {
      // The cached one may be of a past definition.
      const row = await rows.load(name)
      return row?.salt === undefined ? undefined : read({ row, hash: subjectHash(row.salt, subject) }, owner)
    },

    /**
     * Creates the salt of a counter or sequence that an older version created. Returns the deadline of the call that needs
     * it; undefined: no time has passed.
     */
    async ensureSalt(name: Name): Promise<number | undefined> {
      if (rows.cached(name)?.salt !== undefined) return undefined
      const deadline = database.deadline()
      const row: Row = rows.cached(name) ?? (await rows.loadOrCreate(name, now()))
      if (row.salt !== undefined) return deadline
      const [owner, id] = row.kind === 'counter' ? ['counter', row.id] : ['sequence', row.sequenceId]
      const statement = `update ${owner}
        set subject_salt = x'${createSalt()}'
      where id = ${integer(id)} and subject_salt is null`
      await database.withRetry(JOINED, (connection) => connection.query(statement), deadline)
      rows.forget(name)
      return deadline
    },
  }
}
