import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { readResults, storeResults } from '../commit/keyStatements.ts'
import { PERIOD_CODES } from '../commit/periodStatements.ts'
import { codeOf } from '../commit/reservations.ts'
import type { Connection } from '../mysql/connection.ts'
import type { Database } from '../mysql/pool.ts'
import type { PooledConnection } from '../mysql/pooledConnection.ts'
import { bytes, firstVersion, instant, integer, orNull, raiseMark } from '../mysql/sql.ts'
import { NthError } from '../rules/errors.ts'
import { claimOf } from '../rules/idempotency.ts'
import type { SequenceKey, SequenceState } from '../rules/sequence.ts'
import {
  changedSequenceDefinition,
  type History,
  type PastFormat,
  pastFormatsOf,
  type SequenceDefinitionChange,
  type StoredDefinition,
  UNUSED,
  union,
} from '../rules/sequenceDefinition.ts'
import { createSalt } from '../rules/subjects.ts'
import type { Owner } from '../rules/turns.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from './columns.ts'
import { findOrCreateNamespace, unlessTaken } from './namespaces.ts'

/** How the numbers of a sequence were issued in another system. */
export type ImportedHistory = Omit<StoredDefinition, 'definition'>

/**
 * Changes a sequence definition under an exclusive lock on its row. A flush that issues numbers holds a shared one: so
 * all numbers issued before are known, and none is issued by the old definition afterwards.
 *
 * The same transaction stores that the change was applied, so one whose COMMIT got no answer is not applied twice.
 *
 * @param deadline on the clock of `performance.now()`, in milliseconds
 */
export function defineSequence(
  database: Database,
  key: SequenceKey,
  change: SequenceDefinitionChange,
  at: Date,
  owner: Owner,
  deadline: number,
  imported?: ImportedHistory,
): Promise<SequenceState> {
  /** Marks it as applied. */
  const claim = claimOf(key.namespace, randomUUID(), [])
  /** What a COMMIT results in that may have been sent, without an answer. */
  let committing: SequenceState | undefined

  async function attempt(connection: PooledConnection): Promise<SequenceState> {
    // Waits for an attempt that is still in flight on a lost connection.
    if (committing && (await connection.select(readResults([claim]))).length > 0) return committing
    committing = undefined
    while (true) {
      let id = await sequenceId(connection, key)
      if (id === undefined) {
        // A refused first definition creates nothing.
        changed(UNUSED)
        id = await connection
          .inTransaction(() => findOrCreateSequence(connection, key, at))
          .catch(unlessTaken)
      }
      const state = id && (await connection.inTransaction(() => define(connection, id)))
      if (state) return state
      // Another session has created or deleted it at the same time.
    }
  }

  function changed(history: History) {
    const result = changedSequenceDefinition(history, change)
    if (result instanceof NthError) throw result
    return result
  }

  async function define(connection: PooledConnection, id: number): Promise<SequenceState | undefined> {
    const sequence = await lockSequence(connection, id)
    if (!sequence) return undefined
    const { isDefined, createdAt, version } = sequence
    const history = { ...sequence, ...(await useOf(connection, id, version)) }
    if (imported && (isDefined || history.used.isNamed || history.used.isUnnamed))
      return { ...key, definition: sequence.definition, createdAt }
    const stored = changed({ ...history, ...imported })
    if (!isDefined || !isDeepStrictEqual(stored.definition, sequence.definition)) {
      await storeSequence(connection, id, stored)
      if (connection.isGalera) await conflictOnCluster(connection, id)
    }
    await connection.query(storeResults([{ claim, at, results: [] }], at))
    committing = { ...key, definition: stored.definition, createdAt }
    return committing
  }

  return database.withRetry(owner, attempt, deadline).catch((error) => fail(error, committing !== undefined))
}

/**
 * Deletes a sequence for good, if it exists: its id is never reused. The sweep deletes its sequence groups.
 *
 * @throws {NthError} BAD_USER_INPUT if it has confirmed numbers, and no `allowRepeats`
 */
export function deleteSequence(database: Database, key: SequenceKey, owner: Owner): Promise<void> {
  let id: number | undefined
  let isCommitting = false

  async function attempt(connection: PooledConnection): Promise<void> {
    // A retry keeps the id: a sequence that was recreated after the first attempt is not deleted.
    id ??= await sequenceId(connection, key)
    if (id === undefined) return
    const deleted = integer(id)
    await connection.inTransaction(async () => {
      // Not its whole definition, which a later version may have changed to what this one can't read.
      const [sequence] = await connection.select<Record<'definitions' | 'keeps_numbers', number>>(
        `select definitions, gapless and not allow_repeats as keeps_numbers
           from sequence
          where id = ${deleted} for update`,
      )
      const keepsNumbers = sequence?.keeps_numbers === 1
      if (keepsNumbers && (await hasConfirmed(connection, deleted)))
        throw new NthError('BAD_USER_INPUT', CONFIRMED, { argument: 'name' })
      await connection.query(`delete from sequence where id = ${deleted}`)
      await connection.query(`insert ignore into deleted_sequence (id) values (${deleted})`)
      await connection.query('select revision from revision_mark for update')
      // A locking read: a plain one may miss the writes of a transaction that has just released its locks.
      const bound = `coalesce((
          select (max(revision_block) + 1) << 22
            from sequence_group force index (sequence_group_revision)
           where sequence_id = ${deleted}
            lock in share mode), 0)`
      // Readers add the number of definitions to the revision of each group, and to the mark.
      const added = integer(1 + (sequence?.definitions ?? 0))
      await connection.query(raiseMark(`greatest(revision, ${bound}) + ${added}`))
      isCommitting = true
    })
  }

  return database.withRetry(owner, attempt).catch((error) => fail(error, isCommitting))
}

/** Whether a locked sequence has a confirmed reservation. */
function hasConfirmed(connection: Connection, id: string): Promise<boolean> {
  return hasRow(
    connection,
    `select g.id
       from sequence_group g force index (sequence_group_name)
       straight_join reservation r force index (reservation_open) on r.group_id = g.id and r.state = ${codeOf('CONFIRMED')}
      where g.sequence_id = ${id}`,
  )
}

const CONFIRMED =
  'This sequence has confirmed numbers, which would be issued again: use a new sequence, or set allowRepeats first. Nothing was deleted.'

/** @throws {NthError} OUTCOME_UNKNOWN if a COMMIT may have been sent without an answer */
function fail(cause: unknown, isCommitting: boolean): never {
  if (!isCommitting || !(cause instanceof NthError && cause.code === 'UNAVAILABLE')) throw cause
  const message =
    'The database did not confirm this change in time: it may have been applied. Send it again; that is safe.'
  throw new NthError('OUTCOME_UNKNOWN', message, { retryable: true }, { cause })
}

export type StoredSequenceRow = SequenceDefinitionRow &
  Record<'id' | 'version' | 'is_defined' | 'migrated_repeats', number> &
  Record<'format_history' | 'past_formats' | 'salt', Buffer | null> & { created_at: Date }

/** Columns of a sequence, of the table with alias s. */
export const STORED_SEQUENCE = `s.id, s.version, s.is_defined, s.format_history, s.past_formats, s.migrated_repeats,
            s.created_at, ${SEQUENCE_COLUMNS}`

/** What is stored of a sequence, besides its groups. `isDefined`: whether it was ever defined. */
export function storedSequenceIn(row: StoredSequenceRow) {
  // Processes of earlier versions add to this column, and to no other.
  const formatHistory: readonly PastFormat[] = JSON.parse(row.format_history?.toString() ?? '[]')
  const pastFormats: readonly string[] = JSON.parse(row.past_formats?.toString() ?? '[]')
  return {
    id: row.id,
    version: row.version,
    isDefined: row.is_defined === 1,
    definition: sequenceDefinitionIn(row),
    pastFormats: union(formatHistory.flatMap(pastFormatsOf), pastFormats),
    hasMigratedRepeats: row.migrated_repeats === 1,
    createdAt: row.created_at,
    salt: row.salt?.toString('hex'),
  }
}

/** Locks a sequence; undefined: it doesn't exist. */
async function lockSequence(connection: Connection, id: number) {
  const [row] = await connection.select<StoredSequenceRow>(
    `select ${STORED_SEQUENCE}, s.subject_salt as salt
       from sequence s force index (primary)
      where s.id = ${integer(id)} for update`,
  )
  return row && storedSequenceIn(row)
}

/** The columns that store a definition, with their values. */
export function sequenceColumns(stored: StoredDefinition): Record<string, string> {
  const { definition, hasMigratedRepeats, pastFormats } = stored
  const { startValue, step, minValue, maxValue, cycle, format, restartEvery } = definition
  return {
    start_value: integer(startValue),
    step: integer(step),
    min_value: orNull(minValue, integer),
    max_value: orNull(maxValue, integer),
    cycles: String(cycle),
    format: orNull(format, bytes),
    restart_every: restartEvery === null ? 'null' : String(PERIOD_CODES[restartEvery]),
    allow_repeats: String(definition.allowRepeats),
    migrated_repeats: String(hasMigratedRepeats),
    time_zone: bytes(definition.timeZone),
    gapless: String(definition.gapless),
    past_formats: pastFormats.length === 0 ? 'null' : bytes(JSON.stringify(pastFormats)),
  }
}

/** Stores the definition of a locked sequence. */
async function storeSequence(connection: Connection, id: number, stored: StoredDefinition): Promise<void> {
  const assignments = Object.entries(sequenceColumns(stored)).map(([column, value]) => `${column} = ${value}`)
  await connection.query(
    `update sequence
        set ${assignments.join(',\n            ')},
            is_defined = true,
            definitions = definitions + 1,
            version = version + 1
      where id = ${integer(id)}`,
  )
}

const BY_VERSION = 'sequence_group_version'

/** Which groups of a locked sequence have issued numbers. */
async function useOf(connection: Connection, id: number, version: number) {
  return {
    used: {
      isNamed: await hasIssued(connection, id, BY_VERSION, "version > 0 and name > ''"),
      isUnnamed: await hasIssued(connection, id, 'sequence_group_name', "version > 0 and name = ''"),
    },
    isUsedSince: await hasIssued(connection, id, BY_VERSION, `version = ${integer(version)}`),
  }
}

function hasIssued(connection: Connection, id: number, index: string, which: string): Promise<boolean> {
  // Without `force index`, a server may scan, and lock, all of a small table.
  return hasRow(
    connection,
    `select id
       from sequence_group force index (${index})
      where sequence_id = ${integer(id)} and ${which}`,
  )
}

/** A locking read: a plain one may miss the writes of a transaction that has just released its locks. */
async function hasRow(connection: Connection, statement: string): Promise<boolean> {
  return (await connection.select(`${statement} limit 1 lock in share mode`)).length > 0
}

/** Maximum sequence groups of a sequence that is redefined on a cluster: one transaction writes all of them. */
export const MOST_GROUPS = 10_000

/**
 * Makes a change of a definition conflict with flushes on other nodes of a cluster, where this node's locks have no
 * effect: writes the rows in which they issue numbers.
 */
async function conflictOnCluster(connection: Connection, id: number): Promise<void> {
  const beyond = await connection.select(
    `select id from sequence_group where sequence_id = ${integer(id)} limit 1 offset ${MOST_GROUPS}`,
  )
  if (beyond.length > 0) {
    const message = `On a cluster, the definition of a sequence with more than ${MOST_GROUPS} sequence groups cannot be changed. Use a new sequence. Nothing was changed.`
    throw new NthError('BAD_USER_INPUT', message, { argument: 'definition', limit: MOST_GROUPS })
  }
  await connection.query(
    `update sequence_group g
       join sequence_value v on v.group_id = g.id
        set v.definitions = v.definitions + 1
      where g.sequence_id = ${integer(id)}
        and (v.period_key = g.latest_period_key or v.updated_at >= utc_timestamp() - interval 2 day)`,
  )
}

/** A sequence's id, created if it doesn't exist. Runs within a transaction. */
export async function findOrCreateSequence(connection: Connection, key: SequenceKey, at: Date) {
  const id = await sequenceId(connection, key)
  if (id !== undefined) return id
  const namespace = await findOrCreateNamespace(connection, key.namespace)
  const { insertId } = await connection.query(
    `insert into sequence (namespace_id, name, version, created_at, time_zone, subject_salt)
     values (${integer(namespace.id)}, ${bytes(key.name)}, ${integer(firstVersion())}, ${instant(at)},
             ${bytes(namespace.time_zone)}, x'${createSalt()}')`,
  )
  return insertId
}

/** A sequence's id; undefined: it doesn't exist. */
async function sequenceId(connection: Connection, { namespace, name }: SequenceKey) {
  const [row] = await connection.select<{ id: number }>(
    `select s.id
       from namespace n
       join sequence s on s.namespace_id = n.id
      where n.name = ${bytes(namespace)} and s.name = ${bytes(name)}`,
  )
  return row?.id
}
