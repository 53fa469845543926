import { describe, expect, it } from 'vitest'
import { JOBS, JOINED, Slots } from '../../src/mysql/slots.ts'
import type { Owner } from '../../src/rules/turns.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'

describe('the pool', () => {
  it('refuses work that begins after it was closed, or goes on, as that of an unreachable database', async () => {
    const target = await freshDatabase()
    const database = openTestDatabase(target)
    const CLOSED = { code: 'UNAVAILABLE', message: expect.stringContaining('were closed') }
    let attempts = 0
    const begun = database.withRetry(JOBS, async (connection) => {
      attempts += 1
      await connection.select('select 1')
      await database.close()
      await query(target, 'select 2')
      return connection.select('select 3')
    })
    await expect(begun).rejects.toMatchObject(CLOSED)
    expect(attempts).toBe(1)
    await expect(database.select(JOBS, 'select 1')).rejects.toMatchObject(CLOSED)
  })

  it('has room again for as many requests once those before have failed', async () => {
    // A hundred may wait.
    const database = openTestDatabase(await freshDatabase())
    const fail = () =>
      database
        .withRetry(JOINED, async () => {
          throw new Error('broken')
        })
        .catch(({ code, message }) => code ?? message)
    const failures = await Promise.all(upTo(101).map(fail))
    expect(failures).toEqual([...Array(100).fill('broken'), 'UNAVAILABLE'])
    expect(await database.select(JOINED, 'select 1 as one')).toEqual([{ one: 1 }])
  })
})

const SIZE = 10
const RESERVED = 2

/** Slots, of which work takes one until a test ends it. */
function observedSlots(size = SIZE, reserved = RESERVED) {
  const slots = new Slots(size, reserved)
  const running: { name: string; end: () => void }[] = []
  async function start(owner: Owner, count = 1): Promise<void> {
    for (let number = 1; number <= count; number += 1)
      void slots
        .take(owner, performance.now() + 1e6)
        .then((end) => running.push({ name: owner.identity, end }))
    await settled()
  }
  async function end(name: string): Promise<void> {
    const index = running.findIndex((one) => one.name === name)
    running.splice(index, 1)[0]?.end()
    await settled()
  }
  const count = (name: string) => running.filter((one) => one.name === name).length
  return { slots, start, end, count }
}

/** After all promise jobs. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

function ownerAt(identity: string): Owner {
  return { identity, address: '', arrivedAt: 0, hasLeft: false }
}

describe('the slots of the pool', () => {
  it('lets one owner use all slots but two, and the next who waits has the next one', async () => {
    const { slots, start, end, count } = observedSlots()
    await start(ownerAt('a'), 30)
    expect([count('a'), slots.isFull]).toEqual([8, true])
    await start(ownerAt('b'), 2)
    await start(ownerAt('c'))
    expect([count('b'), count('c')]).toEqual([0, 0])
    // First it is the turn of the one that waits longest.
    await end('a')
    await end('a')
    await end('a')
    expect([count('a'), count('b'), count('c')]).toEqual([6, 1, 1])
    // A circle later.
    await end('a')
    await end('a')
    expect([count('a'), count('b'), count('c')]).toEqual([5, 2, 1])
  })

  it('keeps two slots for joined work, which may also use the others', async () => {
    const { start, end, count } = observedSlots()
    await start(ownerAt('a'), 30)
    await start(JOINED, 3)
    expect(count('joined')).toBe(2)
    // The turn of the owner that waits longer, then that of joined work.
    await end('a')
    await end('a')
    expect([count('a'), count('joined')]).toEqual([7, 3])
    const alone = observedSlots()
    await alone.start(JOINED, 30)
    expect(alone.count('joined')).toBe(SIZE)
  })

  it('lets callers use all slots where none is reserved, in turn', async () => {
    const { start, end, count } = observedSlots(2, 0)
    await start(ownerAt('a'), 5)
    await start(ownerAt('b'), 2)
    expect([count('a'), count('b')]).toEqual([2, 0])
    await end('a')
    await end('a')
    expect([count('a'), count('b')]).toEqual([1, 1])
    await start(JOBS)
    await end('a')
    await end('b')
    await end('b')
    expect([count('a'), count('b'), count('jobs')]).toEqual([1, 0, 1])
  })

  it('gives jobs one slot at a time, and none while joined work waits', async () => {
    const { start, end, count } = observedSlots()
    await start(JOBS, 2)
    expect(count('jobs')).toBe(1)
    await start(JOINED, 10)
    expect(count('joined')).toBe(9)
    await end('jobs')
    expect([count('jobs'), count('joined')]).toEqual([0, 10])
    await end('joined')
    expect([count('jobs'), count('joined')]).toEqual([1, 9])
  })
})
