import { randomInt } from 'node:crypto'
import type { Connection } from '../mysql/connection.ts'
import { ER } from '../mysql/errors.ts'
import { isSameDatabase } from '../mysql/hostStatus.ts'
import type { Hosts } from '../mysql/hosts.ts'
import {
  type Answer,
  firstRow,
  openReconnectingSession,
  type ReconnectingSessionOptions,
  rowsOf,
  type Session,
} from '../mysql/session.ts'
import { integer, list } from '../mysql/sql.ts'
import { fenceReadMeasure } from '../operations/measures.ts'
import { DAY_MS } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import type { Clock } from './clock.ts'
import { byId, resultOf } from './statements.ts'

/**
 * A writer's own row in the database. Each of its transactions increments `seq`: here that of the last committed. Each
 * reading after a lost connection increments `epoch`: what was sent before it and arrives after it does nothing.
 */
export type Fence = Record<'id' | 'seq' | 'epoch', number> & {
  /** When it last committed, by the time of day, as the database deletes by it: a machine may have been suspended. */
  usedAt: number
  /** What the last transaction kept with it, if it was read since. */
  kept?: string | undefined
}

export type Fenced = { session: Session; fence: Fence }

/** Rows of writers that have not flushed for so long are deleted, by a scheduled job. */
export const RETENTION_DAYS = 7
/** Then the row of this writer may be deleted: clocks differ. */
const MAY_BE_SWEPT_MS = (RETENTION_DAYS - 1) * DAY_MS

/**
 * The first statements of a transaction, which increment `seq`. On a cluster without START TRANSACTION: `autocommit` is
 * 0 there, and it would commit what an earlier transaction left. There the second also waits until its node has all that
 * was committed on others before; if it doesn't in time, the error is that of a locked row, 1205.
 */
export function begin({ session, fence }: Fenced): string[] {
  const raise = `update fence
   set seq = ${integer(fence.seq + 1)},
       found = null,
       touched_at = utc_timestamp()
 where ${asLeft(fence)}`
  return [session.isGalera ? 'rollback' : 'start transaction', raise]
}

/** Index of the statement of `begin` that fails if its lock, or that of its node, is not free in time. */
export const RAISE_INDEX = 1

/** Whether the answers to `begin` show that `seq` was what this writer left it at. */
export function hasBegun(answers: readonly Answer[]): boolean {
  return resultOf(answers[RAISE_INDEX]).affectedRows === 1
}

/** The fence as its writer left it. */
function asLeft({ id, seq, epoch }: Fence): string {
  return `id = ${integer(id)} and seq = ${integer(seq)} and epoch = ${integer(epoch)}`
}

/** As only the transaction that incremented `seq` leaves it: one that sends the same again has a later epoch. */
function asIncremented(fence: Fence): string {
  return asLeft({ ...fence, seq: fence.seq + 1 })
}

/** Whether the server is the primary of a replication group: also one that has left it may accept changes. */
const IS_PRIMARY = `exists (
  select 1
    from performance_schema.replication_group_members
   where member_id = @@server_uuid and member_state = 'ONLINE' and member_role = 'PRIMARY')`

/**
 * The last statements of a transaction. On a cluster they fail unless it is still the one that incremented `seq`; in a
 * replication group, unless the server is still its primary.
 *
 * A Galera cluster may abort a transaction between two statements of one text, when another node's changes come first.
 * The server then continues with the next statement, and answers OK to a COMMIT of nothing, or of a part.
 */
export function end({ session, fence }: Fenced): string[] {
  if (session.isGalera)
    return [failUnless(`exists (select 1 from fence where ${asIncremented(fence)})`), 'commit']
  return session.identity.cluster === '' ? COMMIT : [failUnless(IS_PRIMARY), 'commit']
}

const COMMIT = ['commit']

/**
 * Reads what was kept by the transaction that incremented `seq`.
 *
 * @throws if it can't be read, or nothing was kept
 */
export async function readKept({ session, fence }: Fenced): Promise<string> {
  const answers = await session.send([`select found from fence where ${asIncremented(fence)}`])
  const kept = firstRow<{ found: string | null }>(answers[0])?.found
  if (kept == null) throw new Error('The fence does not have what a committed transaction kept')
  return kept
}

/** Errors of the last statements that mean that the transaction had no effect. */
export const ROLLED_BACK = [ER.LOCK_DEADLOCK, ER.TRANSACTION_ROLLBACK_DURING_COMMIT, ER.SUBQUERY_NO_1_ROW]

/** Rolls back. If even this fails, the connection is lost, and the server rolls the transaction back. */
export async function rollBack(session: Session): Promise<void> {
  if (session.isOpen()) await session.send(['rollback']).catch(session.drop)
}

/**
 * Reads `seq` of the last transaction that committed, and what it kept; `undefined` if the row is gone.
 *
 * It writes the row as well. So it waits for a transaction that is still in flight, and on a cluster it conflicts with
 * one that another node still has to apply: once it has committed, no transaction that it did not see can commit.
 *
 * @throws the error that keeps it from committing; then nothing is known
 */
async function fenceAndRead(session: Session, id: number) {
  const own = `from fence where id = ${integer(id)}`
  const answers = await session.send([
    session.isGalera ? 'rollback' : 'start transaction',
    `update fence set epoch = last_insert_id(epoch + 1) where id = ${integer(id)}`,
    `select seq, epoch, found ${own}`,
    // As in a flush: this must be the transaction that incremented `epoch`.
    failUnless(`coalesce((select epoch ${own}), last_insert_id()) = last_insert_id()`),
    'commit',
  ])
  const rows = answers.flatMap(rowsOf<Record<'seq' | 'epoch', number> & { found: string | null }>)
  return rows.find((row) => 'seq' in row)
}

/**
 * Fails with "more than one row" unless a condition is true. A select *from* the row would pass if it is missing. Its
 * column has a name: without one it would have the text as its name, and the driver compiles a parser for each new name.
 */
function failUnless(condition: string): string {
  return `select if(${condition}, 0, (select 1 union select 2)) as failure`
}

/**
 * Writes a row of no writer: shows that the database can be written. It waits a second at most while all tables are locked:
 * by default the server would keep each statement for a day, and its connection, whoever sent it.
 */
export async function writeFence(connection: Connection): Promise<void> {
  await connection.query('set session lock_wait_timeout = 1')
  await connection.query(`
    insert into fence (id, touched_at)
    values (0, utc_timestamp())
    on duplicate key update seq = seq + 1, touched_at = utc_timestamp()
  `)
}

/** Pause between failed attempts to read the row. */
const RETRY_PAUSE_MS = 50

export interface FencedConnectionOptions extends ReconnectingSessionOptions {
  clock: Clock
  /** The fences of all writers of this process. */
  fences: Set<Fence>
}

/** Opens a writer's connection, which is reopened when it is lost, and its own fence. */
export function openFencedConnection(hosts: Hosts, options: FencedConnectionOptions) {
  const { clock, failover, fences, idleLimitS } = options
  const reconnecting = openReconnectingSession(hosts, options)
  let fence: Fence | undefined
  /** The session that has used the fence, or read it. */
  let known: Session | undefined
  // Keeps an idle session alive. One that fails here is reopened when needed.
  const endHeartbeat = clock.repeat((idleLimitS * 1000) / 3, () => {
    const session = reconnecting.current()
    session?.send(['do 0']).catch(session.drop)
  })

  /** Reads the fence in a new session. One that is not as its writer may have left it is reported, and replaced. */
  async function read(session: Session, own: Fence): Promise<Fence | undefined> {
    const { id, seq, usedAt } = own
    const found = await fenceAndRead(session, id)
    if (found?.seq === seq || found?.seq === seq + 1)
      return { id, seq: found.seq, epoch: found.epoch, usedAt, kept: found.found ?? undefined }
    reportLoss(found, own, seq)
    return undefined
  }

  /** Reports, once, that a fence has less than its writer had committed: up to `seq`, when it was read. */
  function reportLoss(found: Pick<Fence, 'seq'> | undefined, known: Fence, seq: number): void {
    const isSwept = !found && Date.now() - known.usedAt > MAY_BE_SWEPT_MS
    if (isSwept || (found && found.seq >= seq) || !fences.delete(known)) return
    const had = `it has ${found?.seq} of the ${seq} transactions that a writer had committed`
    failover.lost(found ? had : 'the row of a writer that had committed is missing')
  }

  /** Looks for what the other writers of this process had committed: they may not flush for a long time. */
  async function readOthers(session: Session): Promise<void> {
    const others = [...fences].filter((other) => other !== fence).map((other) => ({ other, seq: other.seq }))
    if (others.length === 0) return
    const ids = list(others, ({ other }) => integer(other.id))
    const [answer] = await session.send([`select id, seq from fence where id in (${ids})`, 'commit'])
    const found = byId<Pick<Fence, 'id' | 'seq'>>(answer)
    for (const { other, seq } of others) reportLoss(found.get(other.id), other, seq)
  }

  function replace(next: Fence | undefined): void {
    if (fence) fences.delete(fence)
    if (next) fences.add(next)
    fence = next
  }

  /** @throws the reason why it can't be opened */
  async function open(): Promise<Fenced> {
    const session = await reconnecting.session()
    if (session !== known) {
      await readOthers(session)
      if (fence) replace(await read(session, fence))
    }
    known = session
    if (fence) return { session, fence }
    // The range of `randomInt`, large enough that no id is ever used twice.
    const id = randomInt(1, 2 ** 48 - 1)
    await session.send([
      `insert into fence (id, touched_at) values (${integer(id)}, utc_timestamp())`,
      'commit',
    ])
    const created = { id, seq: 0, epoch: 0, usedAt: Date.now() }
    replace(created)
    return { session, fence: created }
  }

  return {
    open,

    /**
     * Finds out, in a new session, whether the last transaction committed, and what it kept. Undefined: not known.
     *
     * @param calls those of that transaction: tries until all are answered
     */
    async lastCommit(
      { session: lost, fence: { id, seq } }: Fenced,
      calls: readonly { isAnswered: boolean }[],
    ): Promise<{ isCommitted: boolean; kept?: string | undefined } | undefined> {
      while (calls.some(({ isAnswered }) => !isAnswered)) {
        try {
          fenceReadMeasure.publish(undefined)
          const { session, fence } = await open()
          if (fence.id !== id) return undefined
          if (fence.seq === seq + 1) return { isCommitted: true, kept: fence.kept }
          // Another server may still receive the transaction.
          return isSameDatabase(lost.identity, session.identity) ? { isCommitted: false } : undefined
        } catch (error) {
          // The database has lost commits.
          if (error instanceof NthError) return undefined
          // A failed attempt shows nothing. The next one uses a new connection.
          reconnecting.current()?.drop()
          await clock.pause(RETRY_PAUSE_MS)
        }
      }
      return undefined
    },

    /** Called with what has committed. */
    committed(fence: Fence) {
      fence.seq += 1
      fence.usedAt = Date.now()
    },

    async close() {
      endHeartbeat()
      replace(undefined)
      await reconnecting.close()
    },
  }
}
