import { describe, expect, it } from 'vitest'
import { ER } from '../../src/mysql/errors.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { startProxy, TEXTS } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = (name: string) => ({ namespace: 'n', name })
const group = { namespace: 'n', sequence: 's', group: '' }

/** Whatever waits for it never ends. */
const HOUR_MS = 3_600_000

const NOTE_LOSS =
  "insert into lost_commits (id, noticed_at, what) values (1, utc_timestamp(3), 'it has lost all')"
const LOSS = {
  code: 'UNAVAILABLE',
  message: 'The database lacks changes that it had committed: it has lost all.',
}

describe('a loss of commits', () => {
  it('answers all calls while a loss of commits stands, whatever their deadline, and works again once it is accepted', async () => {
    const target = await freshDatabase()
    const { counters, sequences, checkDatabase } = openTestNth(target, { timeoutMs: HOUR_MS })
    for (const name of ['a', 'held']) await counters.incrementBy(key(name), 1)
    await sequences.next(group, 1)
    const holder = await hold(target, 'held')
    const held = counters.incrementBy(key('held'), 1)
    held.catch(() => undefined)
    await query(target, NOTE_LOSS)
    // It was waiting for a lock, which nobody releases.
    await expect(held).rejects.toMatchObject(LOSS)
    const calls = [
      () => counters.incrementBy(key('a'), 1),
      () => counters.incrementBy(key('new'), 1),
      () => counters.incrementMany('n', [{ name: 'a', delta: 1 }]),
      () => sequences.next(group, 1),
      () => counters.define(key('a'), { maxValue: 5 }),
      () => counters.read(key('a')),
    ]
    for (const call of calls) await expect(call()).rejects.toMatchObject(LOSS)
    const message = `Database unavailable: lost commits. ${LOSS.message}`
    await expect(checkDatabase()).rejects.toMatchObject({ ...LOSS, message })
    await holder.end()

    await query(target, 'update lost_commits set accepted_at = utc_timestamp(3)')
    await expect.poll(() => checkDatabase().catch(({ code }) => code)).toEqual({ isBusy: false })
    expect((await counters.incrementBy(key('a'), 1)).value).toBe(2)
    expect((await counters.incrementBy(key('held'), 1)).value).toBe(2)
    expect((await sequences.next(group, 1)).issued.value).toBe(2)
    expect((await counters.read(key('a'))).value).toBe(2)
  })

  it('says at once that the outcome of a commit is unknown, if a loss becomes known before its fence can be read', async () => {
    const database = await freshDatabase()
    let isCutOff = false
    const fenceReads: string[] = []
    const target = await startProxy(database, (statement) => {
      if (!isCutOff) return 'passes'
      if (TEXTS.readsFence.test(statement)) {
        fenceReads.push(statement)
        return { errno: ER.LOCK_WAIT_TIMEOUT }
      }
      return TEXTS.addsAndCommits.test(statement) ? 'stays unanswered' : 'passes'
    })
    const { counters } = openTestNth(target, { timeoutMs: HOUR_MS })
    await counters.incrementBy(key('a'), 1)
    isCutOff = true
    const doubtful = counters.incrementBy(key('a'), 1)
    doubtful.catch(() => undefined)
    await expect.poll(() => fenceReads.length).toBeGreaterThan(0)
    await query(database, NOTE_LOSS)
    await expect(doubtful).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })
})
