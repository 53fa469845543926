import { randomUUID } from 'node:crypto'
import { NthError } from '../../core/errors.ts'
import { type Claim, claimOf } from '../../core/idempotency.ts'
import { defaultSequenceDefinition, type History, type PastFormat } from '../../core/sequences/definition.ts'
import type { SequenceKey, SequenceState, SequenceStore } from '../../core/sequences/store.ts'
import { type Connection, type Database, inTransaction } from '../connections/database.ts'
import type { Variable } from '../connections/variables.ts'
import { readResults, storeResults } from '../flush/idempotencyKeys.ts'
import { integer } from '../literals.ts'
import { select } from '../select.ts'
import {
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
  sequenceDefinitionSet,
} from './columns.ts'
import { createdSequence, sequenceId } from './create.ts'

/**
 * Changes a sequence definition under an exclusive lock on its row. A flush that issues numbers holds a shared one: so
 * all numbers issued before are known, and none is issued by the old definition afterwards.
 *
 * The same transaction stores that the change was applied, so one whose COMMIT got no answer is not applied twice.
 */
export function defineSequence(
  database: Database,
  key: SequenceKey,
  change: Parameters<SequenceStore['define']>[1],
  { at, deadline }: Parameters<SequenceStore['define']>[2],
): Promise<SequenceState> {
  /** Marks it as applied. */
  const claim = claimOf(key.namespace, randomUUID(), [])
  return withKnownOutcome((attempt) =>
    database.withRetry(async (connection) => {
      // Already applied: not checked again against changes of the sequence since then.
      if (attempt.state && (await isApplied(connection, claim))) return attempt.state
      while (true) {
        const id = await createdSequence(connection, key, at, () => change(UNUSED))
        const state = id && (await inTransaction(connection, () => define(connection, id, attempt)))
        if (state) return state
        // Another session has created or deleted it at the same time.
      }
    }, deadline),
  )

  async function define(connection: Connection, id: number, attempt: Attempt) {
    const [row] = await select<DefinedRow>(
      connection,
      `select s.version, s.created_at, s.is_defined, s.format_history, ${SEQUENCE_COLUMNS}
         from sequence s force index (primary)
        where s.id = ${integer(id)}
          for update`,
    )
    const wasApplied = await isApplied(connection, claim)
    attempt.isCommitting = false
    if (!row) return undefined
    const before = sequenceDefinitionIn(row)
    if (wasApplied) return { ...key, definition: before, createdAt: row.created_at }
    const past: PastFormat[] = row.format_history ? JSON.parse(row.format_history.toString()) : []
    const { definition, formatHistory } = change({
      definition: before,
      formatHistory: past,
      ...(await useOf(connection, id, row.version)),
    })
    const isChanged = JSON.stringify([definition, formatHistory]) !== JSON.stringify([before, past])
    if (isChanged || row.is_defined !== 1) {
      await connection.query(
        `update sequence
            set ${sequenceDefinitionSet(definition, formatHistory)},
                is_defined = true,
                definitions = definitions + 1,
                version = version + 1
          where id = ${integer(id)}`,
      )
      await conflictOnCluster(connection, id)
    }
    await connection.query(storeResults([{ claim, at, results: [] }]))
    attempt.isCommitting = true
    attempt.state = { ...key, definition, createdAt: row.created_at }
    return attempt.state
  }
}

/** Deletes a sequence for good: its id is never reused. The sweep deletes its sequence groups. */
export function deleteSequence(database: Database, key: SequenceKey): Promise<void> {
  let id: number | undefined
  return withKnownOutcome((attempt) =>
    database.withRetry(async (connection) => {
      // A retry keeps the id: a sequence that was recreated after the first attempt is not deleted.
      id ??= await sequenceId(connection, key)
      const found = id
      if (found === undefined) return
      await inTransaction(connection, async () => {
        await connection.query(`delete from sequence where id = ${integer(found)}`)
        await connection.query(`insert ignore into deleted_sequence (id) values (${integer(found)})`)
        attempt.isCommitting = true
      })
    }),
  )
}

/** An attempt at a change that is not repeated blindly. */
interface Attempt {
  /** Whether a COMMIT may have been sent without an answer. */
  isCommitting: boolean
  /** The new state, if it may have been applied. */
  state?: SequenceState
}

/** @throws {NthError} OUTCOME_UNKNOWN if a COMMIT may have been sent without an answer */
async function withKnownOutcome<T>(work: (attempt: Attempt) => Promise<T>): Promise<T> {
  const attempt: Attempt = { isCommitting: false }
  try {
    return await work(attempt)
  } catch (cause) {
    const isUnavailable = cause instanceof NthError && cause.code === 'UNAVAILABLE'
    if (!attempt.isCommitting || !isUnavailable) throw cause
    const message =
      'The database did not confirm this change in time: it may have been applied. Send it again; that is safe.'
    throw new NthError('OUTCOME_UNKNOWN', message, { retryable: true }, { cause })
  }
}

type DefinedRow = SequenceDefinitionRow &
  Record<'version' | 'is_defined', number> & { created_at: Date; format_history: Buffer | null }

const BY_VERSION = 'sequence_group_version'

/** A sequence that does not exist. */
const UNUSED: History = {
  definition: defaultSequenceDefinition('UTC'),
  formatHistory: [],
  used: { isNamed: false, isUnnamed: false },
  isUsedSince: false,
}

/** Whether a change was applied. Waits for an attempt that is still in flight on a lost connection. */
async function isApplied(connection: Connection, claim: Claim): Promise<boolean> {
  return (await select(connection, readResults([claim]))).length > 0
}

/** Which groups of a locked sequence have issued numbers. */
export async function useOf(connection: Connection, id: number, version: number) {
  return {
    used: {
      isNamed: await hasIssued(connection, id, BY_VERSION, "version > 0 and name > ''"),
      isUnnamed: await hasIssued(connection, id, 'sequence_group_name', "version > 0 and name = ''"),
    },
    isUsedSince: await hasIssued(connection, id, BY_VERSION, `version = ${integer(version)}`),
  }
}

/** A locking read: a plain one may miss the writes of a transaction that has just released its locks. */
async function hasIssued(connection: Connection, id: number, index: string, which: string): Promise<boolean> {
  // Without `force index`, a server may scan, and lock, all of a small table.
  const rows = await select(
    connection,
    `select id
       from sequence_group force index (${index})
      where sequence_id = ${integer(id)} and ${which}
      limit 1
       lock in share mode`,
  )
  return rows.length > 0
}

/** Maximum sequence groups of a sequence that is redefined on a cluster: one transaction writes all of them. */
const MOST_GROUPS = 10_000

/**
 * Makes a change of a definition conflict with flushes on other nodes of a cluster, where this node's locks have no
 * effect: writes the rows in which they issue numbers.
 */
export async function conflictOnCluster(connection: Connection, id: number): Promise<void> {
  const [clustered] = await select<Variable>(connection, "show variables like 'wsrep_on'")
  if (clustered?.Value !== 'ON') return
  const beyond = await select(
    connection,
    `select id from sequence_group where sequence_id = ${integer(id)} limit 1 offset ${MOST_GROUPS}`,
  )
  if (beyond.length > 0) {
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
