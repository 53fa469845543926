import { periodsText } from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import { ER, hasErrorNumber } from '../mysql/errors.ts'
import type { Database } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import { bytes, integer, list, listByName, pageByName } from '../mysql/sql.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import {
  DEFAULT_RETENTION,
  type NamePage,
  type PageByName,
  periodsOf,
  type Retention,
  type RetentionChange,
} from '../rules/counter.ts'
import { type Change, withChange } from '../rules/names.ts'
import type { Owner } from '../rules/turns.ts'
import { batchReads } from './batches.ts'
import { COUNTER_EXISTS, parsePeriods, SEQUENCE_EXISTS } from './columns.ts'

/** Whether readers see a counter or a sequence in it. */
const HAS_CONTENT = `(exists (
              select 1
                from counter c
                join counter_value v on v.counter_id = c.id
               where c.namespace_id = n.id and ${COUNTER_EXISTS})
            or exists (
              select 1
                from sequence s
               where s.namespace_id = n.id and ${SEQUENCE_EXISTS}))`

/** A namespace, with the default time zone and periods of what is created in it. */
export interface NamespaceState extends Retention {
  name: string
  /** The periods for which it has leaderboards. */
  leaderboards: readonly Period[]
  /** The leaderboards that already have the counters which existed before. */
  filled: readonly Period[]
}

export type NamespaceChange = RetentionChange & Change<{ leaderboards: readonly Period[] }>

export type NamespaceRow = { id: number } & Record<
  'name' | 'time_zone' | 'periods' | 'leaderboards' | 'filled_leaderboards',
  Buffer
>

export function openNamespaces(database: Database, definitions: Database) {
  const readStates = async (owner: Owner, rest: string) =>
    (await database.withRetry(owner, (connection) => readNamespaces(connection, rest))).map(namespaceIn)
  const { read } = batchReads(
    ({ name }: { name: string }) => name,
    (names) => readStates(JOINED, `where n.name in (${list(names, ({ name }) => bytes(name))})`),
    ({ name }): NamespaceState => ({ name, ...DEFAULT_RETENTION, leaderboards: [], filled: [] }),
  )
  return {
    /** A namespace that doesn't exist has the defaults. */
    read: (name: string) => read({ name }),

    /** The names among some of those that exist, with or without content. */
    async existing(names: readonly string[]): Promise<Set<string>> {
      const states = await readStates(JOINED, `where n.name in (${list(names, bytes)})`)
      return new Set(states.map(({ name }) => name))
    },

    /** Lists those with a counter or a sequence: all, or those with one of some names. */
    async list(
      page: PageByName,
      names?: readonly string[],
      owner = JOINED,
    ): Promise<NamePage<NamespaceState>> {
      if (names?.length === 0) return { items: [], searchedTo: undefined }
      const conditions = names ? [`n.name in (${list(names, bytes)})`] : []
      const listed = { column: 'n.name', from: 'from namespace n', conditions }
      return database.withRetry(owner, (connection) =>
        listByName(connection, listed, page, async (page) => {
          const rest = pageByName('n.name', page, [...conditions, HAS_CONTENT])
          return (await readNamespaces(connection, rest)).map(namespaceIn)
        }),
      )
    },

    /**
     * Sets the defaults for counters and sequences created from now on, and the leaderboards. Creates the namespace if it
     * doesn't exist.
     *
     * @throws {NthError} UNAVAILABLE; safe to retry
     */
    define: (
      name: string,
      { timeZone, periods, leaderboards: chosen }: NamespaceChange,
      owner = JOINED,
    ): Promise<NamespaceState> =>
      definitions.withRetry(owner, async (connection) => {
        // Created on its own first: another session may create it at the same time.
        await findOrCreateNamespace(connection, name).catch(unlessTaken)
        return connection.inTransaction(async () => {
          const row = await readCreated(connection, name, 'for update')
          const present = namespaceIn(row)
          const change = { timeZone, periods: periods && periodsOf(periods) }
          const retention = withChange<Retention>(present, change, DEFAULT_RETENTION)
          const leaderboards = chosen === undefined ? present.leaderboards : (chosen ?? [])
          const [counter] = await connection.select(
            `select id from counter where namespace_id = ${integer(row.id)} limit 1`,
          )
          const state = { name, ...retention, leaderboards, filled: counter ? present.filled : leaderboards }
          await connection.query(
            `update namespace
                set ${namespaceSet(state)}
              where id = ${integer(row.id)}`,
          )
          return state
        })
      }),
  }
}

/** Reads a namespace, and creates it if it doesn't exist. */
export async function findOrCreateNamespace(connection: Connection, name: string): Promise<NamespaceRow> {
  const [row] = await readNamespaces(connection, `where n.name = ${bytes(name)}`)
  if (row) return row
  await connection.query(`insert into namespace (name) values (${bytes(name)})`)
  return readCreated(connection, name)
}

/** For the error of an insert that another session may have made at the same time. */
export function unlessTaken(error: unknown): undefined {
  if (!hasErrorNumber(error, ER.DUP_ENTRY)) throw error
}

async function readCreated(connection: Connection, name: string, locking = ''): Promise<NamespaceRow> {
  const [row] = await readNamespaces(connection, `where n.name = ${bytes(name)} ${locking}`)
  if (!row) throw new Error(`No namespace ${JSON.stringify(name)} after creating it`)
  return row
}

export function readNamespaces(connection: Connection, rest: string): Promise<NamespaceRow[]> {
  return connection.select(`select ${NAMESPACE} from namespace n ${rest}`)
}

export function namespaceIn(row: NamespaceRow): NamespaceState {
  return {
    name: row.name.toString(),
    ...retentionOf(row.time_zone, row.periods),
    leaderboards: leaderboardsIn(row.leaderboards),
    filled: leaderboardsIn(row.filled_leaderboards),
  }
}

/** The columns of a namespace. Table alias: n. */
export const NAMESPACE = 'n.id, n.name, n.time_zone, n.periods, n.leaderboards, n.filled_leaderboards'

/** The assignments that store the definition of a namespace. */
export function namespaceSet({ timeZone, periods, leaderboards, filled }: Omit<NamespaceState, 'name'>) {
  const textOf = (chosen: readonly Period[]) =>
    bytes(PERIODS.filter((period) => leaderboards.includes(period) && chosen.includes(period)).join(','))
  return `time_zone = ${bytes(timeZone)},
                    periods = ${bytes(periodsText({ periods }))},
                    leaderboards = ${textOf(leaderboards)},
                    filled_leaderboards = ${textOf(filled)}`
}

/** Parses the columns of leaderboards: `DAY,MONTH`. */
export function leaderboardsIn(column: Buffer): Period[] {
  const texts = column.toString('latin1').split(',')
  return PERIODS.filter((period) => texts.includes(period))
}

/** Parses the columns of a retention. */
export function retentionOf(timeZone: Buffer, periods: Buffer): Retention {
  return { timeZone: timeZone.toString('latin1'), periods: parsePeriods(periods.toString('latin1')).periods }
}
