import { integer } from '../literals.ts'
import type { FailoverDetector } from './failover.ts'
import type { Health } from './health.ts'
import { isSurelySameRun } from './identity.ts'
import { openSession, type Session, type SessionOptions, unlessLost } from './session.ts'
import type { Target } from './target.ts'

export interface ReconnectingSessionOptions extends SessionOptions {
  health: Health
  failover: FailoverDetector
}

/** Opens a session when it is needed, and again whenever it is lost. */
export function openReconnectingSession(target: Target, options: ReconnectingSessionOptions) {
  const { health, failover } = options
  let latest: Session | undefined
  let incarnation = failover.incarnation

  return {
    /** @throws the reason why it can't be opened */
    async session(): Promise<Session> {
      // A connection of an earlier incarnation may lead to a server that was replaced.
      if (incarnation !== failover.incarnation) latest?.drop()
      if (latest?.isOpen()) return latest
      try {
        const session = await openSession(target, options)
        // The server may not have noticed the loss of the last session, and would keep its locks. Each run of a server
        // numbers its connections from the start, so it must be certain that it is the same run.
        if (latest && isSurelySameRun(latest.identity, session.identity)) {
          // It may be gone already, or this user may not end it: then the server ends it at its idle limit.
          await session.send([`kill ${integer(latest.identity.connectionId)}`]).catch(unlessLost)
        }
        failover.reached(session.identity)
        incarnation = failover.incarnation
        latest = session
        health.connecting(true)
        return session
      } catch (error) {
        health.connecting(false, error)
        throw error
      }
    },

    current: () => (latest?.isOpen() ? latest : undefined),

    async close() {
      if (latest?.isOpen()) await latest.close()
    },
  }
}
