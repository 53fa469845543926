import { expect, it } from 'vitest'
import { MemoryBudget } from '../../src/http/connections.ts'

/** Lets a client take parts until there is no room, and returns what it then has. */
function takeAll(budget: MemoryBudget, client: string | undefined, isLarge = false): number {
  let taken = 0
  for (budget.charge(client, 1); budget.hasRoom(client, isLarge); budget.charge(client, 1)) taken += 1
  budget.charge(client, -1)
  return taken
}

it('leaves each further client as much as those before it can keep', () => {
  const budget = new MemoryBudget(1000)
  expect(takeAll(budget, 'a')).toBe(500)
  expect(takeAll(budget, 'b')).toBe(250)
  for (let index = 0; index < 7; index += 1) takeAll(budget, `c${index}`)
  expect(budget.freeBytes).toBeGreaterThan(0)
  budget.charge('a', -500)
  budget.charge('b', -250)
  expect(takeAll(budget, 'd')).toBeGreaterThan(250)
})

it('limits those without an address by what there is, and by half of it for what is large', () => {
  const budget = new MemoryBudget(1000)
  expect(takeAll(budget, undefined, true)).toBe(500)
  expect(takeAll(budget, undefined)).toBe(500)
  expect(budget.freeBytes).toBe(0)
})

it('counts what clients share once, and for each of them', () => {
  const budget = new MemoryBudget(1000)
  budget.charge('a', 300, 300)
  budget.charge('b', 300, 0)
  expect([budget.freeBytes, budget.heldBy('a'), budget.heldBy('b')]).toEqual([700, 300, 300])
  budget.charge('a', -300, 0)
  budget.charge('b', -300, -300)
  expect([budget.freeBytes, budget.heldBy('a'), budget.heldBy('b')]).toEqual([1000, 0, 0])
})
