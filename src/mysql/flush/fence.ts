import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isSameDatabase, type SessionIdentity } from '../connections/identity.ts'
import type { ReconnectingSession } from '../connections/reconnecting.ts'
import { rowsOf, type Session } from '../connections/session.ts'
import { integer } from '../literals.ts'

/** A writer's own row in the database. Each of its transactions increments `seq`. */
export interface Fence {
  id: number
  /** `seq` of the last transaction that committed. */
  seq: number
}

/** The range of `crypto.randomInt`, large enough that two writers never have the same id. */
const IDS = 2 ** 48 - 1

/** Rows that were not touched for so long are deleted. */
const RETENTION_DAYS = 7
const DELETED_AT_ONCE = 500
/** Pause between failed attempts to read the row. */
const RETRY_PAUSE_MS = 50

/** Creates a row with an id that was never used before. */
export async function openFence(session: Session): Promise<Fence> {
  const id = randomInt(1, IDS)
  await session.send([
    `insert into fence (id, touched_at) values (${integer(id)}, utc_timestamp())`,
    'commit',
  ])
  return { id, seq: 0 }
}

/** Increments `seq` within a transaction. Must match one row. */
export function raise({ id, seq }: Fence): string {
  return `update fence
   set seq = ${integer(seq + 1)},
       touched_at = utc_timestamp()
 where id = ${integer(id)} and seq = ${integer(seq)}`
}

/**
 * Fails unless the current transaction is still the one that incremented `seq`.
 *
 * A Galera cluster may abort a transaction between two statements of one text, when another node's changes come first.
 * The server then continues with the next statement, and answers OK to a COMMIT of nothing, or of a part.
 */
export function guard({ id, seq }: Fence): string {
  return failUnless(`(select seq from fence where id = ${integer(id)}) = ${integer(seq + 1)}`)
}

/** Keeps the row of an idle writer from being deleted. */
export function touch({ id }: Fence): string {
  return `update fence set touched_at = utc_timestamp() where id = ${integer(id)}`
}

export interface Doubt {
  /** The server that the transaction was sent to. */
  identity: SessionIdentity
  /** Aborted when no caller waits for the transaction any more. */
  awaited: AbortSignal
  /** Called if `seq` is neither that of this transaction nor that before it, or the row is gone. */
  onLost: () => void
}

/**
 * Finds out whether the last transaction committed, for as long as a caller waits for it. Undefined: not known.
 */
export async function hasCommitted(
  reconnecting: ReconnectingSession,
  fence: Fence,
  { identity, awaited, onLost }: Doubt,
): Promise<boolean | undefined> {
  const { seq } = fence
  while (!awaited.aborted) {
    let session: Session | undefined
    try {
      session = await reconnecting.session()
      const found = await fenceAndRead(session, fence)
      if (found === seq + 1) return true
      if (found !== seq) onLost()
      // Another server may still receive the transaction.
      return found === seq && isSameDatabase(identity, session.identity) ? false : undefined
    } catch {
      // A failed attempt shows nothing. The next one uses a new connection.
      session?.drop()
      await pause(RETRY_PAUSE_MS)
    }
  }
  return undefined
}

/**
 * Reads `seq` of the last transaction that committed; `undefined` if the row is gone.
 *
 * It writes the row as well. So it waits for a transaction that is still in flight, and on a cluster it conflicts with
 * one that another node still has to apply: once it has committed, no transaction that it did not see can commit.
 *
 * @throws the error that keeps it from committing; then nothing is known
 */
async function fenceAndRead(session: Session, { id }: Fence): Promise<number | undefined> {
  const own = `from fence where id = ${integer(id)}`
  const answers = await session.send([
    ...(session.isClustered ? ['set session wsrep_sync_wait = 7', 'rollback'] : ['start transaction']),
    `update fence set epoch = last_insert_id(epoch + 1) where id = ${integer(id)}`,
    `select seq ${own}`,
    // As in a flush: this must be the transaction that incremented `epoch`.
    failUnless(`coalesce((select epoch ${own}), last_insert_id()) = last_insert_id()`),
    'commit',
    ...(session.isClustered ? ['set session wsrep_sync_wait = 0'] : []),
  ])
  return answers.flatMap(rowsOf).find((row) => 'seq' in row)?.seq
}

/** Fails with "more than one row" unless a condition is true. A select *from* the row would pass if it is missing. */
function failUnless(condition: string): string {
  return `select if(${condition}, 0, (select 1 union select 2))`
}

/** Deletes the rows of writers that ended long ago. Touches no row that a writer could hold locked. */
export async function sweep(session: Session): Promise<void> {
  const isOld = `touched_at < utc_timestamp() - interval ${RETENTION_DAYS} day`
  const [found] = await session.send([
    `select id from fence where ${isOld} limit ${DELETED_AT_ONCE}`,
    'commit',
  ])
  const ids = rowsOf(found).map(({ id }) => integer(id))
  if (ids.length === 0) return
  await session.send([`delete from fence where id in (${ids.join(', ')}) and ${isOld}`, 'commit'])
}
