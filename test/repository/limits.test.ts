import { expect, it } from 'vitest'
import { calendarOf, PERIODS } from '../../src/rules/calendar.ts'
import type { NthError } from '../../src/rules/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { key, stopClock, turnedClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const HOUR_MS = 3_600_000
const add = (delta: number) =>
  `mutation { incrementBy(name: "c", delta: ${delta}) { value appliedDelta valueIn(period: MONTH) } }`
const define = (definition: string) =>
  `mutation { defineCounter(name: "c", definition: ${definition}) { limits { period max used } } }`

/** What a call that must be refused is refused with. */
function refusal(call: Promise<unknown>): Promise<NthError['extensions']> {
  return call.then(
    () => expect.fail('It was not refused'),
    (error: NthError) => error.extensions,
  )
}

it('maxIn: refuses additions beyond a limit by period, says when it resets, and shows what is used', async () => {
  const { ask, send } = await startService()
  expect(await ask(define('{ maxIn: [{ period: MONTH, max: 10 }, { period: DAY, max: 8 }] }'))).toEqual({
    defineCounter: {
      limits: [
        { period: 'DAY', max: 8, used: 0 },
        { period: 'MONTH', max: 10, used: 0 },
      ],
    },
  })
  await ask(add(7))
  const { errors } = await send(add(2))
  const { message, extensions } = errors?.[0] ?? {}
  const endOfDay = new Date(calendarOf('UTC').bucketAt('DAY', Date.now()).end).toISOString()
  expect(extensions).toEqual({
    code: 'LIMIT_REACHED',
    limit: 8,
    value: 7,
    period: 'DAY',
    used: 7,
    resetsAt: endOfDay,
  })
  expect(message).toBe(
    `Limit reached: 7 plus 2 is above the maximum of 8 in each DAY. This one ends at ${endOfDay}. Nothing was changed.`,
  )
  // A reset changes no limit. What is subtracted may be added again.
  await ask('mutation { reset(name: "c") { value } }')
  expect((await send(add(2))).errors).toMatchObject([{ extensions: { value: 0, used: 7 } }])
  expect((await ask(add(-5))).incrementBy).toEqual({ value: -5, appliedDelta: -5, valueIn: 2 })
  expect((await ask(add(6))).incrementBy).toEqual({ value: 1, appliedDelta: 6, valueIn: 8 })
  const { counter } = await ask('{ counter(name: "c") { limits { period max used resetsAt } } }')
  const endOfMonth = new Date(calendarOf('UTC').bucketAt('MONTH', Date.now()).end).toISOString()
  expect(counter.limits).toEqual([
    { period: 'DAY', max: 8, used: 8, resetsAt: endOfDay },
    { period: 'MONTH', max: 10, used: 8, resetsAt: endOfMonth },
  ])
  expect((await ask('{ counter(name: "other") { limits { max } } }')).counter).toEqual({ limits: [] })
})

it.each([
  ['a period that is not tracked', '{ maxIn: [{ period: YEAR, max: 1 }] }', 'maxIn'],
  ['periods without that of a limit', '{ periods: [{ period: DAY }] }', 'periods'],
  ['a limit of a counter with slots', '{ slots: 2, maxIn: [{ period: DAY, max: 1 }] }', 'slots'],
  ['a period twice', '{ maxIn: [{ period: DAY, max: 1 }, { period: DAY, max: 2 }] }', 'maxIn.1.period'],
  ['a negative limit', '{ maxIn: [{ period: DAY, max: -1 }] }', 'maxIn.0.max'],
])('maxIn: refuses %s', async (_, definition, part) => {
  const { ask, send } = await startService()
  await ask(define('{ maxIn: [{ period: MONTH, max: 10 }] }'))
  const { errors } = await send(define(definition))
  expect(errors).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT', argument: `definition.${part}` } }])
  expect(await ask('{ counter(name: "c") { limits { period max } } }')).toEqual({
    counter: { limits: [{ period: 'MONTH', max: 10 }] },
  })
})

it('maxIn: may set a limit below what is used, keeps it where a definition does not name it, and removes it', async () => {
  const { ask, send } = await startService()
  await ask(add(5))
  expect((await ask(define('{ maxIn: [{ period: DAY, max: 3 }] }'))).defineCounter).toEqual({
    limits: [{ period: 'DAY', max: 3, used: 5 }],
  })
  await ask(define('{ maxValue: 100 }'))
  expect((await send(add(1))).errors).toMatchObject([{ extensions: { limit: 3, used: 5 } }])
  expect((await ask(add(0))).incrementBy).toMatchObject({ value: 5 })
  // It can be saved by hand, and a process that does not know limits refuses such a definition.
  await ask(define('{ maxIn: null }'))
  expect((await ask(add(1))).incrementBy).toMatchObject({ value: 6 })
})

it('maxIn: stores limits so that earlier versions refuse their counters', async () => {
  const { ask, target } = await startService()
  await ask(define('{ maxIn: [{ period: DAY, max: 3 }, { period: MONTH, max: 9007199254740991 }] }'))
  const [{ periods, version }] = (await query(target, 'select periods, version from counter')) as [
    { periods: Buffer; version: number },
  ]
  expect(String(periods)).toBe('HOUR:90,DAY<3,MONTH<9007199254740991')
  // As they parse it.
  const parts = String(periods).split(',')
  expect(parts.map((part) => /^([A-Z]+)(?::(\d+))?(?:@(-?\d+))?$/.test(part))).toEqual([true, false, false])
  await ask(define('{ maxIn: [] }'))
  const [after] = (await query(target, 'select periods, version from counter')) as [typeof periods]
  expect(after).toMatchObject({ periods: Buffer.from('HOUR:90,DAY,MONTH'), version: version + 1 })
})

it('maxIn: says of several limits when the last one resets, and of bounds only that they are reached', async () => {
  const { counters } = openTestNth(await freshDatabase(), turnedClock('2027-02-28T22:30:00Z'))
  const maxIn = PERIODS.map((period) => ({ period, max: 2 }))
  await counters.define(key, { periods: maxIn, maxIn, timeZone: 'Europe/Berlin' })
  await counters.incrementBy(key, 2)
  expect(await refusal(counters.incrementBy(key, 1))).toMatchObject({
    period: 'YEAR',
    resetsAt: '2027-12-31T23:00:00.000Z',
  })
  // 28 February 2027 is a Sunday: the week and the month end together.
  await counters.define(key, { maxIn: maxIn.filter(({ period }) => period !== 'YEAR') })
  expect((await refusal(counters.incrementBy(key, 1))).resetsAt).toBe('2027-02-28T23:00:00.000Z')
  await counters.define(key, { maxValue: 2 })
  const { period, limit } = await refusal(counters.incrementBy(key, 1))
  expect([period, limit]).toEqual([undefined, 2])
})

it('maxIn: restarts at midnight of its time zone, and counts a subject and a key once', async () => {
  const clock = turnedClock('2027-02-28T22:59:59.999Z')
  const { counters } = openTestNth(await freshDatabase(), clock)
  await counters.define(key, { timeZone: 'Europe/Berlin', maxIn: [{ period: 'DAY', max: 2 }] })
  await counters.countOnce(key, 'ann')
  const options = { claim: claimOf('n', 'k', []) }
  await counters.incrementBy(key, 1, options)
  expect(await refusal(counters.countOnce(key, 'bob'))).toMatchObject({ period: 'DAY', used: 2 })
  expect(await counters.incrementBy(key, 1, options)).toMatchObject({ value: 2, isReplayed: true })
  expect(await counters.countOnce(key, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  const other = { ...options, claim: claimOf('n', 'l', []) }
  await refusal(counters.incrementBy(key, 1, other))
  clock.at += 1
  expect(await counters.incrementBy(key, 1, other)).toMatchObject({ value: 3, isReplayed: false })
  expect(await counters.countOnce(key, 'bob')).toMatchObject({ value: 4 })
  await counters.uncount(key, 'bob')
  expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 4 })
})

it('maxIn: lets two processes add exactly what a limit allows, over the end of a period', async () => {
  const database = await freshDatabase()
  const clock = turnedClock('2027-02-28T22:59:00Z')
  const processes = upTo(2).map(() => openTestNth(database, clock))
  await processes[0]?.counters.define(key, { maxIn: [{ period: 'HOUR', max: 37 }] })
  const numbers: number[] = []
  for (const _ of upTo(2)) {
    const calls = upTo(100).map(async (index) => processes[index % 2]?.counters.incrementBy(key, 1))
    const results = await Promise.allSettled(calls)
    const values = results.flatMap((result) => (result.status === 'fulfilled' && result.value?.value) || [])
    expect(values).toHaveLength(37)
    numbers.push(...values)
    clock.at += HOUR_MS
  }
  expect(sorted(numbers)).toEqual(upTo(74))
})
