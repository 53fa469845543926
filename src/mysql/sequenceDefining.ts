import { randomUUID } from 'node:crypto'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import { NthError } from '../core/errors.ts'
import { type Claim, claimOf } from '../core/idempotency.ts'
import { defaultSequenceDefinition, type History } from '../core/sequenceDefinition.ts'
import type { SequenceKey, SequenceState, SequenceStore } from '../core/sequenceStore.ts'
import { type Connection, type Database, inTransaction } from './database.ts'
import { ER, hasErrorNumber } from './errors.ts'
import { openNamespace } from './ids.ts'
import { readDone, remember } from './keys.ts'
import { bytes, instant, integer } from './literals.ts'
import {
  formatHistoryIn,
  SEQUENCE_COLUMNS,
  sequenceDefinitionIn,
  sequenceDefinitionSet,
} from './sequenceColumns.ts'
import { firstVersion } from './versions.ts'

type Change = Parameters<SequenceStore<never>['define']>[1]

/**
 * Changes what a sequence is, under an exclusive lock on its row: who issues numbers holds a shared one, so all numbers
 * that were issued before are known, and none is numbered by the old definition after.
 *
 * The same transaction notes that it was done: one whose COMMIT got no answer is not done again.
 */
export function defineSequence(
  database: Database,
  key: SequenceKey,
  change: Change,
  { at, deadline }: Parameters<SequenceStore<never>['define']>[2],
): Promise<SequenceState> {
  const note = claimOf(key.namespace, randomUUID(), [])
  return unlessDoubtful((doubt) =>
    database.repeatable(async (connection) => {
      // Found done, it is not judged once more by what has become of the sequence since.
      if (doubt.state && (await isDone(connection, note))) return doubt.state
      while (true) {
        const id = await made(connection, key, at, () => change(UNUSED))
        const state =
          id &&
          (await inTransaction(connection, () => define(connection, { id, key, change, note, at, doubt })))
        if (state) return state
        // Somebody else has made it, or deleted it, at the same time.
      }
    }, deadline),
  )
}

/** Removes a sequence for good: its id is never used again. Its groups are left to the sweep. */
export function deleteSequence(database: Database, key: SequenceKey): Promise<void> {
  let id: number | undefined
  return unlessDoubtful((doubt) =>
    database.repeatable(async (connection) => {
      // One that was made anew after an attempt whose outcome is not known is left alone.
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

/** A sequence that isn't there. */
const UNUSED: History = {
  definition: defaultSequenceDefinition('UTC'),
  formatHistory: [],
  used: { isNamed: false, isUnnamed: false },
  isUsedSince: false,
}

/** Whether a COMMIT was sent and not answered. */
interface Doubt {
  isCommitting: boolean
  /** What the definition was to become by an attempt whose outcome is not known. */
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
      'The database did not say in time whether it made this change: it may be done. Send it again; that does no harm.'
    throw new NthError('OUTCOME_UNKNOWN', message, { retryable: true }, { cause })
  }
}

/** A sequence's id, made if it isn't there. Runs within a transaction that makes something in it. */
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

/** Makes a sequence that isn't there, unless `check` throws. */
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
  /** What says that it was done. */
  note: Claim
  at: Date
  doubt: Doubt
}

async function define(
  connection: Connection,
  { id, key, change, note, at, doubt }: DefineRequest,
): Promise<SequenceState | undefined> {
  const [[row]] = await connection.query<RowDataPacket[]>(
    `select s.version, s.created_at, s.is_defined, s.eras, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id = ${integer(id)}
        for update`,
  )
  const wasDone = await isDone(connection, note)
  doubt.isCommitting = false
  if (!row) return undefined
  const before = sequenceDefinitionIn(row)
  if (wasDone) return { ...key, definition: before, createdAt: row.created_at }
  const earlier = formatHistoryIn(row.eras)
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
  await connection.query(remember([{ claim: note, at, answers: [] }]))
  doubt.isCommitting = true
  doubt.state = { ...key, definition, createdAt: row.created_at }
  return doubt.state
}

async function isClustered(connection: Connection): Promise<boolean> {
  const [[row]] = await connection.query<RowDataPacket[]>("show variables like 'wsrep_on'")
  return row?.Value === 'ON'
}

/** The most groups that a sequence may have to be defined anew on a cluster: all of them are written in one transaction. */
const MOST_GROUPS = 10_000

/** Has a change conflict with whoever issues numbers at another node of a cluster, where no lock of this one is seen. */
async function writePositions(connection: Connection, id: number): Promise<void> {
  const [[counted]] = await connection.query<RowDataPacket[]>(
    `select count(*) as groups_found
       from (select id from sequence_group where sequence_id = ${integer(id)} limit ${MOST_GROUPS + 1}) some`,
  )
  if (counted?.groups_found > MOST_GROUPS) {
    throw new NthError(
      'BAD_USER_INPUT',
      `This sequence has more than ${MOST_GROUPS} groups: on a cluster its definition can't be changed any more. Use a new sequence for new groups. Nothing was changed.`,
      { argument: 'definition', limit: MOST_GROUPS },
    )
  }
  await connection.query(
    `update sequence_group g
       join sequence_value v on v.group_id = g.id
        set v.revision = v.revision + 1
      where g.sequence_id = ${integer(id)}
        and (v.period_label = g.latest_label or v.updated_at >= utc_timestamp() - interval 2 day)`,
  )
}

/** Waits for an attempt that is still under way, on a connection that was lost. */
async function isDone(connection: Connection, note: Claim): Promise<boolean> {
  const [rows] = await connection.query<RowDataPacket[]>(readDone([note]))
  return rows.length > 0
}

/** A locking read: a plain one may not see yet what a transaction has written that has just let go of its locks. */
async function hasDealt(connection: Connection, id: number, index: string, which: string): Promise<boolean> {
  // Without the index named, a small table is read, and locked, from one end to the other.
  const [rows] = await connection.query<RowDataPacket[]>(
    `select id
       from sequence_group force index (${index})
      where sequence_id = ${integer(id)} and ${which}
      limit 1
       lock in share mode`,
  )
  return rows.length > 0
}
