import { openHosts } from '../connections/hosts/hosts.ts'
import { openSession, type Session } from '../connections/session.ts'
import type { Target } from '../connections/target.ts'
import { ASSUMPTIONS } from './assumptions.ts'
import type { Finding } from './finding.ts'
import { CREATE, causeOf, repeated, SET_UP, TABLE, TIME_LIMIT_MS } from './trial.ts'

const IDLE_LIMIT_S = 1

/**
 * Tries assumptions in a table of its own, which the user must be allowed to create.
 *
 * @param some only those whose text contains this
 */
export async function* inspectAssumptions(target: Target, some = ''): AsyncGenerator<Finding> {
  const subject = 'engine'
  const hosts = openHosts([target])
  const host = await hosts.current()
  const open = (idleLimitS: number) => openSession(host, { timeLimitMs: TIME_LIMIT_MS, idleLimitS })
  const owner = await open(60)
  let failures = 0
  try {
    await owner.send([`drop table if exists ${TABLE}`, CREATE, 'commit'])
    for (const { text, otherwise, level, holds } of ASSUMPTIONS.filter(({ text }) => text.includes(some))) {
      const opened: Session[] = []
      let reason = ''
      try {
        await repeated(owner, SET_UP)
        for (const idleLimitS of [60, 60, IDLE_LIMIT_S]) opened.push(await open(idleLimitS))
        const [one, other, idle] = opened as [Session, Session, Session]
        if (await holds({ sessions: [one, other], idle })) continue
      } catch (error) {
        reason = ` (${causeOf(error).message})`
      } finally {
        // Not an orderly end: each may be in the middle of a transaction.
        for (const session of opened) session.drop()
      }
      failures += 1
      yield { subject, level, message: `not so: ${text}${reason}. Here ${otherwise}.` }
    }
  } finally {
    await owner.send([`drop table if exists ${TABLE}`]).catch(() => undefined)
    await owner.close()
    hosts.close()
  }
  const message = `all ${ASSUMPTIONS.length} assumptions of Nth about its statements hold`
  if (failures === 0) yield { subject, level: 'ok', message }
}
