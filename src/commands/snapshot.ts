import { type PartRow, partIn } from '../commit/holdStatements.ts'
import { COLUMNS, type PeriodsRow, periodCoded } from '../commit/periodStatements.ts'
import { type ReservationRow, reservationIn } from '../commit/reservations.ts'
import { COUNTS, isKept, NUMBERS, type StoredSubject } from '../commit/subjectStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import { openConnection, type Target } from '../mysql/settings.ts'
import { MARK, type NamedRow, nameIn, REVISION_OF_NOW, readValue, timeOf } from '../mysql/sql.ts'
import { listKeys } from '../repository/apiKeys.ts'
import {
  COUNTER_EXISTS,
  definitionIn,
  JOIN_VALUE,
  type KeyRow,
  keyIn,
  STATE,
  type StateRow,
  stateIn,
} from '../repository/columns.ts'
import { NAMESPACE, type NamespaceRow, namespaceIn } from '../repository/namespaces.ts'
import {
  STORED_SEQUENCE,
  type StoredSequenceRow,
  storedSequenceIn,
} from '../repository/sequenceDefinition.ts'
import { listDocuments } from '../repository/trustedDocuments.ts'
import { isKnownZone, PERIODS, type Period } from '../rules/calendar.ts'
import type { Entry, EntryOf, GroupPeriod, StoredPeriodTotal } from '../rules/entries.ts'
import type { ApiKey } from '../rules/rights.ts'
import { periodKeyAt } from '../rules/sequence.ts'
import type { TrustedDocument } from '../rules/trustedDocument.ts'
import { createProgress } from './files.ts'
import { eachOf, itemsOf, partsOf, rowsOf } from './paging.ts'

/** Rows of histories and subjects per statement. */
const LONG_PAGE = 10_000
/** Trusted documents per statement. */
const DOCUMENTS = 50
/** How long the server waits for a reader that reads slowly, in seconds. */
const IDLE_LIMIT_S = 86_400

/** A view of the database as of one instant. */
export interface Snapshot {
  /** The instant, by the database's clock. What was committed a moment later may be included. */
  at: Date
  /** Whether it has subjects, or counters with `oncePer`. */
  hasSubjects: boolean
  /** The highest revision, if it is later than the present time: the clock was put back. */
  laterRevision(): Promise<number | undefined>
  /** The entries of some parts, in their order. */
  entries(...parts: readonly ExportPart[]): AsyncGenerator<Entry>
}

/**
 * Runs work on a snapshot, while others change the database, and shows how many entries were read. The server keeps old
 * versions of the rows that are changed meanwhile.
 */
export async function withSnapshot<T>(target: Target, work: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  const connection = await openConnection(target)
  const progress = createProgress(process.stderr)
  try {
    await connection.query(`set session wait_timeout = ${IDLE_LIMIT_S}`)
    await connection.query('set session transaction isolation level repeatable read')
    // Read first: so the snapshot has all that was committed until then.
    const at = await timeOf(connection)
    await connection.query('start transaction with consistent snapshot, read only')
    const size = process.stderr.isTTY ? Number(await readValue(connection, SIZE)) : 0
    async function* entries(...parts: readonly ExportPart[]): AsyncGenerator<Entry> {
      let count = 0
      for (const part of parts)
        for await (const entry of EXPORTERS[part](connection, at)) {
          yield entry
          progress.show(++count, size > 0 ? count / size : undefined)
        }
    }
    const hasSubjects = (await connection.select(FIND_SUBJECTS)).length > 0
    const laterRevision = async () => Number(await readValue(connection, LATER_REVISION)) || undefined
    return await work({ at, hasSubjects, laterRevision, entries })
  } finally {
    progress.clear()
    await connection.end().catch(() => connection.destroy())
  }
}

const FIND_SUBJECTS = `(select 1 from counter_subject limit 1) union all (select 1 from sequence_subject limit 1)
  union all (select 1 from counter where once_per <> 0 limit 1)`

/** A bound of all revisions that were read; null: the present time is one. */
const LATER_REVISION = `(select nullif(greatest(${REVISION_OF_NOW}, greatest(
            ${MARK},
            coalesce((select max(total) from (select sum(revision) as total from counter_value group by counter_id) v), 0),
            coalesce((select max(revision) from sequence_group), 0))
          + coalesce((select max(definitions) from sequence), 0)), ${REVISION_OF_NOW}))`

/** How many counters, sequence groups, reservations and holds there are, approximately. */
const SIZE = `(select count(*) from counter) + (select count(*) from sequence_group)
          + (select count(*) from reservation) + (select count(*) from hold)`

/** What an export can have, in the order of its lines: what others refer to comes before them. */
const EXPORTERS = {
  namespaces: exportNamespaces,
  counters: (connection: Connection) => exportCounters(connection, true),
  countersWithoutHistory: (connection: Connection) => exportCounters(connection, false),
  sequences: exportSequences,
  sequenceGroups: (connection: Connection) => exportGroups(connection),
  currentNumbers: exportGroups,
  reservations: exportReservations,
  holds: exportHolds,
  counterSubjects: exportCounterSubjects,
  sequenceGroupSubjects: exportGroupSubjects,
  trustedDocuments: exportDocuments,
  apiKeys: exportApiKeys,
  idempotencyKeys: exportIdempotencyKeys,
}

type ExportPart = keyof typeof EXPORTERS

/** What an export in JSON Lines has. */
export const EXPORTED: readonly ExportPart[] = [
  'namespaces',
  'counters',
  'sequences',
  'sequenceGroups',
  'reservations',
  'holds',
  'counterSubjects',
  'sequenceGroupSubjects',
]

async function* exportNamespaces(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<NamespaceRow>(
    connection,
    { id: 'id' },
    `select ${NAMESPACE}
       from namespace n`,
  )
  for await (const row of rows) {
    const { name, timeZone, periods, leaderboards } = namespaceIn(row)
    yield { type: 'namespace', name, timeZone, periods, ...(leaderboards.length > 0 && { leaderboards }) }
  }
}

/** Counters in the order of their ids. One with a long history has several entries. */
async function* exportCounters(connection: Connection, withHistory: boolean): AsyncGenerator<Entry> {
  // `straight_join`: MariaDB would begin with the namespaces, and sort all later counters for each page.
  const counters = rowsOf<StateRow & { id: number; salt: Buffer | null; held_at: number }>(
    connection,
    { 'c.id': 'id' },
    `select straight_join ${STATE}, c.id, v.held_at,
            (select c.subject_salt from counter_subject where counter_id = c.id and ${isKept('c.forgotten_at')} limit 1) as salt
       from counter c force index (primary)
       join namespace n on n.id = c.namespace_id
       join counter_value v on ${JOIN_VALUE}`,
    COUNTER_EXISTS,
  )
  const slotsOf = eachOf(
    rowsOf<SlotRow>(
      connection,
      { counter_id: 'id', slot: 'slot' },
      `select counter_id as id, slot, ${SLOT_COLUMNS}
         from counter_value force index (primary)`,
    ),
  )
  const historyOf = eachOf(
    rowsOf<TotalRow>(
      connection,
      { counter_id: 'id', period: 'period', start: 'start' },
      `select counter_id as id, period, start, value
         from counter_history force index (primary)`,
      'true',
      LONG_PAGE,
    ),
  )
  /** The total of a period is what its history row and the columns of all slots have. */
  async function* totalsOf(id: number): AsyncGenerator<StoredPeriodTotal> {
    if (!withHistory) return
    const columns = new Map<string, StoredPeriodTotal>()
    for await (const slot of slotsOf(id))
      for (const total of totalsIn(slot)) columns.set(totalKey(total), addedTo(columns, total))
    for await (const row of historyOf(id)) {
      const total = totalIn(row)
      yield addedTo(columns, total)
      columns.delete(totalKey(total))
    }
    yield* columns.values()
  }

  for await (const row of counters) {
    const { namespace, name, value, createdAt, updatedAt } = stateIn(row)
    const definition = definitionIn(row)
    const subjectSalt = row.salt?.toString('hex')
    const heldAt = Number(row.held_at) > 0 ? new Date(Number(row.held_at)) : undefined
    const rest = { createdAt: createdAt ?? undefined, updatedAt, subjectSalt, heldAt }
    for await (const [index, history] of partsOf(totalsOf(row.id))) {
      if (index === 0) yield { type: 'counter', namespace, name, history, definition, value, ...rest }
      else yield { type: 'counterHistory', namespace, name, history, timeZone: definition.timeZone }
    }
  }
}

type SlotRow = PeriodsRow & Record<'id' | 'slot', number>

const SLOT_COLUMNS = PERIODS.flatMap((period) => [COLUMNS[period].start, COLUMNS[period].added]).join(', ')

/** What the columns of a slot have of each period. */
function totalsIn(slot: SlotRow): StoredPeriodTotal[] {
  return PERIODS.flatMap((period) => {
    const [start, added] = [slot[COLUMNS[period].start], slot[COLUMNS[period].added]]
    if (start == null || added == null || BigInt(added) === 0n) return []
    return { period, start: Number(start), value: BigInt(added) }
  })
}

function totalKey({ period, start }: { period: Period; start: number }): string {
  return `${period} ${start}`
}

/** A total, and what others have of the same period. */
function addedTo(
  others: ReadonlyMap<string, StoredPeriodTotal>,
  total: StoredPeriodTotal,
): StoredPeriodTotal {
  return { ...total, value: total.value + (others.get(totalKey(total))?.value ?? 0n) }
}

interface TotalRow extends Record<'id' | 'period' | 'start', number> {
  value: number | string
}

function totalIn({ period: code, start, value }: TotalRow): StoredPeriodTotal {
  const period = periodCoded(code)
  if (!period) throw new Error(`Unknown period in the database: ${code}`)
  return { period, start, value: BigInt(value) }
}

/** Sequences that were used or defined. */
async function* exportSequences(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<StoredSequenceRow & NamedRow>(
    connection,
    { 's.id': 'id' },
    `select straight_join n.name as namespace, s.name, ${STORED_SEQUENCE},
            (select s.subject_salt from sequence_group u join sequence_subject i on i.group_id = u.id
              where u.sequence_id = s.id limit 1) as salt
       from sequence s force index (primary)
       join namespace n on n.id = s.namespace_id`,
    '(s.is_defined or exists (select 1 from sequence_group u where u.sequence_id = s.id and u.is_used))',
  )
  for await (const row of rows) {
    const { definition, isDefined, createdAt, salt: subjectSalt, ...stored } = storedSequenceIn(row)
    const sequence = { definition, isDefined, formatHistory: [], createdAt, subjectSalt }
    // Earlier versions know neither, and must not restore a sequence without them.
    const pastFormats = stored.pastFormats.length > 0 ? stored.pastFormats : undefined
    const hasMigratedRepeats = stored.hasMigratedRepeats || undefined
    yield { type: 'sequence', ...nameIn(row), ...sequence, pastFormats, hasMigratedRepeats }
  }
}

type GroupRow = KeyRow &
  Record<'id' | 'is_current', number> &
  Record<'latest_period_key' | 'latest_value' | 'restart_every', number | null> &
  Record<'format' | 'time_zone', Buffer | null> & { zone: Buffer }

/**
 * Sequence groups that were used. One with many periods has several entries.
 *
 * @param at if it is given, only the positions of its present period and later ones, and the position of its latest number
 */
async function* exportGroups(connection: Connection, at?: Date): AsyncGenerator<Entry> {
  const groups = rowsOf<GroupRow>(
    connection,
    { 'g.id': 'id' },
    `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.latest_period_key, g.format,
            g.time_zone, coalesce(g.version = s.version, 0) as is_current, v.value as latest_value,
            s.restart_every, s.time_zone as zone
       from sequence_group g force index (primary)
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id
       left join sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key`,
    'g.is_used',
  )
  const positionsOf = eachOf(
    rowsOf<GroupPeriod & { id: number }>(
      connection,
      { group_id: 'id', period_key: 'period' },
      `select group_id as id, period_key as period, value as lastValue, next_value as nextValue, generation,
              created_at as createdAt, updated_at as updatedAt
         from sequence_value force index (primary)`,
      '(value is not null or next_value is not null)',
    ),
  )
  async function* positionsFrom(row: GroupRow, least: number) {
    for await (const position of positionsOf(row.id))
      if (position.period >= least || position.period === row.latest_period_key) yield position
  }
  for await (const row of groups) {
    const key = keyIn(row)
    const positions = at ? positionsFrom(row, presentPeriod(row, at)) : positionsOf(row.id)
    for await (const [index, part] of partsOf(positions)) {
      const periods = part.map(({ id: _, ...period }) => period)
      if (index === 0) yield { type: 'sequenceGroup', ...key, latest: latestIn(row), periods }
      else yield { type: 'sequenceGroupPeriods', ...key, periods }
    }
  }
}

/** The key of the present period of a sequence group. */
function presentPeriod({ restart_every, zone }: GroupRow, at: Date): number {
  const timeZone = zone.toString('latin1')
  return isKnownZone(timeZone) ? periodKeyAt({ restartEvery: periodCoded(restart_every), timeZone }, at) : 0
}

function latestIn(row: GroupRow): EntryOf<'sequenceGroup'>['latest'] {
  const { latest_period_key: period, time_zone, format, is_current, latest_value: lastValue } = row
  if (period === null) return null
  // Without a time zone, it was raised to this number, and has issued none.
  const style = time_zone && { format: format?.toString() ?? null, timeZone: time_zone.toString('latin1') }
  return { period, lastValue, ...style, isCurrent: is_current === 1 }
}

/** Reservations, in the order of their tokens. */
async function* exportReservations(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<ReservationRow & KeyRow & { closed_at: Date | null }>(
    connection,
    { 'r.token': 'token' },
    `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, r.*
       from reservation r force index (primary)
       join sequence_group g on g.id = r.group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id`,
  )
  for await (const row of rows) {
    const { periodKey: period, expiresAt, kind: _, ...rest } = reservationIn(row)
    const times = { expiresAt: new Date(expiresAt), closedAt: row.closed_at }
    yield { type: 'reservation', ...keyIn(row), ...rest, period, ...times }
  }
}

/**
 * Whether all counters of a hold exist. A hold without some of them can't be confirmed; without the parts of these, it
 * could.
 */
const IS_WHOLE = `(
        select 1
          from hold o
          left join counter_value v on v.counter_id = o.counter_id and v.slot = 0 and ${COUNTER_EXISTS}
         where o.token = h.token and v.counter_id is null
         limit 1) is null`

/** The parts of holds, in the order of their tokens. */
async function* exportHolds(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<PartRow & NamedRow & { id: number }>(
    connection,
    { 'h.token': 'token', 'h.counter_id': 'counter_id' },
    `select straight_join n.name as namespace, c.name, h.*
       from hold h force index (primary)
       join counter c on c.id = h.counter_id
       join namespace n on n.id = c.namespace_id`,
    IS_WHOLE,
  )
  for await (const row of rows) {
    const { amount, expiresAt, latest, state, confirmed } = partIn(row)
    const times = { expiresAt: new Date(expiresAt), latest: new Date(latest) }
    yield {
      type: 'hold',
      ...nameIn(row),
      token: row.token.toString('hex'),
      amount,
      ...times,
      state,
      confirmed,
    }
  }
}

async function* exportCounterSubjects(connection: Connection): AsyncGenerator<Entry> {
  const lines = subjectsIn<NamedRow & Record<'period' | 'start', number>>(
    connection,
    COUNTS.key,
    `select straight_join n.name as namespace, c.name, c.subject_salt, u.*, counter_id as id
       from counter_subject u force index (primary)
       join counter c on c.id = counter_id and ${isKept('c.forgotten_at')}
       join namespace n on n.id = c.namespace_id`,
  )
  for await (const [first, rows] of lines)
    yield {
      type: 'counterSubjects',
      ...nameIn(first),
      subjectSalt: first.subject_salt.toString('hex'),
      period: periodCoded(first.period),
      start: new Date(first.period === 0 ? 0 : 1000 * first.start),
      subjects: rows.map((row) => ({ ...hashIn(row), ...COUNTS.firstIn(row) })),
    }
}

async function* exportGroupSubjects(connection: Connection): AsyncGenerator<Entry> {
  const lines = subjectsIn<KeyRow & { period_key: number; issued_at: Date }>(
    connection,
    NUMBERS.key,
    `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, s.subject_salt, u.*, group_id as id
       from sequence_subject u force index (primary)
       join sequence_group g on g.id = group_id
       join sequence s on s.id = g.sequence_id
       join namespace n on n.id = s.namespace_id`,
  )
  for await (const [first, rows] of lines)
    yield {
      type: 'sequenceGroupSubjects',
      ...keyIn(first),
      subjectSalt: first.subject_salt.toString('hex'),
      period: first.period_key,
      subjects: rows.map((row) => ({ ...hashIn(row), ...NUMBERS.firstIn(row), issuedAt: row.issued_at })),
    }
}

const hashIn = ({ subject }: StoredSubject) => ({ subject: subject.toString('hex') })

/** Subjects in the order of the primary key, in parts for a line each. */
async function* subjectsIn<Place>(connection: Connection, key: readonly string[], selection: string) {
  type Row = Place & StoredSubject & { subject_salt: Buffer } & Record<string, number>
  const index = Object.fromEntries(key.map((column) => [column, column]))
  const rows = rowsOf<Row>(connection, index, selection, 'true', LONG_PAGE)
  // The last column is the subject.
  const placeOf = (row: Row) =>
    key
      .slice(0, -1)
      .map((column) => row[column])
      .join(' ')
  for await (const [, part] of partsOf(rows, undefined, placeOf)) if (part[0]) yield [part[0], part] as const
}

async function* exportDocuments(connection: Connection): AsyncGenerator<Entry> {
  const documents = itemsOf<TrustedDocument>((page) => listDocuments(connection, page), DOCUMENTS)
  for await (const document of documents) yield { type: 'trustedDocument', ...document }
}

async function* exportApiKeys(connection: Connection): AsyncGenerator<Entry> {
  for await (const key of itemsOf<ApiKey>((page) => listKeys(connection, page)))
    yield { type: 'apiKey', ...key }
}

type IdempotencyKeyRow = Record<'hash' | 'fingerprint' | 'results', Buffer> &
  Record<'applied_at' | 'claimed_at', Date>

/** Keys per statement: the results of one may have a thousand items. */
const IDEMPOTENCY_KEYS = 200

/** Idempotency keys with their results, in the order of their hashes. */
async function* exportIdempotencyKeys(connection: Connection): AsyncGenerator<Entry> {
  const rows = rowsOf<IdempotencyKeyRow>(
    connection,
    { hash: 'hash' },
    `select hash, fingerprint, results, applied_at, claimed_at
       from idempotency_key`,
    'results is not null',
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
      results: JSON.parse(results.toString()) as EntryOf<'idempotencyKey'>['results'],
    }
  }
}
