import { DAY_MS } from '../../core/time/calendar.ts'
import { openReconnectingSession, type ReconnectingSessionOptions } from '../connections/reconnecting.ts'
import { FailedStatement } from '../connections/session.ts'
import type { Target } from '../connections/target.ts'
import { type Fence, hasCommitted, openFence, sweep, touch } from './fence.ts'
import type { Fenced } from './transaction.ts'

/** A writer's connection, reopened when it is lost, and its own fence. */
export interface FencedConnection {
  /** @throws the reason why it can't be opened */
  open(): Promise<Fenced>
  /** Reads the fence to find out whether the last transaction committed, until `awaited` is aborted. */
  hasCommitted(used: Fenced, awaited: AbortSignal): Promise<boolean | undefined>
  /** Leaves the fence for another one: its `seq` is not known any more. */
  leaveFence(): void
  close(): Promise<void>
}

export interface FencedConnectionOptions extends ReconnectingSessionOptions {
  /** Whether a flush is using it, so that it needs no heartbeat. */
  isBusy: () => boolean
}

export function openFencedConnection(target: Target, options: FencedConnectionOptions): FencedConnection {
  const { failover, idleLimitS, isBusy } = options
  const reconnecting = openReconnectingSession(target, options)
  let fence: Fence | undefined
  let touchedAt = performance.now()
  const heartbeat = setInterval(keepAlive, (idleLimitS * 1000) / 3)

  /** Keeps an idle session alive and, once a day, the fence. A session that fails here is reopened when needed. */
  function keepAlive(): void {
    const session = reconnecting.current()
    if (!session || isBusy()) return
    const isDue = fence && performance.now() - touchedAt > DAY_MS
    if (isDue) touchedAt = performance.now()
    const send = async () => {
      await session.send(fence && isDue ? [touch(fence), 'commit'] : ['do 0'])
      if (isDue) await sweep(session)
    }
    send().catch(session.drop)
  }

  return {
    async open() {
      const session = await reconnecting.session()
      if (!fence) {
        fence = await openFence(session)
        // If this fails, another writer deletes them.
        await sweep(session).catch(unlessLost)
      }
      return { session, fence }
    },

    hasCommitted: ({ session: { identity }, fence }, awaited) =>
      hasCommitted(reconnecting, fence, { identity, awaited, onLost: failover.lost }),

    leaveFence() {
      fence = undefined
    },

    async close() {
      clearInterval(heartbeat)
      await reconnecting.close()
    },
  }
}

function unlessLost(error: unknown): void {
  if (!(error instanceof FailedStatement)) throw error
}
