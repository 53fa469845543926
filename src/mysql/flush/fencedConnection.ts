import { setTimeout as pause } from 'node:timers/promises'
import { fenceReadMeasure } from '../../core/measures.ts'
import { DAY_MS } from '../../core/time/calendar.ts'
import type { Hosts } from '../connections/hosts/hosts.ts'
import { isSameDatabase } from '../connections/identity.ts'
import { openReconnectingSession, type ReconnectingSessionOptions } from '../connections/reconnecting.ts'
import type { Session } from '../connections/session.ts'
import {
  createFence,
  type Fence,
  type Fenced,
  fenceAndRead,
  RETENTION_DAYS,
  seqIn,
  touchFence,
} from './fence.ts'

/** Whether a transaction was committed, and what it kept with the fence. */
type LastCommit = { isCommitted: true; kept: string | undefined } | { isCommitted: false }

/** Pause between failed attempts to read the row. */
const RETRY_PAUSE_MS = 50

/**
 * Opens a writer's connection, which is reopened when it is lost, and its own fence.
 *
 * @param isBusy whether a flush is using it, so that it needs no heartbeat
 */
export function openFencedConnection(
  hosts: Hosts,
  options: ReconnectingSessionOptions,
  isBusy: () => boolean,
) {
  const { failover, idleLimitS } = options
  const reconnecting = openReconnectingSession(hosts, options)
  let fence: Fence | undefined
  /** The last one, whose last transaction may or may not have been committed. */
  let left: Fence | undefined
  /** By the time of day, as the database deletes by it: a machine may have been suspended. */
  let touchedAt = Date.now()
  const heartbeat = setInterval(keepAlive, (idleLimitS * 1000) / 3)

  /**
   * Keeps an idle session alive and, once a day, the fence. A session that fails here is reopened when needed. All is sent
   * at once: a flush that begins meanwhile comes after it.
   */
  function keepAlive(): void {
    const session = reconnecting.current()
    if (!session || isBusy()) return
    if (!fence || Date.now() - touchedAt <= DAY_MS) {
      session.send(['do 0']).catch(session.drop)
      return
    }
    touchedAt = Date.now()
    touchFence(session, fence).catch(session.drop)
  }

  /** Reports a fence that is behind what its writer was told. */
  async function compare(session: Session, left: Fence): Promise<void> {
    const found = await seqIn(session, left)
    // One of a process that was frozen for days was deleted by another.
    const isSwept = found === undefined && Date.now() - touchedAt > RETENTION_DAYS * DAY_MS
    if (!isSwept && (found ?? -1) < left.seq) failover.lost(lackOf(left, found))
  }

  return {
    /** @throws the reason why it can't be opened */
    async open(): Promise<Fenced> {
      const session = await reconnecting.session()
      if (left) await compare(session, left)
      left = undefined
      fence ??= await createFence(session)
      return { session, fence }
    },

    /**
     * Reads the fence to find out whether the last transaction committed, and what it kept there. Undefined: not known.
     *
     * @param calls those of that transaction: tries until all are answered
     */
    async lastCommit(
      used: Fenced,
      calls: readonly { isAnswered: boolean }[],
    ): Promise<LastCommit | undefined> {
      const { seq } = used.fence
      while (calls.some(({ isAnswered }) => !isAnswered)) {
        let session: Session | undefined
        try {
          session = await reconnecting.session()
          fenceReadMeasure.publish(undefined)
          const found = await fenceAndRead(session, used.fence)
          if (found) used.fence.epoch = found.epoch
          if (found?.seq === seq + 1) return { isCommitted: true, kept: found.kept }
          if (found?.seq !== seq) {
            failover.lost(lackOf(used.fence, found?.seq))
            fence = undefined
          }
          // Another server may still receive the transaction.
          const isRolledBack = found?.seq === seq && isSameDatabase(used.session.identity, session.identity)
          return isRolledBack ? { isCommitted: false } : undefined
        } catch {
          // A failed attempt shows nothing. The next one uses a new connection.
          session?.drop()
          await pause(RETRY_PAUSE_MS)
        }
      }
      return undefined
    },

    /** Leaves the fence for another one: its `seq` is not known any more. */
    leaveFence() {
      left = fence
      fence = undefined
    },

    /** Reports that the fence is not as this writer left it, if so, and leaves it for another one. */
    async replaceFence({ session, fence: used }: Fenced) {
      await compare(session, used)
      fence = undefined
    },

    async close() {
      clearInterval(heartbeat)
      await reconnecting.close()
    },
  }
}

function lackOf({ seq }: Fence, found: number | undefined): string {
  if (found === undefined) return 'the row of a writer that had committed is missing'
  return `it has ${found} of the ${seq} transactions of a writer`
}
