import type { ResultSetHeader } from 'mysql2'
import type { Database } from './connections/database.ts'
import { withTimeout } from './connections/timeout.ts'
import { BEGINNING } from './counters/update.ts'
import { bytes, integer } from './literals.ts'

export interface ScheduledJob {
  /** Stops it. A run in progress ends soon. */
  close(): Promise<void>
}

export interface ScheduledJobOptions {
  name: string
  /** Interval in seconds, across all processes that share the database. */
  everyS: number
  /** Calls `mayGoOn` between its steps; false: stop. */
  work: (mayGoOn: () => boolean) => Promise<void>
  onFailure: (error: unknown) => void
}

/** Checks per interval by each process. */
const LOOKS = 4
/** Spread of the first checks of processes started together. */
const LOOK_APART_MS = 2000
/** Maximum wait for a run in progress, on closing. */
const PATIENCE_MS = 1000

/** Runs a job regularly in one of all processes: whichever checks first when it is due. */
export function openScheduledJob(
  database: Database,
  { name, everyS, work, onFailure }: ScheduledJobOptions,
): ScheduledJob {
  const lookEveryMs = (everyS * 1000) / LOOKS
  let isClosed = false
  let underWay: Promise<void> | undefined
  let timer = setTimeout(begin, Math.random() * LOOK_APART_MS).unref()

  function begin(): void {
    underWay = attempt()
      .catch((error) => {
        if (!isClosed) onFailure(error)
      })
      .then(() => {
        underWay = undefined
        if (!isClosed) timer = setTimeout(begin, lookEveryMs * (0.5 + Math.random())).unref()
      })
  }

  async function attempt(): Promise<void> {
    if (await isDue(database, name, everyS)) await work(() => !isClosed)
  }

  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      if (underWay) await withTimeout(PATIENCE_MS, underWay).catch(() => undefined)
    },
  }
}

/** Whether a job is due. Returns true to one caller only, until it is due again. */
export function isDue(database: Database, name: string, everyS: number): Promise<boolean> {
  return database.withRetry(async (connection) => {
    await connection.query(
      `insert ignore into scheduled_job (name, started_at) values (${bytes(name)}, ${BEGINNING})`,
    )
    const [{ affectedRows }] = await connection.query<ResultSetHeader>(
      `update scheduled_job
          set started_at = utc_timestamp()
        where name = ${bytes(name)} and started_at <= utc_timestamp() - interval ${integer(everyS)} second`,
    )
    return affectedRows === 1
  })
}
