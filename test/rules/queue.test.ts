// @module-tag random
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Queue, type QueuePlace } from '../../src/rules/queue.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: (options?: { type: 'minor' }) => void = runInNewContext('gc')

it('Queue: keeps the order in which items were added, whichever are removed', () => {
  const steps = fc.array(fc.oneof(fc.constant('add' as const), fc.nat({ max: 20 })))
  fc.assert(
    fc.property(steps, (all) => {
      const queue = new Queue<number>()
      const places: QueuePlace<number>[] = []
      let added = 0
      for (const step of all) {
        if (step === 'add') {
          places.push(queue.add(added))
          added += 1
        } else {
          const [place] = places.splice(step, 1)
          if (place) queue.remove(place)
        }
        expect([...queue]).toEqual(places.map(({ item }) => item))
        expect(queue.size).toBe(places.length)
      }
    }),
  )
})

it('Queue: lets the current item of an iteration be removed', () => {
  const queue = new Queue<number>()
  const places = [0, 1, 2].map((item) => queue.add(item))
  const seen: number[] = []
  for (const item of queue) {
    seen.push(item)
    for (const place of places.splice(0, 1)) queue.remove(place)
  }
  expect(seen).toEqual([0, 1, 2])
  expect(queue.size).toBe(0)
})

// With a Set, all 5 MB stay: the tables that it had before keep the later ones alive.
it('Queue: leaves removed items to young collections, however old the first of them are', () => {
  const item = () => new Array<number>(125).fill(0)
  const queue = new Queue<number[]>()
  const places = Array.from({ length: 64 }, () => queue.add(item()))
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let count = 0; count < 5000; count += 1) {
    for (const place of places.splice(0, 1)) queue.remove(place)
    places.push(queue.add(item()))
  }
  collectGarbage({ type: 'minor' })
  collectGarbage({ type: 'minor' })
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(1_000_000)
})
