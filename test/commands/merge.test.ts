// @module-tag slow
import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { counterLine, exported, fileWith, imported, type Line } from '../support/server/transfer.ts'

stopClock()

const a = { namespace: 'default', name: 'a' }
const start = '2026-10-01T00:00:00Z'
const withDay = (value: number, total: number) =>
  counterLine('a', value, { history: { DAY: [[start, total]] } })

async function october(counters: ReturnType<typeof openTestNth>['counters']) {
  const from = new Date(start)
  const range = { last: 1, from, to: new Date(from.getTime() + 1) }
  const [total] = (await counters.history(await counters.read(a), 'DAY', range)) ?? []
  return total?.value
}

it('keeps the greater of the stored and the imported value, and of each total', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const steps: [Line, number, number, string][] = [
    [withDay(-7, -3), -7, -3, '1 created'],
    [withDay(-7, -3), -7, -3, '1 unchanged'],
    [withDay(5, 4), 5, 4, '1 raised'],
    [withDay(3, 9), 5, 9, '1 raised'],
    [withDay(3, 2), 5, 9, '1 kept'],
    [withDay(Number.MAX_SAFE_INTEGER, 2), Number.MAX_SAFE_INTEGER, 9, '1 raised'],
  ]
  for (const [line, value, total, outcome] of steps) {
    const { code, errors } = await imported(target, fileWith([line]))
    expect([code, errors]).toEqual([0, `Counters: ${outcome}.\n`])
    expect([(await counters.read(a)).value, await october(counters)]).toEqual([value, total])
  }
})

it('lowers numbers only with --overwrite', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await imported(target, fileWith([withDay(10, 10)]))
  expect((await imported(target, fileWith([withDay(3, 2)]))).errors).toBe('Counters: 1 kept.\n')
  expect((await counters.read(a)).value).toBe(10)
  expect((await imported(target, fileWith([withDay(3, 2)]), '--overwrite')).errors).toBe(
    'Counters: 1 lowered.\n',
  )
  expect([(await counters.read(a)).value, await october(counters)]).toEqual([3, 2])
})

it('keeps a definition that differs, reports the difference, and replaces the definition with --overwrite', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.define(a, { maxValue: 20 })
  await counters.incrementBy(a, 4)
  const line = withDay(9, 5)
  const { code, errors } = await imported(target, fileWith([line]))
  expect([code, errors]).toEqual([
    0,
    'Line 2: counter "a" in "default": has another definition, which was kept; --overwrite replaces it.\nCounters: 1 raised.\n',
  ])
  expect((await counters.read(a)).definition?.maxValue).toBe(20)
  expect((await counters.read(a)).value).toBe(9)
  const beyond = await imported(target, fileWith([withDay(21, 5)]))
  expect([beyond.code, beyond.errors]).toEqual([
    1,
    'Line 2: counter "a" in "default": its value 21 is above the maximum of 20.\nCounters: 1 refused.\n',
  ])
  expect((await counters.read(a)).value).toBe(9)
  // What was counted today stays in the history of the new definition.
  expect((await imported(target, fileWith([withDay(21, 5)]), '--overwrite')).errors).toContain('1 lowered')
  const present = await counters.read(a)
  expect([present.value, present.definition?.maxValue]).toEqual([21, null])
  expect(await counters.valueIn(present, 'DAY')).toBe(4)
  expect((await counters.incrementBy(a, 2, { wantsPeriodValues: true })).valuesIn?.DAY).toBe(6)
})

it('changes the slots of a counter, and merges into one that has slots', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.define(a, { slots: 3 })
  for (const _ of 'abcdef') await counters.incrementBy(a, 1)
  const today = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`
  const definition = { ...(withDay(0, 0).definition as object), slots: 3 }
  const line = counterLine('a', 50, { definition, history: { DAY: [[today, 40]] } })
  expect((await imported(target, fileWith([line]))).errors).toBe('Counters: 1 raised.\n')
  expect((await imported(target, fileWith([line]))).errors).toBe('Counters: 1 unchanged.\n')
  const change = await counters.incrementBy(a, 1, { wantsPeriodValues: true })
  expect([change.value, change.valuesIn?.DAY]).toEqual([51, 41])
  await imported(target, fileWith([counterLine('a', 60)]), '--overwrite')
  expect((await counters.read(a)).definition?.slots).toBe(1)
  const later = await counters.incrementBy(a, 1, { wantsPeriodValues: true })
  expect([later.value, later.valuesIn?.DAY]).toEqual([61, 42])
})

it('never steps back in a sequence, whatever its direction, nor repeats a number', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  const key = { namespace: 'default', sequence: 's', group: '' }
  await sequences.define({ namespace: 'default', name: 's' }, { step: -2, startValue: 100 })
  await sequences.next(key, 11)
  const at = (lastValue: number) => ({
    type: 'sequenceGroup',
    ...key,
    latest: { period: 0, format: null, timeZone: 'UTC', isCurrent: true },
    periods: [{ period: 0, lastValue, nextValue: null, generation: 0, createdAt: null, updatedAt: null }],
  })
  const outcome = async (lastValue: number, ...options: string[]) =>
    (await imported(target, fileWith([at(lastValue)]), ...options)).errors
  expect(await outcome(90)).toBe('Sequence groups: 1 kept.\n')
  expect((await sequences.next(key, 1)).issued.value).toBe(78)
  expect(await outcome(60)).toBe('Sequence groups: 1 raised.\n')
  expect(await outcome(60)).toBe('Sequence groups: 1 unchanged.\n')
  expect((await sequences.next(key, 1)).issued.value).toBe(58)
  expect(await outcome(90, '--overwrite')).toBe('Sequence groups: 1 lowered.\n')
  expect((await sequences.next(key, 1)).issued.value).toBe(88)
})

it('does not let a later format repeat texts of formats that were used elsewhere', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const [from, to] = [openTestNth(one).sequences, openTestNth(other).sequences]
  const name = { namespace: 'default', name: 's' }
  const key = { namespace: 'default', sequence: 's', group: '' }
  await from.define(name, { format: 'A{value}' })
  await from.next(key, 5)
  await from.define(name, { format: 'B{value}' })
  await to.define(name, { format: 'C{value}' })
  await to.next(key, 2)
  expect((await imported(other, await exported(one))).errors).toContain('has another definition')
  await expect(to.define(name, { format: 'A{value}', step: -1 })).rejects.toThrow('could repeat numbers')
  await expect(to.define(name, { format: 'B{value}', step: -1 })).rejects.toThrow('could repeat numbers')
  expect((await to.next(key, 1)).issued.value).toBe(6)
})

it('changes the defaults of an existing namespace only with --overwrite', async () => {
  const target = await freshDatabase()
  const { namespaces, counters } = openTestNth(target)
  await counters.incrementBy({ namespace: 'n', name: 'a' }, 1)
  const file = fileWith([{ type: 'namespace', name: 'n', timeZone: 'Asia/Tokyo', periods: [] }])
  expect((await imported(target, file)).errors).toContain('namespace "n": has another definition')
  expect((await namespaces.read('n')).timeZone).toBe('UTC')
  await imported(target, file, '--overwrite')
  expect(await namespaces.read('n')).toMatchObject({ timeZone: 'Asia/Tokyo', periods: [] })
})
