import { randomUUID } from 'node:crypto'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import { NthError } from '../../core/errors.ts'
import { type Claim, claimOf } from '../../core/idempotency.ts'
import { defaultSequenceDefinition, type History } from '../../core/sequences/definition.ts'
import type { SequenceKey, SequenceState, SequenceStore } from '../../core/sequences/store.ts'
import { type Connection, type Database, inTransaction } from '../connections/database.ts'
import { ER, hasErrorNumber } from '../connections/errors.ts'
import { readResults, storeResults } from '../flush/idempotencyKeys.ts'
import { bytes, instant, integer } from '../literals.ts'
import { firstVersion } from '../revisions.ts'
import { openNamespace } from '../rowCache.ts'
import { formatHistoryIn, SEQUENCE_COLUMNS, sequenceDefinitionIn, sequenceDefinitionSet } from './columns.ts'

type Change = Parameters<SequenceStore['define']>[1]

/**
 * Changes a sequence definition under an exclusive lock on its row. A flush that issues numbers holds a shared one: so
 * all numbers issued before are known, and none is issued by the old definition afterwards.
 *
 * The same transaction stores that the change was applied, so one whose COMMIT got no answer is not applied twice.
 */
export function defineSequence(
  database: Database,
  key: SequenceKey,
  change: Change,
  { at, deadline }: Parameters<SequenceStore['define']>[2],
): Promise<SequenceState> {
  const note = claimOf(key.namespace, randomUUID(), [])
  return unlessDoubtful((doubt) =>
    database.withRetry(async (connection) => {
      // Already applied: not checked again against changes of the sequence since then.
      if (doubt.state && (await isDone(connection, note))) return doubt.state
      while (true) {
        const id = await made(connection, key, at, () => change(UNUSED))
        const state =
          id &&
          (await inTransaction(connection, () => define(connection, { id, key, change, note, at, doubt })))
        if (state) return state
        // Another session has created or deleted it at the same time.
      }
    }, deadline),
  )
}

/** Deletes a sequence for good: its id is never reused. The sweep deletes its sequence groups. */
export function deleteSequence(database: Database, key: SequenceKey): Promise<void> {
  let id: number | undefined
  return unlessDoubtful((doubt) =>
    database.withRetry(async (connection) => {
      // A retry keeps the id: a sequence that was recreated after the first attempt is not deleted.
      id ??= await idOf(connection, key)
      const known = id
      if (known === undefined) return
      await inTransaction(connection, async () => {
        await connection.query(`delete from sequence where id = ${integer(known)}`)
        await connection.query(`insert ignore into deleted_sequence (id) values (${integer(known)})`)
        doubt.isCommitting = true
      })
    }),
  )
}

/** A sequence that does not exist. */
const UNUSED: History = {
  definition: defaultSequenceDefinition('UTC'),
  formatHistory: [],
  used: { isNamed: false, isUnnamed: false },
  isUsedSince: false,
}

/** Whether a COMMIT may have been sent without an answer. */
interface Doubt {
  isCommitting: boolean
  /** The new state, if the outcome of an attempt is unknown. */
  state?: SequenceState
}

async function unlessDoubtful<T>(work: (doubt: Doubt) => Promise<T>): Promise<T> {
  const doubt: Doubt = { isCommitting: false }
  try {
    return await work(doubt)
  } catch (cause) {
    const isOpen = doubt.isCommitting && cause instanceof NthError && cause.code === 'UNAVAILABLE'
    if (!isOpen) throw cause
    const message =
      'The database did not confirm this change in time: it may have been applied. Send it again; that is safe.'
    throw new NthError('OUTCOME_UNKNOWN', message, { retryable: true }, { cause })
  }
}

/** A sequence's id, created if it doesn't exist. Runs within a transaction. */
export async function sequenceIn(connection: Connection, key: SequenceKey, at: Date): Promise<number> {
  const found = await idOf(connection, key)
  if (found !== undefined) return found
  const namespace = await openNamespace(connection, key.namespace)
  const [{ insertId }] = await connection.query<ResultSetHeader>(
    `insert into sequence (namespace_id, name, version, created_at, time_zone)
     values (${integer(namespace.id)}, ${bytes(key.name)}, ${integer(firstVersion())}, ${instant(at)},
             x'${namespace.time_zone.toString('hex')}')`,
  )
  return insertId
}

/** A sequence's id, created unless `check` throws. Undefined: another session created it. */
async function made(
  connection: Connection,
  key: SequenceKey,
  at: Date,
  check: () => void,
): Promise<number | undefined> {
  const found = await idOf(connection, key)
  if (found !== undefined) return found
  check()
  try {
    return await inTransaction(connection, () => sequenceIn(connection, key, at))
  } catch (error) {
    if (hasErrorNumber(error, ER.DUP_ENTRY)) return undefined
    throw error
  }
}

async function idOf(connection: Connection, { namespace, name }: SequenceKey): Promise<number | undefined> {
  const [[row]] = await connection.query<RowDataPacket[]>(
    `select s.id
       from namespace n
       join sequence s on s.namespace_id = n.id
      where n.name = ${bytes(namespace)} and s.name = ${bytes(name)}`,
  )
  return row?.id
}

interface DefineRequest {
  id: number
  key: SequenceKey
  change: Change
  /** The claim that marks it as applied. */
  note: Claim
  at: Date
  doubt: Doubt
}

async function define(
  connection: Connection,
  { id, key, change, note, at, doubt }: DefineRequest,
): Promise<SequenceState | undefined> {
  const [[row]] = await connection.query<RowDataPacket[]>(
    `select s.version, s.created_at, s.is_defined, s.format_history, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id = ${integer(id)}
        for update`,
  )
  const wasDone = await isDone(connection, note)
  doubt.isCommitting = false
  if (!row) return undefined
  const before = sequenceDefinitionIn(row)
  if (wasDone) return { ...key, definition: before, createdAt: row.created_at }
  const earlier = formatHistoryIn(row.format_history)
  const { definition, formatHistory } = change({
    definition: before,
    formatHistory: earlier,
    used: {
      isNamed: await hasDealt(connection, id, 'sequence_group_version', "version > 0 and name > ''"),
      isUnnamed: await hasDealt(connection, id, 'sequence_group_name', "version > 0 and name = ''"),
    },
    isUsedSince: await hasDealt(
      connection,
      id,
      'sequence_group_version',
      `version = ${integer(row.version)}`,
    ),
  })
  const isChanged = JSON.stringify([definition, formatHistory]) !== JSON.stringify([before, earlier])
  if (isChanged || row.is_defined !== 1) {
    await connection.query(
      `update sequence
          set ${sequenceDefinitionSet(definition, formatHistory)},
              is_defined = true,
              definitions = definitions + 1,
              version = version + 1
        where id = ${integer(id)}`,
    )
    if (await isClustered(connection)) await writePositions(connection, id)
  }
  await connection.query(storeResults([{ claim: note, at, results: [] }]))
  doubt.isCommitting = true
  doubt.state = { ...key, definition, createdAt: row.created_at }
  return doubt.state
}

async function isClustered(connection: Connection): Promise<boolean> {
  const [[row]] = await connection.query<RowDataPacket[]>("show variables like 'wsrep_on'")
  return row?.Value === 'ON'
}

/** Maximum sequence groups of a sequence that is redefined on a cluster: one transaction writes all of them. */
const MOST_GROUPS = 10_000

/** Makes a change conflict with flushes on other nodes of a cluster, where this node's locks have no effect. */
async function writePositions(connection: Connection, id: number): Promise<void> {
  const [[counted]] = await connection.query<RowDataPacket[]>(
    `select count(*) as groups_found
       from (select id from sequence_group where sequence_id = ${integer(id)} limit ${MOST_GROUPS + 1}) some`,
  )
  if (counted?.groups_found > MOST_GROUPS) {
    throw new NthError(
      'BAD_USER_INPUT',
      `This sequence has more than ${MOST_GROUPS} sequence groups: on a cluster its definition can no longer be changed. Use a new sequence for new ones. Nothing was changed.`,
      { argument: 'definition', limit: MOST_GROUPS },
    )
  }
  await connection.query(
    `update sequence_group g
       join sequence_value v on v.group_id = g.id
        set v.definitions = v.definitions + 1
      where g.sequence_id = ${integer(id)}
        and (v.period_key = g.latest_period_key or v.updated_at >= utc_timestamp() - interval 2 day)`,
  )
}

/** Whether a change was applied. Waits for an attempt that is still in flight on a lost connection. */
async function isDone(connection: Connection, note: Claim): Promise<boolean> {
  const [rows] = await connection.query<RowDataPacket[]>(readResults([note]))
  return rows.length > 0
}

/** A locking read: a plain one may miss the writes of a transaction that has just released its locks. */
async function hasDealt(connection: Connection, id: number, index: string, which: string): Promise<boolean> {
  // Without `force index`, a server may scan, and lock, all of a small table.
  const [rows] = await connection.query<RowDataPacket[]>(
    `select id
       from sequence_group force index (${index})
      where sequence_id = ${integer(id)} and ${which}
      limit 1
       lock in share mode`,
  )
  return rows.length > 0
}
