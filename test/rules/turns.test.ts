import fc from 'fast-check'
import { afterEach, expect, it, vi } from 'vitest'
import { type Owner, SharedOwner, Turns } from '../../src/rules/turns.ts'

function ownerAt(identity: string, address = '1', hasLeft = false): Owner {
  return { identity, address, arrivedAt: 0, hasLeft }
}

/** Some turns, and what has had one, in order. */
function observedTurns() {
  const turns = new Turns<void, void>()
  const started: string[] = []
  const failed: string[] = []
  const wait = (name: string, owner: Owner, deadline = performance.now() + 1e6) =>
    void turns.wait(owner, deadline).then(
      () => started.push(name),
      (error) => failed.push(`${name}: ${error.code} ${error.message}`),
    )
  async function startAll(): Promise<string[]> {
    for (let next = turns.take(); next; next = turns.take()) {
      next.start()
      await undefined
    }
    return started
  }
  return { turns, wait, startAll, started, failed }
}

afterEach(() => {
  vi.useRealTimers()
})

it('Turns: gives turns to identities in a circle, and within each to its addresses', async () => {
  const { wait, startAll } = observedTurns()
  for (const number of [1, 2, 3, 4]) wait(`a${number}`, ownerAt('a', '1'))
  wait('a of another address', ownerAt('a', '2'))
  for (const number of [1, 2]) wait(`b${number}`, ownerAt('b'))
  wait('c', ownerAt('c'))
  expect(await startAll()).toEqual(['a1', 'b1', 'c', 'a of another address', 'b2', 'a2', 'a3', 'a4'])
})

it('Turns: lets no work wait for more than one of each other identity, and of each other address of its own', () => {
  const name = fc.constantFrom('a', 'b', 'c')
  const arrivals = fc.array(fc.option(fc.record({ identity: name, address: name })), {
    minLength: 1,
    maxLength: 60,
  })
  fc.assert(
    fc.property(arrivals, (steps) => {
      const turns = new Turns<void, void>()
      /** What waits, with what has had a turn since it became the first of its owner. */
      const waiting = new Map<string, { owner: Owner; count: number; since: Owner[] }>()
      const textOf = ({ identity, address }: Owner) => `${identity} ${address}`
      for (const step of [...steps, ...steps.map(() => null)]) {
        if (step) {
          const owner = ownerAt(step.identity, step.address)
          void turns.wait(owner, performance.now() + 1e6)
          const own = waiting.get(textOf(owner)) ?? { owner, count: 0, since: [] }
          waiting.set(textOf(owner), { ...own, count: own.count + 1 })
          continue
        }
        const taken = turns.take()
        taken?.start()
        if (!taken) continue
        for (const [text, { owner, since }] of waiting) {
          if (text === textOf(taken.owner)) continue
          since.push(taken.owner)
          const ofOwn = since.filter(({ identity }) => identity === owner.identity)
          const addresses = new Set(ofOwn.map(({ address }) => address))
          expect(ofOwn.length).toBe(addresses.size)
          const others = since.filter(({ identity }) => identity !== owner.identity)
          // One of each for each turn of its own identity, and the last one.
          for (const identity of ['a', 'b', 'c'])
            expect(others.filter((other) => other.identity === identity).length).toBeLessThanOrEqual(
              ofOwn.length + 1,
            )
        }
        const own = waiting.get(textOf(taken.owner))
        if (!own || own.count === 1) waiting.delete(textOf(taken.owner))
        else waiting.set(textOf(taken.owner), { ...own, count: own.count - 1, since: [] })
      }
      expect(turns.take()).toBeUndefined()
    }),
  )
})

it('Turns: drops the work of owners who have left, without a turn', async () => {
  const { wait, startAll, failed } = observedTurns()
  const leaving = { identity: 'a', address: '1', arrivedAt: 0, hasLeft: false }
  for (const number of [1, 2, 3]) wait(`left${number}`, leaving)
  wait('b', ownerAt('b'))
  leaving.hasLeft = true
  expect(await startAll()).toEqual(['b'])
  expect(failed).toEqual(
    [1, 2, 3].map((number) => `left${number}: BAD_REQUEST The client has left. Nothing was done.`),
  )
})

it('Turns: gives up what has no turn until its deadline', async () => {
  vi.useFakeTimers()
  const { wait, startAll, failed } = observedTurns()
  wait('late', ownerAt('a'), performance.now() + 1000)
  wait('patient', ownerAt('a'), performance.now() + 3000)
  await vi.advanceTimersByTimeAsync(1000)
  expect(failed).toEqual(['late: UNAVAILABLE Too many requests are waiting. Nothing was done.'])
  expect(await startAll()).toEqual(['patient'])
  await vi.advanceTimersByTimeAsync(3000)
  expect(failed).toHaveLength(1)
})

it('SharedOwner: gives shared work the turn of the member that waits least, also of one that joins later', async () => {
  const { wait, startAll, turns } = observedTurns()
  const [busy, idle] = [ownerAt('busy'), ownerAt('idle')]
  for (const number of [1, 2, 3]) wait(`busy${number}`, busy)
  const both = new SharedOwner()
  both.join(busy)
  both.join(idle)
  wait('of both', both)
  const joined = new SharedOwner()
  joined.join(busy)
  wait('joined', joined)
  joined.join(ownerAt('late'))
  expect(await startAll()).toEqual(['busy1', 'of both', 'joined', 'busy2', 'busy3'])
  expect(turns.take()).toBeUndefined()
})

it('SharedOwner: drops shared work when all its members have left', async () => {
  const { wait, startAll, failed } = observedTurns()
  const shared = new SharedOwner()
  const member = ownerAt('a')
  shared.join(member)
  wait('shared', shared)
  shared.members.delete(member)
  expect(await startAll()).toEqual([])
  expect(failed).toHaveLength(1)
})
