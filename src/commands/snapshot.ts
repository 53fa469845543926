import type { Connection } from 'mysql2/promise'
import {
  type KeyRow,
  keyIn,
  type ReservationRow,
  reservationIn,
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from '../commit/reservations.ts'
import { connectionOptions, openConnection, type Target } from '../mysql/settings.ts'
import { bytes, integer, type NamedRow, nameIn, select, timeOf } from '../mysql/sql.ts'
import { listKeys } from '../repository/apiKeys.ts'
import { retentionOf } from '../repository/namespaces.ts'
import type { Entry, EntryType, GroupPeriod, SequenceGroupEntry } from '../rules/entries.ts'
import type { ApiKey } from '../rules/rights.ts'
import { eachOf, exportCounters, PAGE, partsOf, rowsOf } from './exportCounters.ts'

export type Snapshot = Awaited<ReturnType<typeof openSnapshot>>

const CONNECT_TIMEOUT_MS = 10_000
/** How long the server waits for a reader that reads slowly, in seconds. */
const IDLE_LIMIT_S = 86_400

/**
 * Opens a view of the database as of one instant, while others change it. The server keeps old versions of the rows that
 * are changed meanwhile, until it is closed.
 */
export async function openSnapshot(target: Target) {
  const connection = await openConnection(connectionOptions(target, CONNECT_TIMEOUT_MS))
  try {
    await connection.query(`set session wait_timeout = ${IDLE_LIMIT_S}`)
    await connection.query('set session transaction isolation level repeatable read')
    // Read first: so the snapshot has all that was committed until then.
    const at = await timeOf(connection)
    await connection.query('start transaction with consistent snapshot, read only')
    return {
      /** The instant, by the database's clock. What was committed a moment later may be included. */
      at,

      /** How many counters, sequence groups and reservations there are, approximately. */
      async size(): Promise<number> {
        const [found] = await select<{ size: number | string }>(
          connection,
          `select (select count(*) from counter) + (select count(*) from sequence_group)
                + (select count(*) from reservation) as size`,
        )
        return Number(found?.size ?? 0)
      },

      /** All entries: what others refer to comes before them. */
      async *entries(types: ReadonlySet<EntryType>): AsyncGenerator<Entry> {
        if (types.has('namespace')) yield* exportNamespaces(connection)
        if (types.has('counter')) yield* exportCounters(connection, types.has('counterHistory'))
        if (types.has('sequence')) yield* exportSequences(connection)
        if (types.has('sequenceGroup')) yield* exportGroups(connection)
        if (types.has('reservation')) yield* exportReservations(connection)
        if (types.has('apiKey')) yield* exportApiKeys(connection)
        if (types.has('idempotencyKey')) yield* exportIdempotencyKeys(connection)
      },

      close: () => connection.end().catch(() => connection.destroy()),
    }
  } catch (error) {
    connection.destroy()
    throw error
  }
}

async function* exportNamespaces(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<{ id: number } & Record<'name' | 'time_zone' | 'periods', Buffer>>((after) =>
    select(
      connection,
      `select id, name, time_zone, periods
         from namespace
        where id > ${integer(after?.id ?? 0)}
        order by id
        limit ${PAGE}`,
    ),
  )
  for await (const { name, time_zone, periods } of rows)
    yield { type: 'namespace', name: name.toString(), ...retentionOf(time_zone, periods) }
}

type SequenceRow = SequenceDefinitionRow &
  NamedRow &
  Record<'id' | 'is_defined', number> & { created_at: Date; format_history: Buffer | null }

/** Sequences that were used or defined. */
async function* exportSequences(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<SequenceRow>((after) =>
    select(
      connection,
      `select straight_join n.name as namespace, s.name, s.id, s.is_defined, s.created_at, s.format_history, ${SEQUENCE_COLUMNS}
         from sequence s force index (primary)
         join namespace n on n.id = s.namespace_id
        where s.id > ${integer(after?.id ?? 0)}
          and (s.is_defined or exists (select 1 from sequence_group u where u.sequence_id = s.id and u.is_used))
        order by s.id
        limit ${PAGE}`,
    ),
  )
  for await (const row of rows) {
    yield {
      type: 'sequence',
      ...nameIn(row),
      definition: sequenceDefinitionIn(row),
      isDefined: row.is_defined === 1,
      formatHistory: row.format_history ? JSON.parse(row.format_history.toString()) : [],
      createdAt: row.created_at,
    }
  }
}

type GroupRow = KeyRow & { id: number; is_current: number } & {
  latest_period_key: number | null
  format: Buffer | null
  time_zone: Buffer | null
  latest_value: number | null
}

/** Sequence groups that were used. One with many periods has several entries. */
async function* exportGroups(connection: Connection): AsyncGenerator<Entry> {
  const groups = rowsOf<GroupRow>((after) =>
    select(
      connection,
      `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.latest_period_key, g.format,
              g.time_zone, coalesce(g.version = s.version, 0) as is_current, v.value as latest_value
         from sequence_group g force index (primary)
         join sequence s on s.id = g.sequence_id
         join namespace n on n.id = s.namespace_id
         left join sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key
        where g.id > ${integer(after?.id ?? 0)} and g.is_used
        order by g.id
        limit ${PAGE}`,
    ),
  )
  const positionsOf = eachOf(
    rowsOf<GroupPeriod & { id: number }>((after) => {
      const { id, period } = after ?? { id: 0, period: 0 }
      return select(
        connection,
        `select group_id as id, period_key as period, value as lastValue, next_value as nextValue, generation,
                created_at as createdAt, updated_at as updatedAt
           from sequence_value force index (primary)
          where group_id >= ${integer(id)} and (group_id > ${integer(id)} or period_key > ${integer(period)})
            and (value is not null or next_value is not null)
          order by group_id, period_key
          limit ${PAGE}`,
      )
    }),
    ({ id: _, ...position }) => position,
  )
  for await (const row of groups) {
    const key = keyIn(row)
    let isFirst = true
    for await (const periods of partsOf(positionsOf(row.id))) {
      if (isFirst) yield { type: 'sequenceGroup', ...key, latest: latestIn(row), periods }
      else yield { type: 'sequenceGroupPeriods', ...key, periods }
      isFirst = false
    }
  }
}

function latestIn(row: GroupRow): SequenceGroupEntry['latest'] {
  const { latest_period_key: period, time_zone, format, is_current, latest_value: lastValue } = row
  if (period === null || time_zone === null) return null
  const timeZone = time_zone.toString('latin1')
  return { period, lastValue, format: format?.toString() ?? null, timeZone, isCurrent: is_current === 1 }
}

/** Reservations, in the order of their tokens. */
async function* exportReservations(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<ReservationRow & KeyRow & { closed_at: Date | null }>((after) =>
    select(
      connection,
      `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, r.*
         from reservation r force index (primary)
         join sequence_group g on g.id = r.group_id
         join sequence s on s.id = g.sequence_id
         join namespace n on n.id = s.namespace_id
        where r.token > ${bytes(after?.token ?? '')}
        order by r.token
        limit ${PAGE}`,
    ),
  )
  for await (const row of rows) {
    const { periodKey: period, expiresAt, kind: _, ...rest } = reservationIn(row)
    const times = { expiresAt: new Date(expiresAt), closedAt: row.closed_at }
    yield { type: 'reservation', ...keyIn(row), ...rest, period, ...times }
  }
}

async function* exportApiKeys(connection: Connection): AsyncGenerator<Entry> {
  const keys = rowsOf<ApiKey>((after) =>
    listKeys(connection, { after: after?.id, limit: PAGE, fromEnd: false }),
  )
  for await (const key of keys) yield { type: 'apiKey', ...key }
}

type IdempotencyKeyRow = Record<'hash' | 'fingerprint' | 'results', Buffer> &
  Record<'applied_at' | 'claimed_at', Date>

/** Keys per statement: the results of one may have a thousand items. */
const IDEMPOTENCY_KEYS = 200

/** Idempotency keys with their results, in the order of their hashes. */
async function* exportIdempotencyKeys(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<IdempotencyKeyRow>(
    (after) =>
      select(
        connection,
        `select hash, fingerprint, results, applied_at, claimed_at
           from idempotency_key
          where hash > ${bytes(after?.hash ?? '')} and results is not null
          order by hash
          limit ${IDEMPOTENCY_KEYS}`,
      ),
    IDEMPOTENCY_KEYS,
  )
  for await (const { hash, fingerprint, results, applied_at, claimed_at } of rows) {
    yield {
      type: 'idempotencyKey',
      hash: hash.toString('hex'),
      fingerprint: fingerprint.toString('hex'),
      appliedAt: applied_at,
      claimedAt: claimed_at,
      // Written by `storeResults` only.
      results: JSON.parse(results.toString()) as unknown[],
    }
  }
}
