import { expect, it } from 'vitest'
import { JOINED } from '../../src/mysql/slots.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { stopClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const HOUR_MS = 3_600_000
/** The current hour, in hours since 1970. */
const hour = () => Math.floor(Date.now() / HOUR_MS)

it('history: returns the last 30 buckets by default, oldest first, with the empty ones and the current one', async () => {
  const { ask } = await startService()
  const { incrementBy } = await ask(
    'mutation { incrementBy(name: "c", delta: 5) { at counter { history(period: HOUR) { start end value } } } }',
  )
  const { history } = incrementBy.counter
  expect(history.map(({ value }: { value: number }) => value)).toEqual([...Array(29).fill(0), 5])
  const hour = Math.floor(Date.parse(incrementBy.at) / HOUR_MS) * HOUR_MS
  for (const [index, { start, end }] of history.entries()) {
    expect(start).toBe(new Date(hour - (29 - index) * HOUR_MS).toISOString())
    expect(end).toBe(new Date(hour - (28 - index) * HOUR_MS).toISOString())
  }
})

it('history: uses the time zone of the namespace for a counter that was never written', async () => {
  const { ask } = await startService()
  await ask('mutation { defineNamespace(definition: { timeZone: "Asia/Kolkata" }) { id } }')
  const { counter } = await ask(
    '{ counter(name: "c") { valueIn(period: DAY) history(period: DAY, last: 2, to: "2026-03-01T00:00:00Z") { start value } } }',
  )
  expect(counter).toEqual({
    valueIn: 0,
    history: [
      { start: '2026-02-27T18:30:00.000Z', value: 0 },
      { start: '2026-02-28T18:30:00.000Z', value: 0 },
    ],
  })
})

it('history: of 50 counters, and the period total of each, is read with few statements', async () => {
  const { ask } = await startService()
  const names = upTo(50).map((index) => `c${index}`)
  await ask(
    `mutation { ${names.map((name, index) => `${name}: incrementBy(name: "${name}", delta: ${index + 1}) { value }`).join(' ')} }`,
  )
  const statements = collectStatements()
  const { counters } = await ask(
    'query($names: [String!]!) { counters(names: $names) { valueIn(period: DAY) history(period: DAY, last: 7) { value } hours: history(period: HOUR, last: 48) { value } } }',
    { names },
  )
  for (const [index, { valueIn, history, hours }] of counters.entries()) {
    expect(valueIn).toBe(index + 1)
    expect(history.at(-1)).toEqual({ value: index + 1 })
    expect([history.length, hours.length]).toEqual([7, 48])
  }
  // Of 151 reads. How many of them share a tick depends on how long it takes.
  expect(statements.length).toBeLessThan(12)
})

it('history: reads no more of a long one than the periods that are requested', async () => {
  const { ask, target } = await startService()
  const names = upTo(50).map((index) => `c${index}`)
  await ask(`mutation { ${names.map((name) => `${name}: increment(name: "${name}") { value }`).join(' ')} }`)
  await query(
    target,
    `insert into counter_history (counter_id, period, start, value)
     with recursive hours as (select 1 as n union all select n + 1 from hours where n < 500)
     select c.id, 1, 3600 * (${hour()} - n), 1 from counter c, hours`,
    'analyze table counter_history, counter, counter_value',
  )
  const statements = collectStatements('counter_history')
  const { counters } = await ask(
    'query($names: [String!]!) { counters(names: $names) { history(period: HOUR, last: 3) { value } } }',
    { names },
  )
  expect(counters).toEqual(names.map(() => ({ history: [1, 1, 1].map((value) => ({ value })) })))
  // In a session with Nth's own settings.
  const reads = await openTestDatabase(target).withRetry(JOINED, async (connection) => {
    await connection.query('flush status')
    for (const text of [...statements]) await connection.query(text)
    const counts = await connection.select<{ Value: string }>("show session status like 'Handler_read%'")
    return counts.reduce((sum, { Value }) => sum + Number(Value), 0)
  })
  expect(statements.length).toBeGreaterThan(0)
  expect(reads).toBeLessThan(50 * 20)
})

it('history: never has a part of the totals of a counter that is deleted meanwhile', async () => {
  const database = await freshDatabase()
  const { counters: others } = openTestNth(database)
  const key = { namespace: 'n', name: 'c' }
  await others.incrementBy(key, 5)
  await query(
    database,
    `insert into counter_history (counter_id, period, start, value) select id, 1, 3600 * (${hour()} - 1), 7 from counter`,
  )
  const target = await startProxy(database, async (statement) => {
    if (statement.includes('counter_history')) await others.delete(key)
    return 'passes' as const
  })
  const { counters } = openTestNth(target)
  const history = await counters.history(await counters.read(key), 'HOUR', { last: 2 })
  expect(history?.map(({ value }) => value)).toEqual([0, 0])
  expect(await query(database, 'select value from counter_history')).toEqual([{ value: 7 }])
})

it('history: returns the requested time range, from the period that contains its beginning', async () => {
  const { ask } = await startService()
  await ask(
    'mutation { defineCounter(name: "c", definition: { timeZone: "Europe/Berlin", periods: [{ period: DAY }] }) { id } }',
  )
  const history = async (args: string) =>
    (await ask(`{ counter(name: "c") { history(period: DAY, ${args}) { start end } } }`)).counter.history
  // The 29th had 23 hours; the 30th begins at 22:00 in UTC, and is not in it.
  const days = [
    { start: '2026-03-27T23:00:00.000Z', end: '2026-03-28T23:00:00.000Z' },
    { start: '2026-03-28T23:00:00.000Z', end: '2026-03-29T22:00:00.000Z' },
  ]
  expect(await history('from: "2026-03-28T12:00:00+01:00", to: "2026-03-30T00:00:00+02:00"')).toEqual(days)
  expect(await history('last: 2, to: "2026-03-30T00:00:00+02:00"')).toEqual(days)
  for (const none of ['last: 0', 'from: "2026-03-30T00:00:00Z", to: "2026-03-30T00:00:00Z"'])
    expect(await history(none)).toEqual([])
})

it.each([
  ['history(period: DAY, last: -1) { value }', 'last', 0],
  ['history(period: DAY, last: 2501) { value }', 'last', 2500],
  ['history(period: DAY, last: 1, from: "2026-01-01T00:00:00Z") { value }', 'last', undefined],
  ['history(period: YEAR, last: 2000) { value }', 'last', undefined],
  ['history(period: HOUR, from: "2020-01-01T00:00:00Z") { value }', 'from', 2500],
  ['history(period: DAY, from: "0999-12-31T00:00:00Z") { value }', 'from', undefined],
  ['history(period: DAY, to: "2600-12-31T00:00:00Z") { value }', 'to', undefined],
  ['history(period: DAY, from: "0000-01-01T00:00:00Z") { value }', 'from', undefined],
])('arguments: are refused in %s', async (field, argument, limit) => {
  const { post, faults } = await startService()
  const { body } = await post(JSON.stringify({ query: `{ counter(name: "c") { ${field} } }` }))
  const [error] = body.errors ?? []
  expect(error?.extensions).toEqual({
    code: 'BAD_USER_INPUT',
    argument,
    ...(limit !== undefined && { limit }),
  })
  expect(faults).toEqual([])
})

it('valueIn, history: are null for a period that neither it nor a finer one tracks', async () => {
  const { ask } = await startService()
  await ask('mutation { defineCounter(name: "c", definition: { periods: [{ period: WEEK }] }) { id } }')
  // What was counted stands, without an error.
  const fields = 'valueIn(period: MONTH) history(period: MONTH) { value }'
  expect(await ask(`mutation { increment(name: "c") { value counter { ${fields} } } }`)).toEqual({
    increment: { value: 1, counter: { valueIn: null, history: null } },
  })
})

it('limits: let a client with a cache read 24 hours or a total of 500 counters, or all hours of 90 days', async () => {
  const { ask } = await startService()
  const names = upTo(500).map((index) => `c${index}`)
  await ask('mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }', {
    changes: names.map((name, index) => ({ name, delta: index })),
  })
  const ofAll = (fields: string) =>
    ask(`query($names: [String!]!) { counters(names: $names) { __typename id name value ${fields} } }`, {
      names,
    })
  const { counters } = await ofAll('history(period: HOUR, last: 24) { __typename start end value }')
  const valuesOf = ({ history }: { history: { value: number }[] }) => history.map(({ value }) => value)
  expect(counters.map(valuesOf)).toEqual(names.map((_, index) => [...Array(23).fill(0), index]))
  const totals = (await ofAll('valueIn(period: MONTH) createdAt updatedAt')).counters
  expect(totals.map(({ valueIn }: { valueIn: number }) => valueIn)).toEqual(names.map((_, index) => index))
  const { counter } = await ask(
    '{ counter(name: "c2") { history(period: HOUR, last: 2160) { start end value } } }',
  )
  expect([counter.history.length, counter.history.at(-1).value]).toEqual([2160, 1])
})

it('limits: bound what one request may read', async () => {
  const { ask, post } = await startService()
  const names = upTo(50).map((index) => `c${index}`)
  const query = (last: number, period: string, fields: string) =>
    `{ counters(names: ${JSON.stringify(names)}) { history(period: ${period}, last: ${last}) { ${fields} } } }`
  const { counters } = await ask(query(290, 'HOUR', 'start end value'))
  expect(counters.flatMap(({ history }: { history: unknown[] }) => history)).toHaveLength(14_500)
  for (const [last, period, fields, limit] of [
    [301, 'HOUR', 'value', 30_000],
    [151, 'HOUR', 'a: value b: value c: value d: value', 30_000],
    [10, 'YEAR', 'value', undefined],
  ] as const) {
    const { body } = await post(JSON.stringify({ query: query(last, period, fields) }))
    const error = { code: 'BAD_USER_INPUT', limit }
    if (limit === undefined) expect(body.errors).toBe(undefined)
    else expect(body.errors?.[0]?.extensions).toEqual(error)
  }
  await ask(
    `mutation { ${names.map((name) => `${name}: defineCounter(name: "${name}", definition: { periods: [{ period: HOUR }] }) { id }`).join(' ')} }`,
  )
  // 50 times 10 years of hours.
  const { body } = await post(JSON.stringify({ query: query(10, 'YEAR', 'value') }))
  expect(body.errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', limit: 30_000 })
})

it.each([
  ['timeZone: "Mars/Olympus"', 'definition.timeZone', undefined],
  ['timeZone: ""', 'definition.timeZone', undefined],
  ['timeZone: "+01:00"', 'definition.timeZone', undefined],
  ['timeZone: "UTC\'; drop table counter; --"', 'definition.timeZone', undefined],
  ['periods: [{ period: DAY }, { period: DAY, keepDays: 3 }]', 'definition.periods.1.period', undefined],
  ['periods: [{ period: DAY, keepDays: 0 }]', 'definition.periods.0.keepDays', 1],
  ['periods: [{ period: DAY, keepDays: 36501 }]', 'definition.periods.0.keepDays', 36_500],
  ['slots: 0', 'definition.slots', 1],
  ['slots: 1025', 'definition.slots', 1024],
  ['slots: 2, maxValue: 5', 'definition.slots', undefined],
])('defineCounter, defineNamespace: refuse %s', async (definition, argument, limit) => {
  const { post, faults } = await startService()
  const isOfNamespace = !definition.includes('slots')
  const fields = [
    `c: defineCounter(name: "c", definition: { ${definition} }) { id }`,
    ...(isOfNamespace ? [`n: defineNamespace(definition: { ${definition} }) { id }`] : []),
  ]
  const { status, body } = await post(JSON.stringify({ query: `mutation { ${fields.join(' ')} }` }))
  expect(status).toBe(200)
  expect(body.errors).toHaveLength(fields.length)
  for (const { extensions } of body.errors ?? []) {
    expect(extensions).toEqual({ code: 'BAD_USER_INPUT', argument, ...(limit !== undefined && { limit }) })
  }
  expect(faults).toEqual([])
})
