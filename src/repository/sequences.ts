import { randomBytes } from 'node:crypto'
import { type Applied, MissingRow, onSequenceGroup, type Request } from '../commit/call.ts'
import {
  inOrder,
  type KeyRow,
  keyIn,
  RECORD,
  type RecordRow,
  type ReservationRow,
  readFirstFree,
  readPresent,
  recordIn,
  reservationIn,
  SEQUENCE_COLUMNS,
  SEQUENCE_EXISTS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from '../commit/reservations.ts'
import { NUMBERS } from '../commit/subjectStatements.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import { type Connection, type Database, retried } from '../mysql/pool.ts'
import {
  bytes,
  firstVersion,
  groupBy,
  integer,
  list,
  type NamedRow,
  nameIn,
  pageByName,
  REVISION_OF_NOW,
  select,
  selectByName,
  selectByParent,
} from '../mysql/sql.ts'
import { periodKeyOf } from '../rules/calendar.ts'
import { keyText, type PageByName } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import { writerOf } from '../rules/format.ts'
import type { Claim } from '../rules/idempotency.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import {
  noSuchReservation,
  notGapless,
  type Reservation,
  repeatedNumber,
  type SequenceGroupKey,
  type SequenceGroupState,
  type SequenceKey,
  type SequenceNumbers,
  type SequenceOperation,
  type SequenceResult,
  type SequenceState,
  sequenceGroupKeyText,
} from '../rules/sequence.ts'
import {
  defaultSequenceDefinition,
  nextNumber,
  type Position,
  type SequenceDefinition,
  type SequenceDefinitionChange,
} from '../rules/sequenceDefinition.ts'
import { batchReads, createRowCache } from './batches.ts'
import type { CallOptions, Means, RequestOptions } from './counters.ts'
import { defineSequence, deleteSequence, findOrCreateSequence } from './sequenceDefinition.ts'
import { openSubjects } from './subjects.ts'

const TOKEN_BYTES = 16

export type Sequences = ReturnType<typeof openSequences>

interface SequenceMeans extends Means<SequenceGroupKey, SequenceGroupRow> {
  /** For changes of definitions. */
  definitions: Database
}

export function openSequences({ database, definitions, rows, groupCommit, retentionIn, now }: SequenceMeans) {
  const { read, readMany } = batchReads(keyText, retried(database, readSequences), unused)
  const readStates = retried(database, readStatesOfGroups)
  const groups = batchReads(sequenceGroupKeyText, (keys: readonly SequenceGroupKey[]) =>
    readStates(keys, now()),
  )
  const reservations = batchReads(tokenOf, retried(database, readReservations), () => undefined)
  const listGroups = retried(database, listSequenceGroups)
  const subjects = openSubjects({ database, rows, now }, NUMBERS)

  function change(
    key: SequenceGroupKey,
    operation: SequenceOperation,
    options?: RequestOptions & Pick<Request, 'missingRows'>,
  ): Promise<Applied> {
    const operations = [onSequenceGroup(rows, key, operation)]
    return groupCommit.change({ operations, mode: 'one', ...options })
  }

  async function close(kind: 'confirm' | 'release', token: string): Promise<Reservation> {
    const options = { deadline: database.deadline(), missingRows: 'fail' } as const
    const found = await reservations.read({ token })
    if (!found) throw noSuchReservation()
    const applied = await change(found.group, { kind, token }, options).catch((error) => {
      // The sequence was deleted in the meantime.
      throw error instanceof MissingRow ? noSuchReservation() : error
    })
    return resultAs('reservation', applied)
  }

  return {
    read,
    readSequenceGroup: groups.read,
    /** Results are in the order of the keys. */
    readMany,
    readSequenceGroups: groups.readMany,
    readEachSequenceGroup: groups.readEach,
    list: retried(database, listSequences),
    listSequenceGroups: (sequence: SequenceKey, page: PageByName) => listGroups(sequence, page, now()),

    /**
     * Issues `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat returns the first ones.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT for more than a cycle has, or if the
     *   sequence is gapless; IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async next(key: SequenceGroupKey, count: number, options?: CallOptions): Promise<SequenceNumbers> {
      const applied = await change(key, { kind: 'next', count }, options)
      return { key, issued: resultAs('numbers', applied), at: applied.at, isReplayed: applied.isReplayed }
    },

    /**
     * Issues the next number to a subject, unless it has one in the current period: then it returns that.
     *
     * @throws {NthError} as for `next`
     */
    async nextOnce(key: SequenceGroupKey, subject: string, options?: CallOptions): Promise<SequenceNumbers> {
      await subjects.ensureSalt(key)
      const applied = await change(key, { kind: 'nextOnce', subject }, options)
      const issued = resultAs('numbers', applied)
      const at = issued.earlier ? new Date(issued.earlier.issuedAt) : applied.at
      return { key, issued, at, isReplayed: applied.isReplayed }
    },

    /** What a repeated `nextOnce` would return now; null: the subject has no number. */
    async numbersOf({ namespace, sequence, group }: SequenceGroupKey, subject: string) {
      const key = { namespace, sequence, group }
      const { row, first } = (await subjects.first(key, subject)) ?? {}
      if (!row || !first) return null
      const issued = repeatedNumber(first, row.definition)
      return { key, issued, at: new Date(first.issuedAt), isReplayed: false }
    },

    /**
     * Restarts a sequence group at a number. Null or undefined: at `startValue`.
     *
     * @throws {NthError} LIMIT_REACHED, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async restart(key: SequenceGroupKey, nextValue: number | null = null, options?: CallOptions) {
      const applied = await change(key, { kind: 'restart', nextValue }, options)
      return { key, ...resultAs('restart', applied), isReplayed: applied.isReplayed }
    },

    /**
     * Reserves the first free number of a gapless sequence for some seconds. A repeat returns the first reservation in
     * its current state.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT if the sequence is not gapless;
     *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async reserve(key: SequenceGroupKey, ttlSeconds: number, claim?: Claim): Promise<Reservation> {
      // A reservation that will be refused must not create a sequence group.
      const deadline = database.deadline()
      const { namespace, sequence: name } = key
      if (!rows.cached(key) && !(await read({ namespace, name })).definition?.gapless) throw notGapless()
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const operation = { kind: 'reserve', token, ttlMs: ttlSeconds * 1000 } as const
      const applied = await change(key, operation, { claim, deadline })
      const reservation = resultAs('reservation', applied)
      const present = applied.isReplayed ? await reservations.read(reservation) : reservation
      if (!present)
        throw new NthError('NOT_FOUND', 'The reservation made with this idempotency key no longer exists.')
      return present
    },

    /**
     * Confirms a reserved number. A repeat returns the same result.
     *
     * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    confirm: (token: string) => close('confirm', token),
    /** Releases a reserved number. Repeats and errors as for `confirm`. */
    release: (token: string) => close('release', token),
    /** Reads a reservation in its current state, with its sequence group; undefined: it doesn't exist. */
    reservation: (token: string) => reservations.read({ token }),
    /** The same for many, in their order. */
    reservations: reservations.readMany,
    readEachReservation: reservations.readEach,

    /**
     * Changes a sequence definition.
     *
     * @throws {NthError} BAD_USER_INPUT if it is invalid, or numbers could be issued that look like earlier ones;
     *   UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async define(
      { namespace, name }: SequenceKey,
      requested: SequenceDefinitionChange,
    ): Promise<SequenceState> {
      const deadline = database.deadline()
      const timeZone =
        requested.timeZone === null ? (await retentionIn(namespace)).timeZone : requested.timeZone
      return defineSequence(definitions, { namespace, name }, { ...requested, timeZone }, now(), deadline)
    },

    /**
     * Deletes a sequence with all its sequence groups. Later numbers start from the beginning.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async delete(key: SequenceKey): Promise<SequenceState> {
      await deleteSequence(definitions, key)
      return unused(key)
    },
  }
}

const tokenOf = ({ token }: { token: string }) => token

/** The result of a call, of the expected kind. */
function resultAs<Kind extends SequenceResult['kind']>(kind: Kind, { results: [result] }: Applied) {
  if (!result || !('kind' in result) || result.kind !== kind) throw new Error(`No result of kind ${kind}`)
  // Its `kind` identifies it.
  return result as Extract<SequenceResult, { kind: Kind }>
}

function unused({ namespace, name }: SequenceKey): SequenceState {
  return { namespace, name, definition: undefined, createdAt: null }
}

export function openSequenceGroupRows(database: Database, failover: FailoverDetector) {
  const textOf = sequenceGroupKeyText
  return createRowCache(database, failover, { textOf, read: readRows, create: createSequenceGroups })
}

function sequenceText({ namespace, sequence }: SequenceGroupKey): string {
  return keyText({ namespace, name: sequence })
}

async function readRows(connection: Connection, keys: readonly SequenceGroupKey[], incarnation: number) {
  const statement = selectByParent(
    keys,
    sequenceText,
    (siblings) =>
      `select ${RECORD}
         from namespace n
         join sequence s on s.namespace_id = n.id
         join sequence_group g on g.sequence_id = s.id
        where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
          and g.name in (${list(siblings, ({ group }) => bytes(group))})`,
  )
  const rows = await select<RecordRow>(connection, statement)
  return new Map(rows.map((row) => [sequenceGroupKeyText(keyIn(row)), recordIn(row, incarnation)]))
}

/** Creates sequence groups, and their sequences where missing. */
async function createSequenceGroups(connection: Connection, keys: readonly SequenceGroupKey[], at: Date) {
  for (const { namespace, sequence, group } of keys) {
    const id = await findOrCreateSequence(connection, { namespace, name: sequence }, at)
    await connection.query(
      `insert into sequence_group (sequence_id, name, identity, revision, is_used)
       values (${integer(id)}, ${bytes(group)}, ${integer(firstVersion())}, ${REVISION_OF_NOW}, false)`,
    )
  }
}

const SELECT_SEQUENCES = `select n.name as namespace, s.name, s.created_at, ${SEQUENCE_COLUMNS}
           from namespace n
           join sequence s on s.namespace_id = n.id`

function readSequences(connection: Connection, keys: readonly SequenceKey[]) {
  const selectNamed = (isNamed: string) => `${SELECT_SEQUENCES} where ${isNamed} and ${SEQUENCE_EXISTS}`
  return sequencesIn(connection, selectByName(keys, 's.name', selectNamed))
}

function listSequences(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, SEQUENCE_EXISTS]
  return sequencesIn(connection, `${SELECT_SEQUENCES} ${pageByName('s.name', page, conditions)}`)
}

async function sequencesIn(connection: Connection, statement: string): Promise<SequenceState[]> {
  const rows = await select<SequenceDefinitionRow & NamedRow & { created_at: Date }>(connection, statement)
  return rows.map((row) => ({
    ...nameIn(row),
    definition: sequenceDefinitionIn(row),
    createdAt: row.created_at,
  }))
}

const LATEST = `s.id as sequence_id, g.id, g.latest_period_key, g.format as latest_format, g.time_zone as latest_zone,
       v.value, v.next_value, v.updated_at, coalesce(g.revision, ${REVISION_OF_NOW}) + coalesce(s.definitions, 0) as revision`

interface StoredSequenceGroupRow
  extends KeyRow,
    SequenceDefinitionRow,
    Record<'latest_period_key' | 'value' | 'next_value', number | null> {
  /** Null: the sequence doesn't exist. */
  sequence_id: number | null
  /** Null: the sequence group was never used. */
  id: number | null
  /** These are set together with the value. */
  updated_at: Date
  latest_zone: Buffer
  latest_format: Buffer | null
  revision: number | string
}

const JOIN_LATEST = 'sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key'

/** Including those that were never used. */
async function readStatesOfGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  now: Date,
): Promise<SequenceGroupState[]> {
  const statement = selectByParent(keys, sequenceText, (siblings) => {
    const [namespace, sequence] = [bytes(siblings[0].namespace), bytes(siblings[0].sequence)]
    return `select ${namespace} as namespace, ${sequence} as sequence, requested.name as its_group,
                ${SEQUENCE_COLUMNS}, ${LATEST}
           from (${siblings.map(({ group }) => `select ${bytes(group)} as name`).join(' union all ')}) requested
           left join namespace n on n.name = ${namespace}
           left join sequence s on s.namespace_id = n.id and s.name = ${sequence}
           left join sequence_group g on g.sequence_id = s.id and g.name = requested.name
           left join ${JOIN_LATEST}`
  })
  return sequenceGroupsFrom(connection, await select<StoredSequenceGroupRow>(connection, statement), now)
}

export async function listSequenceGroups(
  connection: Connection,
  { namespace, name }: SequenceKey,
  page: PageByName,
  now: Date,
): Promise<SequenceGroupState[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, `s.name = ${bytes(name)}`, 'g.version > 0']
  const rows = await select<StoredSequenceGroupRow>(
    connection,
    `select n.name as namespace, s.name as sequence, g.name as its_group, ${SEQUENCE_COLUMNS}, ${LATEST}
       from namespace n
       join sequence s on s.namespace_id = n.id
       join sequence_group g force index (sequence_group_name) on g.sequence_id = s.id
       join ${JOIN_LATEST}
      ${pageByName('g.name', page, conditions)}`,
  )
  return sequenceGroupsFrom(connection, rows, now)
}

/** Their states at an instant. */
async function sequenceGroupsFrom(
  connection: Connection,
  rows: readonly StoredSequenceGroupRow[],
  now: Date,
) {
  const groups = rows.map((row) => {
    const definition = row.sequence_id === null ? defaultSequenceDefinition('UTC') : sequenceDefinitionIn(row)
    const { restartEvery, timeZone } = definition
    return { id: row.id, row, definition, periodKey: periodKeyOf(restartEvery, timeZone, now) }
  })
  const used = groups.filter((group): group is Used => group.id !== null)
  const positions = await readPositions(connection, used)
  const free = await readFreeNumbers(connection, used)
  return groups.map(({ id, row, definition, periodKey }): SequenceGroupState => {
    const key = keyIn(row)
    const isInLatestPeriod = row.latest_period_key === periodKey
    const position = isInLatestPeriod ? { last: row.value, next: row.next_value } : positions.get(id)
    const nextValue = free.get(id) ?? nextNumber(definition, position ?? { last: null, next: null })
    const nextFormatted = nextValue === null ? null : writerOf(definition, key.group, now)(nextValue)
    return { ...key, ...latestIn(row, key.group), nextValue, nextFormatted, revision: Number(row.revision) }
  })
}

/** A sequence group with a row. */
type Used = { id: number; row: StoredSequenceGroupRow; definition: SequenceDefinition; periodKey: number }

/** The last number, in its own format. */
function latestIn(row: StoredSequenceGroupRow, group: string) {
  const { latest_period_key, value, latest_format, latest_zone, updated_at: updatedAt } = row
  if (latest_period_key === null || value === null)
    return { lastValue: null, lastFormatted: null, updatedAt: null }
  const style = { format: latest_format?.toString() ?? null, timeZone: latest_zone.toString('latin1') }
  return { lastValue: value, lastFormatted: writerOf(style, group, updatedAt)(value), updatedAt }
}

/** Of sequence groups whose latest number is of another period, or that were restarted before their first; by id. */
async function readPositions(connection: Connection, groups: readonly Used[]) {
  const others = groups.filter(({ row, periodKey }) => row.latest_period_key !== periodKey)
  const statements = [...groupBy(others, ({ periodKey }) => periodKey)].map(
    ([periodKey, same]) =>
      `select group_id as id, value as last, next_value as next
         from sequence_value force index (primary)
        where group_id in (${list(same, ({ id }) => integer(id))}) and period_key = ${integer(periodKey)}`,
  )
  const rows = await selectAll<Position & { id: number | null }>(connection, statements)
  return new Map(rows.map(({ id, last, next }) => [id, { last, next }]))
}

/** The first released or expired numbers to reissue, by the ids of their sequence groups. */
async function readFreeNumbers(connection: Connection, groups: readonly Used[]) {
  const gapless = groups.filter(({ definition }) => definition.gapless)
  const rows = await selectAll<{ group_id: number; value: number }>(connection, gapless.map(readFirstFree))
  const free = gapless.map(({ id, definition }) => {
    const numbers = rows.filter(({ group_id }) => group_id === id).map(({ value }) => value)
    return [id, inOrder(numbers, definition)[0]] as const
  })
  return new Map<number | null, number | undefined>(free)
}

/** The rows of all statements. */
async function selectAll<Row>(connection: Connection, statements: readonly string[]): Promise<Row[]> {
  return statements.length === 0 ? [] : select<Row>(connection, statements.join('\nunion all\n'))
}

async function readReservations(connection: Connection, tokens: readonly { token: string }[]) {
  const statement = readPresent(tokens.map(({ token }) => token))
  const rows = await select<ReservationRow & KeyRow>(connection, statement)
  return rows.map((row): Reservation & { group: SequenceGroupKey } => ({
    ...reservationIn(row),
    group: keyIn(row),
  }))
}
