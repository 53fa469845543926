import { integer } from '../literals.ts'
import type { FailoverDetector } from './failover.ts'
import type { Health } from './health.ts'
import type { Host, Hosts } from './hosts/hosts.ts'
import { isSurelySameRun } from './hosts/status.ts'
import { openSession, type Session, type SessionOptions, unlessLost } from './session.ts'

export interface ReconnectingSessionOptions extends SessionOptions {
  health: Health
  failover: FailoverDetector
}

/** Opens a session when it is needed, and again whenever it is lost. */
export function openReconnectingSession(hosts: Hosts, options: ReconnectingSessionOptions) {
  const { health, failover } = options
  let latest: Session | undefined
  let incarnation = failover.incarnation
  let host: Host | undefined

  return {
    /** @throws the reason why it can't be opened */
    async session(): Promise<Session> {
      // A connection of an earlier incarnation may lead to a server that was replaced.
      if (incarnation !== failover.incarnation || host?.isLeft()) latest?.drop()
      failover.assertWhole()
      let next: Host | undefined
      const begunAt = performance.now()
      try {
        if (latest?.isOpen()) return latest
        next = await hosts.current()
        const session = await openSession(next, options)
        // The server may not have noticed the loss of the last session, and would keep its locks. Each run of a server
        // numbers its connections from the start, so it must be certain that it is the same run.
        if (latest && isSurelySameRun(latest.identity, session.identity)) {
          // It may be gone already, or this user may not end it: then the server ends it at its idle limit.
          await session.send([`kill ${integer(latest.identity.connectionId)}`]).catch(unlessLost)
        }
        failover.reached(session.identity)
        incarnation = failover.incarnation
        latest = session
        host = next
        health.connected()
        return session
      } catch (error) {
        next?.failed()
        health.notConnected(begunAt, error)
        throw error
      }
    },

    current: () => (latest?.isOpen() ? latest : undefined),

    async close() {
      if (latest?.isOpen()) await latest.close()
    },
  }
}
