import { ER, hasErrorNumber } from './errors.ts'
import { integer } from './literals.ts'
import type { Note } from './reachability.ts'
import { FailedStatement, openSession, type Place, type Session, type SessionOptions } from './session.ts'
import type { Target } from './target.ts'

/** A session that is opened again whenever it is lost. */
export interface Line {
  /** @throws the reason why there is none */
  session(): Promise<Session>
  /** The session, if there is one now. */
  present(): Session | undefined
  close(): Promise<void>
}

export interface LineOptions extends SessionOptions {
  note: Note
}

export function openLine(target: Target, options: LineOptions): Line {
  let current: Session | undefined

  async function reopen(): Promise<Session> {
    const lost = current
    const session = await openSession(target, options)
    if (lost) await endOnServer(session, lost.place)
    return session
  }

  return {
    async session() {
      if (current?.isOpen()) return current
      try {
        current = await reopen()
        options.note(true)
        return current
      } catch (error) {
        options.note(false, error)
        throw error
      }
    },

    present: () => (current?.isOpen() ? current : undefined),

    async close() {
      if (current?.isOpen()) await current.close()
    },
  }
}

/**
 * Ends a lost session on the server, which may not have noticed, and would keep its locks. Connections are
 * numbered anew with each run of a server, so it must be certain that it is the same run.
 */
async function endOnServer(session: Session, lost: Place): Promise<void> {
  if (!isSameRun(lost, session.place)) return
  try {
    await session.send([`kill ${integer(lost.connectionId)}`])
  } catch (error) {
    const isGone = error instanceof FailedStatement && hasErrorNumber(error.cause, ER.NO_SUCH_THREAD)
    if (!isGone) throw error
  }
}

/** The server says its uptime in whole seconds. */
const ROUNDED_S = 2

function isSameRun(before: Place, after: Place): boolean {
  const elapsedS = (after.askedAt - before.askedAt) / 1000
  return (
    before.server === after.server &&
    // A run that is younger than that can't be told from the next one.
    before.uptimeS > ROUNDED_S &&
    after.uptimeS - before.uptimeS > elapsedS - ROUNDED_S
  )
}
