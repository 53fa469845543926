// @module-tag slow
import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'c' }
const group = { namespace: 'n', sequence: 'c', group: '' }

/** An Nth through a proxy that may have all connections vanish that are open. */
async function losable(timeoutMs: number) {
  let newest = 0
  let lastOfOld = 0
  const vanished: string[] = []
  const target = await startProxy(await freshDatabase(), (statement, connection) => {
    newest = Math.max(newest, connection)
    if (connection > lastOfOld) return 'passes'
    vanished.push(statement)
    return 'vanishes'
  })
  const nth = openTestNth(target, { timeoutMs })
  const lose = () => {
    lastOfOld = newest
  }
  return {
    ...nth,
    target,
    lose,
    vanished: (pattern: RegExp) => vanished.filter((text) => pattern.test(text)),
  }
}

describe('connections that lead nowhere', () => {
  it('delay readers for a short time only, one after another or many at once', async () => {
    const { counters, lose, vanished } = await losable(6000)
    await counters.incrementBy(key, 1)
    const list = () => counters.list('n', { limit: 1, fromEnd: false, prefix: '' })
    await Promise.all(upTo(50).map(list))
    lose()
    for (const _ of upTo(20)) expect(await list()).toMatchObject({ items: [{ value: 1 }] })
    // One of them at most is met.
    expect(vanished(/order by c\.name/).length).toBeLessThanOrEqual(1)
    await Promise.all(upTo(50).map(list))
    lose()
    expect(await Promise.all(upTo(50).map(list))).toHaveLength(50)
  })

  it.each([
    ['a sequence is defined', /^update sequence\s/],
    ['a sequence is deleted', /^insert ignore into deleted_sequence/],
    ['the defaults of a namespace are set', /^update namespace/],
  ])('has others wait seconds, not hours, for a process that is lost while %s', async (_, pattern) => {
    const database = await freshDatabase()
    let isLost = false
    const target = await startProxy(database, (statement) => {
      isLost ||= pattern.test(statement)
      return isLost ? 'vanishes' : 'passes'
    })
    const other = openTestNth(database)
    await other.sequences.next(group, 1)
    const { namespaces, sequences } = openTestNth(target, { timeoutMs: 5000 })
    const lost = /namespace/.test(pattern.source)
      ? namespaces.define('n', { timeZone: 'Asia/Tokyo' })
      : /deleted/.test(pattern.source)
        ? sequences.delete(key)
        : sequences.define(key, { step: 2 })
    lost.catch(() => undefined)
    await expect.poll(() => isLost).toBe(true)
    expect((await other.sequences.next(group, 1)).issued.lastValue).toBe(2)
    await other.namespaces.define('n', { timeZone: 'Europe/Berlin' })
    await other.sequences.define(key, { step: 3 })
    await lost.catch(() => undefined)
  })

  it.each([
    ['ends a connection', 'is cut off'],
    ['is silent', 'vanishes'],
  ] as const)(
    'let Nth close without an error while its database %s',
    { tags: 'quick' },
    async (_, delivery) => {
      let closed: Promise<void> | undefined
      const target = await startProxy(await freshDatabase(), (statement) => {
        if (!/from namespace/.test(statement)) return 'passes'
        closed ??= nth.close()
        return delivery
      })
      const nth = openTestNth(target, { timeoutMs: 1000 })
      await expect(nth.counters.read({ namespace: 'n', name: 'c' })).rejects.toThrow()
      expect(closed).toBeInstanceOf(Promise)
      await closed
    },
  )

  it('has the system ask on each connection, after seconds of silence, whether the other end is there', {
    tags: 'quick',
  }, async () => {
    const { counters, target } = await losable(6000)
    await counters.incrementBy(key, 1)
    await counters.read(key)
    const peer = `0100007F:${(target.port ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
    const lines = (await readFile('/proc/net/tcp', 'utf8'))
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
    // The connections of clients to the proxy: established, with a timer of kind 2 that ends within so many hundredths.
    const timers = lines
      .filter(([, , remote, state]) => remote === peer && state === '01')
      .map(([, , , , , timer]) => timer)
    expect(timers.length).toBeGreaterThan(1)
    for (const timer of timers) {
      const [kind, left = ''] = timer?.split(':') ?? []
      expect([kind, Number.parseInt(left, 16) <= 1000]).toEqual(['02', true])
    }
  })
})
