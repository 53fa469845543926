import type { RowDataPacket } from 'mysql2'
import type { PageByRank, Rank, RankedCounter, RankOrder } from '../core/counters.ts'
import { NthError } from '../core/errors.ts'
import { DEFINITION, stateIn } from './counterRows.ts'
import { BEGINNING, type CountingRow } from './counting.ts'
import type { Connection, Database } from './database.ts'
import { bytes, instant, integer } from './literals.ts'
import { within } from './within.ts'

/**
 * Keeps the table `counter_rank`, by which counters are listed in the order of their values and changes. Rows
 * that were changed are copied there together, at most once a second: an index on the values themselves would
 * make each change 10 to 30 % dearer. What a process that ended had not copied, the walk of another finds.
 */
export interface Ranking {
  /** Notes rows that were changed. */
  note(rows: readonly CountingRow[]): void
  /** Copies what was noted. */
  refresh(): Promise<void>
  close(): Promise<void>
}

const DELAY_MS = 1000
/** How long closing waits for what was noted. */
const LAST_COPY_MS = 1000
const BATCH = 1000
/** Between two walks through all counters. */
const WALK_EVERY_MS = 600_000
/** How many ids one statement of a walk looks at: it takes some 20 ms. */
const STRIDE = 10_000

export function openRanking(database: Database, onFault: (error: unknown) => void): Ranking {
  let noted = new Set<number>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  let isWalking = false
  // One after the other: what came first must not be overtaken.
  let copying: Promise<void> = Promise.resolve()
  const walker = setInterval(startWalk, WALK_EVERY_MS).unref()
  startWalk()

  function startWalk(): void {
    if (isWalking) return
    isWalking = true
    walk()
      .catch((error) => {
        // The next walk goes the same way. Where the database is out of reach, others say so.
        if (!isClosed && !(error instanceof NthError)) onFault(error)
      })
      .finally(() => {
        isWalking = false
      })
  }

  async function walk(): Promise<void> {
    const last = await database.repeatable(lastId)
    for (let from = 0; from < last && !isClosed; from += STRIDE) {
      const stale = await database.repeatable((connection) => staleIds(connection, from, from + STRIDE))
      await copyAll(stale)
    }
  }

  async function copyNoted(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const ids = noted
    noted = new Set()
    try {
      await copyAll([...ids])
    } catch (error) {
      for (const id of ids) noted.add(id)
      schedule()
      throw error
    }
  }

  async function copyAll(ids: readonly number[]): Promise<void> {
    const ordered = ids.toSorted((a, b) => a - b)
    for (let from = 0; from < ordered.length; from += BATCH) {
      await database.repeatable((connection) => copy(connection, ordered.slice(from, from + BATCH)))
    }
  }

  function refresh(): Promise<void> {
    if (noted.size === 0) return copying
    const copied = copying.then(copyNoted)
    copying = copied.catch(() => undefined)
    return copied
  }

  function schedule(): void {
    if (isClosed) return
    timer ??= setTimeout(() => {
      timer = undefined
      // The database is out of reach, which others say.
      refresh().catch(() => undefined)
    }, DELAY_MS).unref()
  }

  return {
    refresh,

    note(rows) {
      for (const { table, id } of rows) if (table === 'counter_value') noted.add(id)
      if (noted.size > 0) schedule()
    },

    async close() {
      isClosed = true
      clearInterval(walker)
      clearTimeout(timer)
      // What isn't copied then, a walk finds.
      await within(LAST_COPY_MS, refresh()).catch(() => undefined)
    },
  }
}

/** Copies counters' rows. Of two copies under way at once, the later state stays. */
async function copy(connection: Connection, ids: readonly number[]): Promise<void> {
  await connection.query(
    `insert into counter_rank (counter_id, namespace_id, value, updated_at, revision)
     select c.id, c.namespace_id, v.value, coalesce(v.updated_at, ${BEGINNING}), v.revision
       from counter_value v
       join counter c on c.id = v.counter_id
      where v.counter_id in (${ids.map(integer).join(', ')})
        and v.period = 0 and v.starts_at = ${BEGINNING} and v.slot = 0 and v.revision > 0
     on duplicate key update
       value = if(values(revision) > counter_rank.revision, values(value), counter_rank.value),
       updated_at = if(values(revision) > counter_rank.revision, values(updated_at), counter_rank.updated_at),
       revision = greatest(values(revision), counter_rank.revision)`,
  )
}

async function lastId(connection: Connection): Promise<number> {
  const [rows] = await connection.query<RowDataPacket[]>('select max(id) as id from counter')
  return rows[0]?.id ?? 0
}

/** The counters with ids above `from` and up to `to` whose copy is missing or old. */
async function staleIds(connection: Connection, from: number, to: number): Promise<number[]> {
  const [rows] = await connection.query<RowDataPacket[]>(
    `select v.counter_id as id
       from counter_value v
       left join counter_rank r on r.counter_id = v.counter_id
      where v.counter_id > ${integer(from)} and v.counter_id <= ${integer(to)}
        and v.period = 0 and v.starts_at = ${BEGINNING} and v.slot = 0
        and v.revision > coalesce(r.revision, 0)`,
  )
  return rows.map(({ id }) => id)
}

interface RankIndex {
  name: string
  column: string
  isDescending: boolean
  literal: (sortedBy: number) => string
}

const indexes: Record<RankOrder, RankIndex> = {
  VALUE_DESC: { name: 'counter_rank_value', column: 'r.value', isDescending: true, literal: integer },
  VALUE_ASC: { name: 'counter_rank_value', column: 'r.value', isDescending: false, literal: integer },
  UPDATED_AT_DESC: {
    name: 'counter_rank_updated_at',
    column: 'r.updated_at',
    isDescending: true,
    literal: (sortedBy) => instant(new Date(sortedBy)),
  },
}

/**
 * Reads a page. It begins at its place in the index and reads no further than it is long, which both the index
 * named and the form of the condition are needed for: otherwise MariaDB goes through all that comes before, or
 * through all that have the same value. Measured on 10.11, in the middle of a million: 0.4 ms, and 1.2 s.
 */
export async function listRanked(
  connection: Connection,
  namespace: string,
  { order, after, before, limit, fromEnd }: PageByRank,
): Promise<RankedCounter[]> {
  const { name, column, isDescending, literal } = indexes[order]
  const [behind, ahead] = isDescending ? ['<', '>'] : ['>', '<']
  const direction = isDescending === fromEnd ? 'asc' : 'desc'
  const beyond = ({ sortedBy, id }: Rank, side: string) => {
    const by = literal(sortedBy)
    return `(${column} ${side} ${by} or ${column} = ${by} and r.counter_id ${side} ${integer(id)})`
  }
  const conditions = [`n.name = ${bytes(namespace)}`]
  if (after) conditions.push(beyond(after, behind))
  if (before) conditions.push(beyond(before, ahead))
  const [rows] = await connection.query<RowDataPacket[]>(
    `select n.name as namespace, c.name, ${DEFINITION}, c.id, v.created_at, r.value,
            nullif(r.updated_at, ${BEGINNING}) as updated_at
       from namespace n
       join counter_rank r force index (${name}) on r.namespace_id = n.id
       join counter c on c.id = r.counter_id
       join counter_value v on v.counter_id = c.id and v.period = 0 and v.starts_at = ${BEGINNING} and v.slot = 0
      where ${conditions.join(' and ')}
      order by ${column} ${direction}, r.counter_id ${direction}
      limit ${integer(limit)}`,
  )
  return rows.map((row) => ({
    ...stateIn(row),
    rank: {
      sortedBy: order === 'UPDATED_AT_DESC' ? (row.updated_at?.getTime() ?? 0) : row.value,
      id: row.id,
    },
  }))
}
