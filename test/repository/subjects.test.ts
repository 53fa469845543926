import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { rowsRead } from '../support/database/rowsRead.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const key = { namespace: 'n', name: 'c' }

const openTwo = (target: Target) => [openTestNth(target), openTestNth(target)] as const

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

it('increment(subject:): counts a subject once, and returns the numbers of its first call again', async () => {
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

it('increment(subject:): stores all running totals, also where the first call selected none', async () => {
  const { ask } = await startService()
  await ask('mutation { increment(name: "c", subject: "ann") { value } }')
  await ask('mutation { increment(name: "c") { value } }')
  const again = await ask('mutation { increment(name: "c", subject: "ann") { valueIn(period: DAY) } }')
  expect(again.increment.valueIn).toBe(1)
})

it('uncount: takes back what a subject counted, which may then count again', async () => {
  const { ask } = await startService()
  const uncount = async (subject: string) => (await ask(UNCOUNT, { subject })).uncount
  expect(await uncount('ann')).toBeNull()
  await ask(COUNT, { subject: 'ann' })
  await ask(COUNT, { subject: 'bob' })
  expect(await uncount('ann')).toEqual({ value: 1, previousValue: 2, appliedDelta: -1, month: 1 })
  expect(await uncount('ann')).toBeNull()
  expect((await ask(COUNT, { subject: 'ann' })).increment).toMatchObject({ value: 2, alreadyCounted: false })
})

const RESET = `mutation($to: SafeInt! = 0, $value: SafeInt, $revision: SafeInt, $forget: Boolean! = true, $key: String) {
  reset(name: "c", to: $to, expectedValue: $value, expectedRevision: $revision, forgetSubjects: $forget, idempotencyKey: $key) {
    value previousValue appliedDelta replayed counter { value revision }
  }
}`

it('reset(forgetSubjects:): forgets nobody if it is refused, or a replay of one that was not', async () => {
  const { ask, refusal } = await startService()
  const count = async (subject: string) => (await ask(COUNT, { subject })).increment
  await ask('mutation { defineCounter(name: "c", definition: { minValue: 0 }) { name } }')
  await count('ann')
  const [value, limit, conflict] = [{ value: 1 }, { code: 'LIMIT_REACHED' }, { code: 'CONFLICT' }]
  expect(await refusal(RESET, { to: -1 })).toMatchObject({ ...limit, ...value })
  expect(await refusal(RESET, { value: 2 })).toMatchObject({ ...conflict, ...value })
  expect(await refusal(RESET, { revision: 2 })).toMatchObject({ ...conflict, ...value })
  expect(await count('ann')).toMatchObject({ value: 1, alreadyCounted: true })
  const { reset } = await ask(RESET, { key: 'k', value: 1 })
  expect(reset).toMatchObject({ value: 0, previousValue: 1, replayed: false })
  expect(await count('ann')).toMatchObject({ value: 1, alreadyCounted: false })
  expect((await ask(RESET, { key: 'k', value: 1 })).reset).toMatchObject({
    ...reset,
    replayed: true,
    counter: { value: 1 },
  })
  expect(await count('ann')).toMatchObject({ value: 1, alreadyCounted: true })
  const reused = await refusal(RESET, { key: 'k', value: 1, forget: false })
  expect(reused).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED' })
  const { revision } = (await ask('{ counter(name: "c") { revision } }')).counter
  expect((await ask(RESET, { revision })).reset).toMatchObject({ counter: { revision: revision + 1 } })
  expect(await count('ann')).toMatchObject({ value: 1, alreadyCounted: false })
})

it('reset(forgetSubjects:): forgets the subjects of a counter with slots, and of one that counts them once a day', async () => {
  const processes = openTwo(await freshDatabase())
  for (const definition of [{ slots: 5 }, { oncePer: 'DAY' }, { slots: 3, oncePer: 'YEAR' }] as const) {
    const key = { namespace: 'n', name: JSON.stringify(definition) }
    await processes[0].counters.define(key, definition)
    const count = () =>
      Promise.all(
        upTo(40).map((subject) => processes[subject % 2 ? 0 : 1].counters.countOnce(key, `${subject}`)),
      )
    for (const to of [0, 7]) {
      expect((await count()).every(({ isAlreadyCounted }) => !isAlreadyCounted)).toBe(true)
      expect((await count()).every(({ isAlreadyCounted }) => isAlreadyCounted)).toBe(true)
      expect(await processes[1].counters.reset(key, to, {}, {}, true)).toMatchObject({ value: to })
    }
    expect(await processes[0].counters.read(key)).toMatchObject({ value: 7, definition })
    expect((await count()).every(({ isAlreadyCounted }) => !isAlreadyCounted)).toBe(true)
    expect(await processes[0].counters.read(key)).toMatchObject({ value: 47 })
  }
})

it('reset(forgetSubjects:): resets a counter that nobody has counted or that does not exist, and one that an older version created', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  expect(await counters.reset(key, 3, {}, {}, true)).toMatchObject({ value: 3, previousValue: 0 })
  expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 4 })
  await query(target, 'update counter set subject_salt = null')
  const later = openTestNth(target).counters
  expect(await later.reset(key, 1, {}, {}, true)).toMatchObject({ value: 1, previousValue: 4 })
  expect(await later.countOnce(key, 'ann')).toMatchObject({ value: 2, isAlreadyCounted: false })
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 2, isAlreadyCounted: true })
})

it('reset(forgetSubjects:): counts each caller before or after a reset that forgets, while two processes count and reset', async () => {
  const processes = openTwo(await freshDatabase())
  const changes = await Promise.all(
    upTo(600).map(async (call) => {
      const { counters } = processes[call % 2 ? 0 : 1]
      const isReset = call % 60 === 0
      const done = isReset ? counters.reset(key, 0, {}, {}, true) : counters.countOnce(key, `${call % 20}`)
      return { isReset, ...(await done) }
    }),
  )
  const { value } = await processes[0].counters.read(key)
  const sum = changes.reduce((total, { appliedDelta }) => total + (appliedDelta ?? 0), 0)
  const cleared = changes.reduce(
    (total, { isReset, previousValue }) => total + (isReset ? previousValue : 0),
    0,
  )
  expect(sum).toBe(cleared + value)
  expect(value).toBeLessThanOrEqual(20)
  const subjects = await Promise.all(
    upTo(20).map((call) => processes[1].counters.changeOf(key, `${call % 20}`)),
  )
  expect(subjects.filter((change) => change !== null)).toHaveLength(value)
})

it('oncePer: counts a subject once in each period of its zone, if the counter is defined so', async () => {
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

it('increment(subject:): counts subjects on a counter that an older version created', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(key, 1)
  await query(target, 'update counter set subject_salt = null')
  const later = openTestNth(target)
  expect(await later.counters.countOnce(key, 'ann')).toMatchObject({ value: 2 })
  expect(await later.counters.countOnce(key, 'ann')).toMatchObject({ value: 2, isAlreadyCounted: true })
})

it('changeOf: is refused in a subscription', async () => {
  const { url } = await startService()
  const text = 'subscription { counters(names: ["c"]) { value changeOf(subject: "ann") { value } } }'
  const stream = await subscribe(url, text)
  expect(await stream.next()).toMatchObject({
    data: { counters: [{ value: 0, changeOf: null }] },
    errors: [{ path: ['counters', 0, 'changeOf'], extensions: { code: 'BAD_USER_INPUT' } }],
  })
})

it('increment(subject:): finds the subjects of many counters among those of others by their keys', async () => {
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
])('increment(subject:): refuses %s', async (_, subject) => {
  const { refusal } = await startService()
  const error = expect.objectContaining({ code: 'BAD_USER_INPUT', argument: 'subject' })
  expect(await refusal(COUNT, { subject })).toEqual(error)
  expect(await refusal(UNCOUNT, { subject })).toEqual(error)
  expect(await refusal(CHANGE_OF, { subject })).toEqual(error)
})

it('increment(subject:): takes a subject of 255 emoji, and tells it from one that differs in case', async () => {
  const { ask } = await startService()
  for (const [index, subject] of ['😀'.repeat(255), 'a', 'A', 'á'].entries())
    expect((await ask(COUNT, { subject })).increment).toMatchObject({
      value: index + 1,
      alreadyCounted: false,
    })
})
