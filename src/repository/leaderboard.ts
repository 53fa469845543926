import { LRUCache } from 'lru-cache'
import { withTimeout } from '../mysql/errors.ts'
import type { Database, Work } from '../mysql/pool.ts'
import { BEGIN_SNAPSHOT, type PooledConnection } from '../mysql/pooledConnection.ts'
import { JOINED } from '../mysql/slots.ts'
import { bytes, EPOCH, groupBy, instant, integer, list, selectAll } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import { HALF_MS, type Period, periodKeyOf } from '../rules/calendar.ts'
import type { CounterKey } from '../rules/counter.ts'
import {
  ALL_TIME,
  type LeaderboardEntry,
  type LeaderboardOrder,
  type LeaderboardPage,
  PAST_LEADERBOARDS,
  type SortKey,
} from '../rules/leaderboards.ts'
import { joinNames } from '../rules/names.ts'
import type { CounterRow } from '../rules/rows.ts'
import type { Owner } from '../rules/turns.ts'
import { batchOwnReads } from './batches.ts'
import { JOIN_VALUE, STATE, type StateRow, stateIn } from './columns.ts'
import { repeat } from './jobs.ts'
import { type ListedValue, type Place, readPlaces, tableOf, valueText } from './leaderboardBlocks.ts'
import { copyToLeaderboard, noteRead, scanNamespace, withReaders } from './leaderboardSync.ts'

interface ListedRow {
  id: number
  namespace_id: number
  listed_value: number
  /** Null: never changed. */
  listed_at: Date | null
}

/** The index of each order: its column, and how that is written. */
const indexes = {
  VALUE_DESC: { sortedBy: 'value', isDescending: true, literal: integer },
  VALUE_ASC: { sortedBy: 'value', isDescending: false, literal: integer },
  UPDATED_AT_DESC: { sortedBy: 'updated_at', isDescending: true, literal: instant },
} satisfies Record<LeaderboardOrder, object>

/** Reads a page. */
export async function listLeaderboard(
  connection: PooledConnection,
  namespace: string,
  page: LeaderboardPage,
): Promise<LeaderboardEntry[]> {
  const joins = `join namespace n on n.id = r.namespace_id
       join counter c on c.id = r.counter_id
       join counter_value v on ${JOIN_VALUE}`
  const isListed = `n.name = ${bytes(namespace)}`
  const rows = await connection.select<ListedRow & StateRow>(selectPage(STATE, page, isListed, joins))
  return rows.map((row) => entryIn(row, page))
}

/**
 * Selects a page. The server starts at its position in the index and reads no further than the page. That takes both
 * `force index` and this form of the condition: otherwise MariaDB scans all rows before it, or all with the same value.
 * Measured on 10.11, in the middle of a million: 0.4 ms rather than 1.2 s.
 */
function selectPage(columns: string, page: LeaderboardPage, isListed: string, joins = ''): string {
  const { order, after, before, limit, fromEnd, periodKey = ALL_TIME } = page
  const { sortedBy, isDescending, literal } = indexes[order]
  const column = `r.${sortedBy}`
  const [behind, ahead] = isDescending ? ['<', '>'] : ['>', '<']
  const direction = isDescending === fromEnd ? 'asc' : 'desc'
  const beyond = ({ sortedBy, id }: SortKey, side: string) => {
    const by = literal(sortedBy)
    return `(${column} ${side} ${by} or ${column} = ${by} and r.counter_id ${side} ${integer(id)})`
  }
  const { table, isOn } = tableOf(periodKey)
  const conditions = [isListed, isOn]
  if (after) conditions.push(beyond(after, behind))
  if (before) conditions.push(beyond(before, ahead))
  return `select ${columns}, r.counter_id as id, r.namespace_id, r.value as listed_value,
            ${periodKey === ALL_TIME ? `nullif(r.updated_at, ${EPOCH})` : 'null'} as listed_at
       from ${table} r force index (${table}_${sortedBy})
       ${joins}
      where ${conditions.join(' and ')}
      order by ${column} ${direction}, r.counter_id ${direction}
      limit ${integer(limit)}`
}

function entryIn(
  row: ListedRow & StateRow,
  { order, periodKey = ALL_TIME }: Pick<LeaderboardPage, 'order' | 'periodKey'>,
): LeaderboardEntry {
  return {
    ...stateIn(row),
    leaderboard: { namespaceId: row.namespace_id, periodKey },
    listedValue: row.listed_value,
    sortKey: {
      sortedBy: order === 'UPDATED_AT_DESC' ? (row.listed_at?.getTime() ?? 0) : row.listed_value,
      id: row.id,
    },
  }
}

/** A counter on a leaderboard, and its order. */
export interface LeaderboardKey extends CounterKey {
  periodKey: number
  lowestFirst: boolean
}

function textOf({ namespace, name, periodKey, lowestFirst }: LeaderboardKey): string {
  return joinNames(namespace, name, String(periodKey), String(lowestFirst))
}

/** Finds the counters that are on their leaderboards, with their values there. */
async function readListed<Key extends LeaderboardKey>(
  connection: PooledConnection,
  keys: readonly Key[],
): Promise<(Key & ListedValue & { id: number })[]> {
  const leaderboards = groupBy(keys, ({ namespace, periodKey }) => joinNames(namespace, String(periodKey)))
  const selects = [...leaderboards.values()].map((alike, number) => {
    const [{ namespace, periodKey }] = alike
    const { table, isOn } = tableOf(periodKey)
    return `select ${number} as number, c.name, c.id, c.namespace_id as namespaceId, r.value
       from namespace n
       join counter c on c.namespace_id = n.id
       join ${table} r on r.counter_id = c.id
      where n.name = ${bytes(namespace)} and c.name in (${list(alike, ({ name }) => bytes(name))}) and ${isOn}`
  })
  type Row = Record<'number' | 'id' | 'namespaceId' | 'value', number> & { name: Buffer }
  const listed = groupBy(await selectAll<Row>(connection, selects), ({ number, name }) => `${number} ${name}`)
  return [...leaderboards.values()].flatMap((alike, number) =>
    alike.flatMap((key) => (listed.get(`${number} ${key.name}`) ?? []).map((row) => ({ ...row, ...key }))),
  )
}

interface NeighborsKey extends LeaderboardKey {
  above: number
  below: number
}

/**
 * Reads the entries around counters, and their own, within a snapshot: so none is missing or there twice. The states of
 * those that are found are read together: with joins for each counter, 500 took 245 ms of the database's processor time
 * rather than 78 ms (MariaDB 10.11).
 */
async function readNeighbors(connection: PooledConnection, keys: readonly NeighborsKey[]) {
  const counters = await readListed(connection, keys)
  const pageOf = ({ lowestFirst, periodKey }: NeighborsKey) =>
    ({ order: lowestFirst ? 'VALUE_ASC' : 'VALUE_DESC', periodKey }) as const
  const selects = counters.flatMap((counter, number) => {
    const { namespaceId, above, below, value, id, lowestFirst } = counter
    const isListed = `r.namespace_id = ${namespaceId}`
    const page = pageOf(counter)
    const before = { sortedBy: value, id }
    // The counter follows this position itself.
    const after = { sortedBy: value, id: lowestFirst ? id - 1 : id + 1 }
    return [
      { ...page, before, limit: above, fromEnd: true },
      { ...page, after, limit: 1 + below, fromEnd: false },
    ].map((page) => `(${selectPage(`${number} as number`, page, isListed)})`)
  })
  const rows = await selectAll<ListedRow & StateRow & { number: number }>(
    connection,
    selects,
    // By the statistics of tables that were just filled, a server would scan them.
    (listed) => `select straight_join l.*, ${STATE}
       from (${listed}) l
       join counter c force index (primary) on c.id = l.id
       join counter_value v force index (primary) on ${JOIN_VALUE}
       join namespace n force index (primary) on n.id = c.namespace_id`,
  )
  const rowsOf = groupBy(rows, ({ number }) => number)
  return counters.map((counter, number) => {
    const sign = counter.lowestFirst ? 1 : -1
    const sorted = (rowsOf.get(number) ?? []).toSorted(
      (a, b) => sign * (a.listed_value - b.listed_value || a.id - b.id),
    )
    return { ...counter, entries: sorted.map((row) => entryIn(row, pageOf(counter))) }
  })
}

function inSnapshot<Key, State>(
  work: (connection: PooledConnection, keys: readonly Key[]) => Promise<State[]>,
  keys: readonly Key[],
): Work<State[]> {
  return (connection) => connection.inTransaction(() => work(connection, keys), BEGIN_SNAPSHOT)
}

/** Pause between two copies, in milliseconds. */
const DELAY = { min: 1000, max: 5000 }
/** Copying takes at most a twentieth of the time, as far as the longest pause allows. */
const PAUSE_PER_COPY = 19
/** Maximum wait for a copy, on reading and on closing. */
const COPY_TIMEOUT_MS = 1000
/** How often changes are copied where nobody reads, unless more than so many counters wait. */
const UNREAD = { everyMs: 60_000, counters: 10_000 }
/** How often a process notes that it reads a namespace. */
const NOTE_EVERY_MS = 10_000
/** After so long without a read, less than `READ_S`, a process reads for the first time again. */
const PAUSE_MS = 600_000

/**
 * Keeps the table `leaderboard` up to date, which holds counters sorted by value and by last change. Changed rows are
 * copied to it in batches: an index on the values themselves would make each change 10 to 30 % more expensive.
 *
 * A namespace that is read is copied once a second. If thousands change every second, it is less often: once a second, the
 * copies took a seventh of the changes per second of 10 000 counters. A namespace that nobody reads is copied once a minute.
 *
 * Each process notes in the table `leaderboard_read` which namespaces it reads. The rule: before its first read there, and
 * before the first one after a pause, it notes that, and then copies all changes that no process has copied. From then on,
 * each process copies its changes there soon. So a read shows what was a minute ago only if that takes more than a second. A
 * scheduled job finds rows that a killed process did not copy.
 *
 * At most one copy runs and one waits. All requests in the meantime share the waiting one.
 *
 * @param maxAgeMs a read takes a copy that is younger, rather than to start one; 0 in tests that read what they just changed
 */
export function openLeaderboard(database: Database, now: () => Date, notices: Notices, maxAgeMs = 1000) {
  const marked = new Map<number, CounterRow>()
  const noted = new LRUCache<string, { at: number; firstRead: Promise<unknown> | undefined }>({ max: 10_000 })
  let tookMs = 0
  let copiedAt = Number.NEGATIVE_INFINITY
  let allCopiedAt = Number.NEGATIVE_INFINITY
  let isClosing = false
  let running: Promise<void> = Promise.resolve()
  let waiting: Promise<void> | undefined
  const copying = repeat(() => pauseMs(tookMs), refresh, notices)

  /** A clock that was put back must not make an instant recent for hours. */
  const sinceMs = (at: number) => Math.abs(now().getTime() - at)

  function refresh(): Promise<void> {
    if (marked.size > 0) waiting ??= running.catch(() => undefined).then(copy)
    return waiting ?? running
  }

  async function copy(): Promise<void> {
    running = waiting ?? running
    waiting = undefined
    const [startedAt, at] = [performance.now(), now()]
    const isDue = sinceMs(allCopiedAt) >= UNREAD.everyMs || marked.size > UNREAD.counters || isClosing
    // The period of a change may have ended since the copy before.
    const past = sinceMs(allCopiedAt) < HALF_MS.HOUR ? 1 : PAST_LEADERBOARDS
    let rows = [...marked.values()]
    copiedAt = at.getTime()
    try {
      if (!isDue) rows = await withReaders(database, rows)
      for (const { id } of rows) marked.delete(id)
      const isAll = marked.size === 0
      for (const fault of await copyToLeaderboard(database, rows, at, past)) notices.fault(fault)
      if (isAll) allCopiedAt = at.getTime()
    } catch (error) {
      copiedAt = Number.NEGATIVE_INFINITY
      for (const row of rows) marked.set(row.id, row)
      throw error
    } finally {
      tookMs = performance.now() - startedAt
    }
  }

  async function note(name: string, isFirstRead: boolean): Promise<void> {
    const id = await noteRead(database, name)
    // The namespace may be created at any time, and its first read is noted then.
    if (id === undefined) return void noted.delete(name)
    if (!isFirstRead) return
    await refresh()
    for (const fault of await scanNamespace(database, id, now())) notices.fault(fault)
  }

  /** Notes sometimes that a namespace is read. Returns what its reads wait for. */
  function prepare(name: string): Promise<unknown> | undefined {
    const last = noted.get(name) ?? { at: Number.NEGATIVE_INFINITY, firstRead: undefined }
    if (sinceMs(last.at) < NOTE_EVERY_MS) return last.firstRead
    const isFirstRead = sinceMs(last.at) >= PAUSE_MS
    const isNoted = note(name, isFirstRead).catch(() => noted.delete(name))
    const firstRead = isFirstRead ? isNoted : last.firstRead
    noted.set(name, { at: now().getTime(), firstRead })
    return firstRead
  }

  /** Reads what was there a second ago, or later. If copying takes longer than a second, reads what was copied. */
  async function read<T>(owner: Owner, keys: readonly { namespace: string }[], work: Work<T>): Promise<T> {
    const deadline = database.deadline(owner)
    const namespaces = new Set(keys.map(({ namespace }) => namespace))
    const isCopied = Promise.all([...namespaces].map(prepare)).then(() =>
      sinceMs(copiedAt) < maxAgeMs ? running : refresh(),
    )
    await withTimeout(COPY_TIMEOUT_MS, isCopied).catch(() => undefined)
    return database.withRetry(owner, work, deadline)
  }

  const readPlacesOf = async (connection: PooledConnection, keys: readonly LeaderboardKey[]) =>
    readPlaces(connection, await readListed(connection, keys))
  const places = batchOwnReads<LeaderboardKey, LeaderboardKey & Place, null>(
    textOf,
    (keys, owner) => read(owner, keys, inSnapshot(readPlacesOf, keys)),
    () => null,
  )
  const placesOfValues = batchOwnReads<ListedValue, ListedValue & Place>(valueText, (values, owner) =>
    database.withRetry(owner, inSnapshot(readPlaces, values)),
  )
  const neighbors = batchOwnReads<NeighborsKey, NeighborsKey & { entries: LeaderboardEntry[] }, null>(
    (key) => `${textOf(key)} ${key.above} ${key.below}`,
    (keys, owner) => read(owner, keys, inSnapshot(readNeighbors, keys)),
    () => null,
  )

  return {
    /** Marks changed rows for the next copy. */
    mark(rows: readonly CounterRow[]): void {
      for (const row of rows) marked.set(row.id, row)
    },

    list: (namespace: string, page: LeaderboardPage, owner = JOINED): Promise<LeaderboardEntry[]> =>
      read(owner, [{ namespace }], (connection) => listLeaderboard(connection, namespace, page)),

    /** The key of the period that contains an instant: by default, now. */
    periodKey: (period: Period, timeZone: string, at?: Date | null) =>
      periodKeyOf(period, timeZone, at ?? now()),

    /** The place of a counter; null: it is not on that leaderboard. An owner's reads of a tick share a snapshot. */
    place: async (key: LeaderboardKey, owner = JOINED) => (await places.read(key, owner))?.place ?? null,

    /**
     * The places of entries that follow each other on a leaderboard. Read are the place of the first value, which entries
     * before them may have, too, and the place of the second value, from which the entries behind it are counted.
     */
    async placesOf(entries: readonly LeaderboardEntry[], lowestFirst: boolean, owner = JOINED) {
      const values = entries.map(({ listedValue }) => listedValue)
      const second = values.findIndex((value) => value !== values[0])
      const firsts = [0, second].flatMap((index) => entries[index] ?? [])
      const [first, next] = await placesOfValues.readMany(
        firsts.map(({ leaderboard, listedValue: value }) => ({ ...leaderboard, value, lowestFirst })),
        owner,
      )
      return values.map((value) => {
        if (value === values[0]) return first?.place ?? null
        return next ? next.place + values.indexOf(value) - second : null
      })
    },

    /** The counters around one, and itself; null: it is not on that leaderboard. Reads share a snapshot as for places. */
    neighbors: async (key: LeaderboardKey, above: number, below: number, owner = JOINED) =>
      (await neighbors.read({ ...key, above, below }, owner))?.entries ?? null,

    async close(): Promise<void> {
      await copying.close()
      isClosing = true
      await withTimeout(COPY_TIMEOUT_MS, refresh()).catch(() => undefined)
    },
  }
}

/** Pause after a copy that took so long, in milliseconds. */
export function pauseMs(tookMs: number): number {
  return Math.min(Math.max(PAUSE_PER_COPY * tookMs, DELAY.min), DELAY.max)
}
