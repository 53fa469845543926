import type { Database } from '../mysql/pool.ts'
import { JOBS } from '../mysql/slots.ts'

/** A table, by the estimates of its server. `bytes`: with its indexes. */
interface TableSize {
  name: string
  rows: number
  bytes: number
}

/** Least time between two looks, in milliseconds: workers report their metrics each second. */
const LOOK_EVERY_MS = 60_000

const SELECT = `select table_name as name, cast(table_rows as signed) as 'rows',
       cast(data_length + index_length as signed) as bytes
  from information_schema.tables
 where table_schema = database() and data_length is not null
 order by table_name`

/** Returns a function that gives the sizes of all tables as last looked at, and looks again when it is time. */
export function openTableSizes(database: Database): () => readonly TableSize[] {
  let sizes: readonly TableSize[] = []
  let dueAt = 0

  async function look(): Promise<void> {
    sizes = await database.select<TableSize>(JOBS, SELECT)
  }

  return () => {
    const now = performance.now()
    if (now >= dueAt) {
      dueAt = now + LOOK_EVERY_MS
      // Whoever reads metrics doesn't wait for the database. Why it fails is reported elsewhere.
      look().catch(() => undefined)
    }
    return sizes
  }
}
