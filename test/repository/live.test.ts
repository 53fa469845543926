import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { SILENT } from '../../src/operations/log.ts'
import { Live, type Topic, type Watched } from '../../src/repository/live.ts'
import type { CounterKey } from '../../src/rules/counter.ts'

const keyOf = (name: string): CounterKey => ({ namespace: 'n', name })
const topicOf = (name: string): Topic => ({ kind: 'counter', key: keyOf(name) })

/** What is watched changes with each read. Collects the names of each read, and of each notification. */
function openCounters(names: readonly string[]) {
  let value = 0
  const reads: string[][] = []
  const notified: string[][] = []
  const nothing = async () => []
  const live = new Live({
    read: {
      counter: async (keys) => {
        reads.push(keys.map(({ name }) => name))
        value += 1
        return keys.map((key) => ({ ...key, value, definition: undefined, revision: value }) as never)
      },
      sequenceGroup: nothing,
      reservation: nothing,
    },
    readLeaders: async () => null,
    retentionIn: async () => ({ timeZone: 'UTC', periods: {} }) as never,
    now: () => new Date(),
    notices: {
      ...SILENT,
      fault: (error) => {
        throw error
      },
    },
  })
  onTestFinished(() => live.close())
  const feed = live.open({
    periods: [],
    async onChanged(changed: ReadonlySet<Watched>) {
      notified.push([...changed].map(({ topic }) => (topic as { key: CounterKey }).key.name))
    },
  })
  return { live, reads, notified, watched: live.watch(feed, names.map(topicOf)) }
}

it('live reads: read what is changed at once, at most ten times a second, and all of it now and then', async () => {
  const { live, reads, notified, watched } = openCounters(['a', 'b'])
  await watched
  const began = performance.now()
  const elapsedMs = () => performance.now() - began
  while (elapsedMs() < 1000 || !notified.some((names) => names.length === 2)) {
    live.mark([{ kind: 'counter', name: keyOf('a'), operation: { kind: 'add', delta: 1 } } as never])
    await pause(5)
  }
  // One that began before, and one that is due at the end.
  expect(notified.length).toBeLessThanOrEqual(elapsedMs() / 100 + 2)
  expect(reads).toContainEqual(['a'])
  expect(notified).toContainEqual(['a'])
  expect(notified).toContainEqual(['a', 'b'])
})

it('live reads: watch at most 20 000 names', async () => {
  const names = Array.from({ length: 20_001 }, (_, index) => String(index))
  await expect(openCounters(names).watched).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await expect(openCounters(names.slice(1)).watched).resolves.toHaveLength(20_000)
})

it('live reads: watch nothing more for a feed that was closed', async () => {
  const { live, watched } = openCounters(['a'])
  await watched
  const feed = live.open({ periods: [], onChanged: async () => undefined })
  live.closeFeed(feed)
  await expect(live.watch(feed, [topicOf('b')])).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(live.size).toBe(1)
})

it('live reads: watch a name for one feed, when another feed of it is closed', async () => {
  const { live, reads, watched } = openCounters(['a'])
  await watched
  const feed = live.open({ periods: [], onChanged: async () => undefined })
  await live.watch(feed, [topicOf('a')])
  live.closeFeed(feed)
  reads.length = 0
  live.mark([{ kind: 'counter', name: keyOf('a'), operation: { kind: 'add', delta: 1 } } as never])
  await expect.poll(() => reads).toContainEqual(['a'])
})
