import { describe, expect, it } from 'vitest'
import { JOBS, JOINED, Slots } from '../../src/mysql/slots.ts'
import type { Owner } from '../../src/rules/turns.ts'

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
