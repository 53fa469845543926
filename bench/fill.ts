import { type Connection, createConnection, type ResultSetHeader } from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'
import type { BenchOptions } from './bench.ts'
import { LEADER, type Leaderboard, STRIDE } from './leaderboard.ts'

/**
 * Puts the leaderboards that are to be measured straight into the tables that Nth has made. A million counters
 * take 13 s on two cores of an AMD EPYC (`npm run bench -- --only nth,leaders@64/1m`).
 */
export async function fillLeaderboards(
  { workloads, say, signal }: Pick<BenchOptions, 'workloads' | 'say' | 'signal'>,
  target: Target,
): Promise<void> {
  const boards = workloads.flatMap((workload) => (workload.kind === 'leaderboard' ? [workload.board] : []))
  if (boards.length === 0) return
  const connection = await createConnection(target)
  try {
    for (const board of boards) {
      say(`ranking ${board.size} counters`)
      for (const insert of [insertCounters, insertValues, insertRanks]) {
        signal.throwIfAborted()
        await insert(connection, board)
      }
    }
    await settle(connection)
  } finally {
    await connection.end()
  }
}

/** Has the server do at once what it would else do while something is measured. */
async function settle(connection: Connection): Promise<void> {
  const tables = 'counter, counter_value, leaderboard'
  await connection.query(`analyze table ${tables}`)
  // Writes what is only in memory yet. Without it a million leave 46 MB to write of the 53 that the redo log holds,
  // and the next changes have to wait for that.
  await connection.query(`flush tables ${tables} for export`)
  await connection.query('unlock tables')
}

async function insertCounters(connection: Connection, { namespace, size }: Leaderboard): Promise<void> {
  const [{ insertId }] = await connection.query<ResultSetHeader>('insert into namespace (name) values (?)', [
    namespace,
  ])
  await connection.query(
    `insert into counter (namespace_id, name)
     select ?, concat(?, number)
       from (${numbersBelow(size)}) numbers`,
    [insertId, LEADER],
  )
}

async function insertValues(connection: Connection, { namespace, size }: Leaderboard): Promise<void> {
  await connection.query(
    `insert into counter_value
            (counter_id, slot, version, value, revision, created_at, updated_at)
     select c.id, 0, c.version,
            cast(substring(c.name, ?) as unsigned) * ? % ? + 1, 1, utc_timestamp(3), utc_timestamp(3)
       from counter c
       join namespace n on n.id = c.namespace_id
      where n.name = ?`,
    [LEADER.length + 1, STRIDE, size, namespace],
  )
}

async function insertRanks(connection: Connection, { namespace }: Leaderboard): Promise<void> {
  await connection.query(
    `insert into leaderboard (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, v.value, v.updated_at, v.revision
       from counter c
       join namespace n on n.id = c.namespace_id
       join counter_value v on v.counter_id = c.id
      where n.name = ?`,
    [namespace],
  )
}

/** A query for the numbers from 0 on. The size is a power of ten. */
function numbersBelow(size: number): string {
  const digits = Array.from({ length: Math.round(Math.log10(size)) }, (_, place) => `d${place}`)
  const ten = Array.from({ length: 10 }, (_, digit) => `select ${digit} as digit`).join(' union all ')
  return `select ${digits.map((table, place) => `${table}.digit * ${10 ** place}`).join(' + ')} as number
            from ${digits.map((table) => `(${ten}) ${table}`).join(' cross join ')}`
}
