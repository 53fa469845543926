import { expect, it } from 'vitest'
import { writerFor } from '../../src/rules/sequence.ts'

import { inParallel, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { createRandom } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

/** The last year of each zone ends at this instant. */
const NEW_YEARS: [zone: string, at: number][] = [
  ['Pacific/Auckland', Date.UTC(2025, 11, 31, 11)],
  ['Europe/Berlin', Date.UTC(2025, 11, 31, 23)],
  ['America/New_York', Date.UTC(2026, 0, 1, 5)],
]
const CALLS = 1200
/** By how much the clock of the second process is behind, in milliseconds. */
const SKEW_MS = 300

it("restartEvery: begins every year at its start on New Year's Eve in three time zones under load, and repeats no number", async () => {
  const clock = { at: 0 }
  const target = await freshDatabase()
  const random = createRandom()
  const processes = [
    openTestNth(target, { now: () => new Date(clock.at) }),
    openTestNth(target, { now: () => new Date(clock.at - SKEW_MS) }),
  ]
  const [first] = processes
  if (!first) throw new Error('There are two')
  for (const [timeZone] of NEW_YEARS) {
    const definition = { format: 'INV-{yyyy}-{value:5}', restartEvery: 'YEAR', timeZone } as const
    await first.sequences.define({ namespace: 'n', name: timeZone }, definition)
  }
  const issued = new Map(NEW_YEARS.map(([zone]) => [zone, [] as { text: string; value: number; at: Date }[]]))
  for (const [, midnight] of NEW_YEARS) {
    clock.at = midnight - CALLS / 2
    await inParallel(40, CALLS, async (index) => {
      clock.at += 1
      const [zone] = NEW_YEARS[index % 3] ?? ['']
      const { sequences } = processes[random.below(2)] ?? first
      const count = index % 7 === 0 ? 3 : 1
      const numbers = await sequences.next({ namespace: 'n', sequence: zone, group: '' }, count)
      for (const offset of upTo(count)) {
        const value = numbers.issued.value + offset - 1
        issued.get(zone)?.push({ text: writerFor(numbers)(value), value, at: numbers.at })
      }
    })
  }
  for (const [timeZone, midnight] of NEW_YEARS) {
    const numbers = issued.get(timeZone) ?? []
    expect(new Set(numbers.map(({ text }) => text)).size).toBe(numbers.length)
    for (const year of [2025, 2026]) {
      const ofYear = numbers.filter(({ at }) => (at.getTime() < midnight ? 2025 : 2026) === year)
      const texts = upTo(ofYear.length).map((value) => `INV-${year}-${String(value).padStart(5, '0')}`)
      expect(ofYear.length).toBeGreaterThan(100)
      expect(ofYear.map(({ text }) => text).toSorted()).toEqual(texts)
    }
  }
  for (const { faults } of processes) expect(faults).toEqual([])
})

it('restartEvery: begins the periods of sequences that restart every year, every month and never in one flush', async () => {
  const clock = { at: Date.UTC(2025, 11, 31, 23) }
  const { sequences } = openTestNth(await freshDatabase(), { now: () => new Date(clock.at) })
  const nameOf = (restartEvery: string) => ({ namespace: 'n', name: restartEvery })
  await sequences.define(nameOf('YEAR'), { restartEvery: 'YEAR', format: '{yyyy}-{value}' })
  await sequences.define(nameOf('MONTH'), { restartEvery: 'MONTH', format: '{yyyy}-{MM}-{value}' })
  const issue = () =>
    Promise.all(
      ['YEAR', 'MONTH', 'NEVER'].map(async (sequence) => {
        const numbers = await sequences.next({ namespace: 'n', sequence, group: '' }, 1)
        return writerFor(numbers)(numbers.issued.value)
      }),
    )
  expect(await issue()).toEqual(['2025-1', '2025-12-1', '1'])
  expect(await issue()).toEqual(['2025-2', '2025-12-2', '2'])
  clock.at += 3_600_000
  const statements = collectStatements()
  expect(await issue()).toEqual(['2026-1', '2026-01-1', '3'])
  expect(statements).toHaveLength(2)
})

it('lastFormatted: shows the number that was issued last, also after one of a process whose clock was ahead', async () => {
  const midnight = Date.UTC(2026, 0, 1)
  const target = await freshDatabase()
  const clock = { at: midnight - 1 }
  const right = openTestNth(target, { now: () => new Date(clock.at) })
  const ahead = openTestNth(target, { now: () => new Date(Date.UTC(2036, 5, 1)) })
  const key = { namespace: 'n', sequence: 's', group: '' }
  await ahead.sequences.define(
    { namespace: 'n', name: 's' },
    { format: '{yyyy}-{value}', restartEvery: 'YEAR' },
  )
  for (const [{ sequences }, text] of [
    [right, '2025-1'],
    [ahead, '2036-1'],
    [right, '2025-2'],
    [ahead, '2036-2'],
    [ahead, '2036-3'],
    [right, '2025-3'],
  ] as const) {
    const numbers = await sequences.next(key, 1)
    expect(writerFor(numbers)(numbers.issued.value)).toBe(text)
    const { lastFormatted } = await right.sequences.readSequenceGroup(key)
    expect(lastFormatted).toBe(text)
  }
  clock.at = midnight
  await right.sequences.next(key, 1)
  const group = { lastFormatted: '2026-1', nextValue: 2, nextFormatted: '2026-2' }
  expect(await right.sequences.readSequenceGroup(key)).toMatchObject(group)
})
