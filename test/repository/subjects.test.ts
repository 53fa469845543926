import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { rowsRead } from '../support/database/rowsRead.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const key = { namespace: 'n', name: 'c' }

const COUNT = `mutation($subject: String, $key: String) {
  increment(name: "c", subject: $subject, idempotencyKey: $key) {
    value previousValue appliedDelta month: valueIn(period: MONTH) at alreadyCounted replayed counter { value }
  }
}`
const UNCOUNT = `mutation($subject: String!) {
  uncount(name: "c", subject: $subject) { value previousValue appliedDelta month: valueIn(period: MONTH) }
}`
const CHANGE_OF = `query($subject: String!) {
  counter(name: "c") { changeOf(subject: $subject) { value previousValue appliedDelta month: valueIn(period: MONTH) at alreadyCounted counter { value } } }
}`

it('counts a subject once, and returns the numbers of its first call again', async () => {
  const { ask } = await startService()
  const count = async (subject: string) => (await ask(COUNT, { subject })).increment
  await ask('mutation { incrementBy(name: "c", delta: 10) { value } }')
  const first = await count('ann')
  expect(first).toMatchObject({
    value: 11,
    previousValue: 10,
    appliedDelta: 1,
    month: 11,
    alreadyCounted: false,
  })
  await count('bob')
  const again = await count('ann')
  expect(again).toEqual({ ...first, appliedDelta: 0, alreadyCounted: true, counter: { value: 12 } })
  const { replayed, ...change } = again
  expect((await ask(CHANGE_OF, { subject: 'ann' })).counter.changeOf).toEqual(change)
  expect((await ask(CHANGE_OF, { subject: 'eve' })).counter.changeOf).toBeNull()
})

it('stores all running totals, also where the first call selected none', async () => {
  const { ask } = await startService()
  await ask('mutation { increment(name: "c", subject: "ann") { value } }')
  await ask('mutation { increment(name: "c") { value } }')
  const again = await ask('mutation { increment(name: "c", subject: "ann") { valueIn(period: DAY) } }')
  expect(again.increment.valueIn).toBe(1)
})

it('replays a key, and tells a subject with another key that it has counted', async () => {
  const { ask } = await startService()
  const count = async (key: string) => (await ask(COUNT, { subject: 'ann', key })).increment
  expect(await count('k1')).toMatchObject({ value: 1, alreadyCounted: false, replayed: false })
  expect(await count('k1')).toMatchObject({
    value: 1,
    appliedDelta: 1,
    alreadyCounted: false,
    replayed: true,
  })
  const second = await count('k2')
  expect(second).toMatchObject({ value: 1, appliedDelta: 0, alreadyCounted: true, replayed: false })
  expect(await count('k2')).toEqual({ ...second, replayed: true })
})

it('takes back what a subject counted, which may then count again', async () => {
  const { ask } = await startService()
  const uncount = async (subject: string) => (await ask(UNCOUNT, { subject })).uncount
  expect(await uncount('ann')).toBeNull()
  await ask(COUNT, { subject: 'ann' })
  await ask(COUNT, { subject: 'bob' })
  expect(await uncount('ann')).toEqual({ value: 1, previousValue: 2, appliedDelta: -1, month: 1 })
  expect(await uncount('ann')).toBeNull()
  expect((await ask(COUNT, { subject: 'ann' })).increment).toMatchObject({ value: 2, alreadyCounted: false })
})

it('does not count a subject that was refused, or for which nothing was left', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define(key, { minValue: 0, maxValue: 1 })
  await counters.countOnce(key, 'ann')
  await expect(counters.countOnce(key, 'bob')).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
  expect(await counters.changeOf(key, 'bob')).toBeNull()
  await counters.define(key, { overflow: 'SATURATE' })
  expect(await counters.countOnce(key, 'bob')).toMatchObject({ appliedDelta: 0, isAlreadyCounted: false })
  await counters.reset(key, 0)
  expect(await counters.countOnce(key, 'bob')).toMatchObject({ value: 1, isAlreadyCounted: false })
  await counters.reset(key, 0)
  // Nothing is left to take back, so the subject stays counted.
  expect(await counters.uncount(key, 'ann')).toMatchObject({ appliedDelta: 0 })
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  await counters.define(key, { overflow: 'REJECT' })
  await expect(counters.uncount(key, 'ann')).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
})

it('counts a subject once in each period of its zone, if the counter is defined so', async () => {
  let now = new Date('2026-11-30T22:30:00Z')
  const { counters } = openTestNth(await freshDatabase(), { now: () => now })
  await counters.define(key, { oncePer: 'MONTH', timeZone: 'Europe/Berlin' })
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: false })
  now = new Date('2026-11-30T22:59:59Z')
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ isAlreadyCounted: true })
  now = new Date('2026-11-30T23:00:00Z')
  expect(await counters.changeOf(key, 'ann')).toBeNull()
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 2, isAlreadyCounted: false })
  await counters.define(key, { oncePer: null })
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 3, isAlreadyCounted: false })
  now = new Date('2027-11-30T23:00:00Z')
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 3, isAlreadyCounted: true })
})

it('keeps subjects over a reset, and forgets them with the counter', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.countOnce(key, 'ann')
  await counters.reset(key, 0)
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  await counters.delete(key)
  expect(await counters.changeOf(key, 'ann')).toBeNull()
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: false })
})

it('counts each of many parallel callers of a subject once, through two processes, also over slots', async () => {
  const target = await freshDatabase()
  const processes = upTo(2).map(() => openTestNth(target))
  for (const slots of [1, 7]) {
    const key = { namespace: 'n', name: `of ${slots}` }
    await processes[0]?.counters.define(key, { slots })
    const changes = await Promise.all(
      upTo(400).flatMap((call) =>
        processes.map(({ counters }) => counters.countOnce(key, `subject ${call % 40}`)),
      ),
    )
    expect(changes.filter(({ isAlreadyCounted }) => !isAlreadyCounted)).toHaveLength(40)
    const bySubject = upTo(40).map(
      (subject) =>
        new Set(
          changes.filter((_, index) => ((index >> 1) + 1) % 40 === subject % 40).map(({ value }) => value),
        ),
    )
    expect(bySubject.map(({ size }) => size)).toEqual(Array(40).fill(1))
    expect(await processes[0]?.counters.read(key)).toMatchObject({ value: 40 })
  }
})

it('counts subjects on a counter that an older version created', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await query(target, 'update counter set subject_salt = null')
  const later = openTestNth(target)
  expect(await later.counters.countOnce(key, 'ann')).toMatchObject({ value: 2 })
  expect(await later.counters.countOnce(key, 'ann')).toMatchObject({ value: 2, isAlreadyCounted: true })
})

it('refuses to read a subject in a subscription', async () => {
  const { url } = await startService()
  const text = 'subscription { counters(names: ["c"]) { value changeOf(subject: "ann") { value } } }'
  const stream = await subscribe(url, text)
  expect(await stream.next()).toMatchObject({
    data: { counters: [{ value: 0, changeOf: null }] },
    errors: [{ path: ['counters', 0, 'changeOf'], extensions: { code: 'BAD_USER_INPUT' } }],
  })
})

it('finds the subjects of many counters among those of others by their keys', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const names = upTo(200).map((index) => ({ ...key, name: `c${index}` }))
  await Promise.all(names.map((name) => counters.countOnce(name, 'ann')))
  await query(
    target,
    `insert into counter_subject (counter_id, period, start, subject, value, counted_at)
     select c.counter_id, 0, 0, left(unhex(sha2(concat(c.counter_id, ' ', n.counter_id), 256)), 16), 1, utc_timestamp()
       from counter_value c
       join counter_value n on n.counter_id <= 200`,
  )
  const statements = collectStatements('counter_subject')
  await Promise.all(names.map((name) => counters.countOnce(name, 'bob')))
  expect(statements.join()).toContain('for update')
  expect(await rowsRead(target, 'counter_subject', statements)).toBeLessThan(10_000)
})

it.each([
  ['an empty subject', ''],
  ['a subject that is too long', 'x'.repeat(256)],
  ['a control character in a subject', 'a\u0000'],
])('refuses %s', async (_, subject) => {
  const { refusal } = await startService()
  const error = expect.objectContaining({ code: 'BAD_USER_INPUT', argument: 'subject' })
  expect(await refusal(COUNT, { subject })).toEqual(error)
  expect(await refusal(UNCOUNT, { subject })).toEqual(error)
  expect(await refusal(CHANGE_OF, { subject })).toEqual(error)
})

it('takes a subject of 255 emoji, and tells it from one that differs in case', async () => {
  const { ask } = await startService()
  for (const [index, subject] of ['😀'.repeat(255), 'a', 'A', 'á'].entries())
    expect((await ask(COUNT, { subject })).increment).toMatchObject({
      value: index + 1,
      alreadyCounted: false,
    })
})
