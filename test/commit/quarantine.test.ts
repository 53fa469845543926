import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Call } from '../../src/commit/call.ts'
import { SYSTEM_CLOCK } from '../../src/commit/clock.ts'
import { Quarantine } from '../../src/commit/quarantine.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'held' }

/** Opens counters on a new database, and counts the attempts to lock rows. */
async function startCounting() {
  const database = await freshDatabase()
  let count = 0
  const target = await startProxy(database, (statement) => {
    if (statement.includes('skip locked')) count += 1
    return 'passes'
  })
  return { ...openTestNth(target, { timeoutMs: AMPLE_MS }), database, attempts: () => count }
}

/** A call with an idempotency key of that hash. */
const openCall = (hash = '') =>
  new Call({ operations: [], mode: 'one', claim: { hash, fingerprint: '' } }, 0, Infinity, () => undefined)

/** A quarantine by a clock that is set by hand. `stay` has a key quarantined for so long, and released. */
function quarantineByHand() {
  const clock = { nowMs: 0, elapsedMs: () => clock.nowMs }
  const quarantine = new Quarantine(clock)
  return {
    clock,
    quarantine,
    stay(key: string, ms: number) {
      quarantine.add(key, [])
      clock.nowMs += ms
      quarantine.release(key, true)
    },
    isOnProbation: (key: string) => quarantine.isOnProbation([openCall(), openCall(key)]),
  }
}

describe('the quarantine', () => {
  it('keeps a key on probation for as long as it was quarantined in the last minute', () => {
    const { clock, quarantine, stay, isOnProbation } = quarantineByHand()
    /** For how many seconds it is on probation from now on. */
    const probationS = (key: string) => {
      const begin = clock.nowMs
      while (isOnProbation(key)) clock.nowMs += 1000
      const seconds = (clock.nowMs - begin) / 1000
      clock.nowMs = begin
      return seconds
    }
    expect(probationS('a')).toBe(0)
    stay('a', 10_000)
    expect(['a', 'b'].map(probationS)).toEqual([10, 0])
    clock.nowMs += 30_000
    stay('a', 5000)
    expect(probationS('a')).toBe(15)
    // Half of the first stay is more than a minute ago.
    clock.nowMs += 15_000
    stay('a', 5000)
    expect(probationS('a')).toBe(15)
    quarantine.add('b', [])
    clock.nowMs += 30_000
    // A failed attempt neither ends the stay nor begins another one.
    quarantine.release('b', false)
    clock.nowMs += 20_000
    quarantine.release('b', true)
    expect(probationS('b')).toBe(50)
    stay('b', 600_000)
    expect(probationS('b')).toBe(60)
  })

  it('remembers a thousand keys on probation, and forgets the one that left the quarantine first', () => {
    const { clock, quarantine, isOnProbation } = quarantineByHand()
    const keys = upTo(1001).map((index) => `key ${index}`)
    for (const key of keys) quarantine.add(key, [openCall()])
    clock.nowMs += 60_000
    for (const key of keys) quarantine.release(key, true)
    expect(keys.filter((key) => !isOnProbation(key))).toEqual(['key 1'])
  })

  it('keeps every key that calls wait for, however many there are', () => {
    const { quarantine } = quarantineByHand()
    const waiting = upTo(1500).map((index) => {
      const call = openCall()
      quarantine.add(`key ${index}`, [call])
      return call
    })
    const found: Call[] = []
    for (let tried = quarantine.take(); tried; tried = quarantine.take()) found.push(...tried.calls)
    expect(found).toEqual(waiting)
  })

  it('waits for no lock on a row that another session locks again, so that the others are not delayed', async () => {
    let skippedMs = 0
    const elapsed = vi
      .spyOn(SYSTEM_CLOCK, 'elapsedMs')
      .mockImplementation(() => performance.now() + skippedMs)
    onTestFinished(() => elapsed.mockRestore())
    const { counters, database, attempts } = await startCounting()
    const add = (name: string) => counters.incrementBy({ namespace: 'n', name }, 1)
    await Promise.all(['held', 'free'].map(add))
    let holder = await hold(database, 'held')
    const first = add('held')
    await expect.poll(attempts).toBeGreaterThan(1)
    // It was quarantined for long enough, and is on probation for as long.
    skippedMs = 30_000
    await holder.end()
    expect(await first).toMatchObject({ value: 2 })
    holder = await hold(database, 'held')
    const statements = collectStatements('counter_value')
    const second = add('held')
    expect(await add('free')).toMatchObject({ value: 2 })
    // They were in one flush, and none of its texts waits for the lock.
    const ids = (await query(database, 'select id from counter order by id')).map(({ id }) => id).join(', ')
    const together = statements.filter((text) => text.includes(`(${ids})`))
    expect(together.map((text) => text.includes('skip locked'))).toEqual([true])
    await holder.end()
    expect(await second).toMatchObject({ value: 3 })
    // A flush without the key tries no locks.
    const before = attempts()
    await add('free')
    expect(attempts()).toBe(before)
  })

  it('has a counter with slots reset once another session no longer locks all of them', async () => {
    const { counters, database, attempts } = await startCounting()
    await counters.define(key, { slots: 4 })
    for (const _ of upTo(20)) await counters.incrementBy(key, 1)
    const holder = await hold(database, 'held')
    const reset = counters.reset(key, 100)
    await expect.poll(attempts).toBeGreaterThan(3)
    await holder.query('rollback')
    expect(await reset).toMatchObject({ value: 100, previousValue: 20 })
  })
})
