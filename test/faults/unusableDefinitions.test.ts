import { describe, expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'

const UNKNOWN_ZONE = 'Mars/Olympus'
const counter = (name: string) => ({ namespace: 'n', name })
const group = (sequence: string, name: string) => ({ namespace: 'n', sequence, group: name })

/** The result of a call; `ours` for an exception of the server itself, which callers see as INTERNAL_SERVER_ERROR. */
function outcomeOf<Value>(call: Promise<Value>): Promise<Value | string> {
  return call.catch((error) => (error instanceof NthError ? error.code : 'ours'))
}

describe('a definition that can not be used', () => {
  it('fails only its own calls where its time zone is not known here, until it is mended', async () => {
    const target = await freshDatabase()
    const maker = openTestNth(target)
    const names = upTo(12).map((index) => `c${index}`)
    for (const name of [...names, 'broken']) await maker.counters.incrementBy(counter(name), 1)
    for (const name of ['sound', 'broken']) {
      await maker.sequences.define({ namespace: 'n', name }, { restartEvery: 'DAY', allowRepeats: true })
      await maker.sequences.next(group(name, 'g'), 1)
    }
    for (const table of ['counter', 'sequence'])
      await query(target, `update ${table} set time_zone = '${UNKNOWN_ZONE}' where name = 'broken'`)
    const { counters, sequences } = openTestNth(target)
    const count = (name: string) =>
      outcomeOf(counters.incrementBy(counter(name), 1).then(({ value }) => value))
    const next = (sequence: string, name: string) =>
      outcomeOf(sequences.next(group(sequence, name), 1).then(({ issued }) => issued.value))
    for (const round of upTo(3)) {
      const sound = [...names.map(count), next('sound', 'g')]
      const broken = [count('broken'), count('broken'), next('broken', 'g'), next('broken', 'new')]
      expect(await Promise.all(sound)).toEqual([...names, 'sound'].map(() => round + 1))
      expect(await Promise.all(broken)).toEqual(broken.map(() => 'UNAVAILABLE'))
    }
    await maker.counters.define(counter('broken'), { timeZone: 'UTC' })
    await maker.sequences.define({ namespace: 'n', name: 'broken' }, { timeZone: 'UTC' })
    // Mended, it counts again, from where it was.
    expect(await count('broken')).toBe(2)
    expect(await next('broken', 'g')).toBe(2)
  })

  it('reads other rows beside one that cannot be parsed', async () => {
    const target = await freshDatabase()
    const maker = openTestNth(target)
    for (const name of ['a', 'broken']) await maker.counters.incrementBy(counter(name), 1)
    await query(target, "update counter set periods = 'FORTNIGHT' where name = 'broken'")
    const { counters } = openTestNth(target)
    const reads = ['a', 'broken', 'never'].map((name) =>
      outcomeOf(counters.read(counter(name)).then(({ value }) => value)),
    )
    expect(await Promise.all(reads)).toEqual([1, 'ours', 0])
    const changes = ['a', 'broken'].map((name) =>
      outcomeOf(counters.incrementBy(counter(name), 1).then(({ value }) => value)),
    )
    expect(await Promise.all(changes)).toEqual([2, 'ours'])
  })

  it('watches other counters beside one that cannot be parsed, and reports that once', async () => {
    const target = await freshDatabase()
    const { counters, live, faults } = openTestNth(target)
    for (const name of ['a', 'broken']) await counters.incrementBy(counter(name), 1)
    // As a definition of another process, with another version.
    await query(
      target,
      `update counter c
       join counter_value v on v.counter_id = c.id
        set c.periods = 'FORTNIGHT', c.version = c.version + 1, v.version = v.version + 1
      where c.name = 'broken'`,
    )
    const changed: string[] = []
    const feed = live.open({
      periods: [],
      onChanged: async (watched) =>
        void changed.push(...[...watched].map(({ topic }) => JSON.stringify(topic.key))),
    })
    const topics = ['a', 'broken'].map((name) => ({ kind: 'counter', key: counter(name) }) as const)
    const watched = await live.watch(feed, topics)
    expect(watched.map(({ state }) => state instanceof Error)).toEqual([false, true])
    await counters.incrementBy(counter('a'), 1)
    await expect.poll(() => changed).toEqual([JSON.stringify(counter('a'))])
    await query(target, "update counter set periods = 'DAY' where name = 'broken'")
    await expect.poll(() => changed).toContain(JSON.stringify(counter('broken')))
    expect(faults).toHaveLength(1)
  })
})
