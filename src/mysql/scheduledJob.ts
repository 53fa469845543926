import type { ResultSetHeader } from 'mysql2'
import { BEGINNING } from './counting.ts'
import type { Database } from './database.ts'
import { bytes, integer } from './literals.ts'
import { within } from './within.ts'

export interface ScheduledJob {
  /** Lets go of it: what is under way ends soon. */
  close(): Promise<void>
}

export interface ScheduledJobOptions {
  name: string
  /** How often it is done, in seconds, by any of the processes that share the database. */
  everyS: number
  /** Asks between its steps whether it may go on. */
  work: (mayGoOn: () => boolean) => Promise<void>
  onFailure: (error: unknown) => void
}

/** How often a process looks whether it is time, in parts of the time between. */
const LOOKS = 4
/** Processes that were started together look apart. */
const LOOK_APART_MS = 2000
/** How long who closes it waits for what is under way. */
const PATIENCE_MS = 1000

/** Does something from time to time that one of all processes is to do, whichever looks first when it is due. */
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
      if (underWay) await within(PATIENCE_MS, underWay).catch(() => undefined)
    },
  }
}

/** Whether something is to be done now, by who asks: nobody else is told so until it is due again. */
export function isDue(database: Database, name: string, everyS: number): Promise<boolean> {
  return database.repeatable(async (connection) => {
    await connection.query(`insert ignore into chore (name, begun_at) values (${bytes(name)}, ${BEGINNING})`)
    const [{ affectedRows }] = await connection.query<ResultSetHeader>(
      `update chore
          set begun_at = utc_timestamp()
        where name = ${bytes(name)} and begun_at <= utc_timestamp() - interval ${integer(everyS)} second`,
    )
    return affectedRows === 1
  })
}
