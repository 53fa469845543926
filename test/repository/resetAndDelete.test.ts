import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { stopClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const key = { namespace: 'n', name: 'c' }

it('resetAll: resets every counter of a namespace, or those of a prefix, and leaves alone what the value does not fit', async () => {
  const { ask } = await startService()
  await ask(`mutation {
    a: incrementMany(changes: [{ name: "2026-a" }, { name: "2026-b", delta: 2 }, { name: "2025-a", delta: 3 }]) { value }
    b: increment(name: "2026-a", namespace: "other") { value }
    c: reset(name: "2026-min", to: 9) { value }
    d: defineCounter(name: "2026-min", definition: { minValue: 5 }) { value }
  }`)
  const RESET =
    'mutation($prefix: String! = "", $to: SafeInt! = 0) { resetAll(namespace: "default", prefix: $prefix, to: $to) { resetCount refusedCount } }'
  const values = async () =>
    (await ask('{ counters(names: ["2026-a", "2026-b", "2025-a", "2026-min"]) { value } }')).counters.map(
      ({ value }: { value: number }) => value,
    )
  expect((await ask(RESET, { prefix: '2026-' })).resetAll).toEqual({ resetCount: 2, refusedCount: 1 })
  expect(await values()).toEqual([0, 0, 3, 9])
  expect((await ask(RESET, { to: 7 })).resetAll).toEqual({ resetCount: 4, refusedCount: 0 })
  expect(await values()).toEqual([7, 7, 7, 7])
  expect((await ask(RESET, { prefix: 'none' })).resetAll).toEqual({ resetCount: 0, refusedCount: 0 })
  expect(await ask('{ counter(name: "2026-a", namespace: "other") { value } }')).toEqual({
    counter: { value: 1 },
  })
})

it.each([
  ['no namespace', 'resetAll { resetCount }', undefined],
  ['an empty namespace', 'resetAll(namespace: "") { resetCount }', 'namespace'],
  ['a prefix with a control character', 'resetAll(namespace: "n", prefix: "\\n") { resetCount }', 'prefix'],
  ['a fraction', 'resetAll(namespace: "n", to: 1.5) { resetCount }', 'to'],
])('resetAll: refuses %s', async (_, call, argument) => {
  const { refusal } = await startService()
  expect(await refusal(`mutation { ${call} }`)).toEqual(
    argument ? { code: 'BAD_USER_INPUT', argument } : { code: 'GRAPHQL_VALIDATION_FAILED' },
  )
})

it('resetAll: resets thousands in batches of 500, while others go on counting', async () => {
  const { counters } = openTestNth(await freshDatabase())
  for (const round of upTo(3)) {
    await counters.incrementMany(
      'n',
      upTo(700).map((index) => ({ name: `c${round} ${index}`, delta: index })),
    )
  }
  const statements = collectStatements()
  let isOver = false
  let counted = 0
  const counting = (async () => {
    for (; !isOver; counted++) await counters.incrementBy({ namespace: 'other', name: 'busy' }, 1)
  })()
  expect(await counters.resetAll('n', '', 1)).toEqual({ resetCount: 2100, refusedCount: 0 })
  isOver = true
  await counting
  expect(counted).toBeGreaterThan(0)
  const locked = statements.flatMap((text) =>
    [...text.matchAll(/ in \(([\d, ]+)\)/g)].map(([, ids = '']) => ids.split(',').length),
  )
  // The busy one may be among them.
  expect(Math.max(...locked)).toBeLessThanOrEqual(501)
  const names = upTo(3).flatMap((round) =>
    upTo(700).map((index) => ({ namespace: 'n', name: `c${round} ${index}` })),
  )
  expect(new Set((await counters.readMany(names)).map(({ value }) => value))).toEqual(new Set([1]))
})

it('resetAll: reports how far it came when the database fails', { tags: 'slow' }, async () => {
  const target = await freshDatabase()
  await openTestNth(target).counters.incrementMany(
    'n',
    upTo(600).map((index) => ({ name: `c${index}`, delta: 1 })),
  )
  let isReset = false
  const proxied = await startProxy(target, (statement) => {
    if (isReset) return 'is cut off'
    isReset = /= 7\b/.test(statement)
    return 'passes'
  })
  const { counters } = openTestNth(proxied, { timeoutMs: 4000 })
  await expect(counters.resetAll('n', '', 7)).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('500 counters were reset'),
  })
})

it('resetAll: leaves a counter deleted that is deleted meanwhile', async () => {
  const target = await freshDatabase()
  const { counters: other } = openTestNth(target)
  await other.incrementMany(
    'n',
    ['a', 'gone'].map((name) => ({ name, delta: 5 })),
  )
  // It is deleted between the listing of a batch and its reset.
  const proxied = await startProxy(target, async (statement) => {
    if (/c\.version, .*where n\.name/s.test(statement)) await other.delete({ namespace: 'n', name: 'gone' })
    return 'passes' as const
  })
  const { counters } = openTestNth(proxied)
  expect(await counters.resetAll('n', '', 1)).toEqual({ resetCount: 1, refusedCount: 0 })
  expect(await query(target, 'select count(*) as n from counter')).toEqual([{ n: 1 }])
  expect(await other.read({ namespace: 'n', name: 'gone' })).toMatchObject({ value: 0, createdAt: null })
})

it('resetAll: resets all others when one cannot be, and says so', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementMany(
    'n',
    upTo(600).map((index) => ({ name: `c${index}`, delta: 5 })),
  )
  const [{ id } = { id: 0 }] = await query(target, "select id from counter where name = x'6335'")
  await query(
    target,
    `create trigger refuse before update on counter_value for each row
     if new.counter_id = ${id} then signal sqlstate '45000' set message_text = 'no'; end if`,
  )
  await expect(counters.resetAll('n', '', 1)).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('599 counters were reset'),
  })
  expect(
    (await query(target, 'select value, count(*) as n from counter_value group by value order by value')).map(
      ({ value, n }) => [value, n],
    ),
  ).toEqual([
    [1, 599],
    [5, 1],
  ])
})

it('deleteCounter: forgets a counter: its value, its definition, and its place in lists', async () => {
  const { ask, target } = await startService()
  await ask(`mutation {
    reset(name: "c", to: 5) { value }
    defineCounter(name: "c", definition: { maxValue: 9 }) { value }
    increment(name: "d") { value }
  }`)
  const { counter: before } = await ask('{ counter(name: "c") { id } }')
  await ask('{ namespace { counters(orderBy: VALUE_DESC) { nodes { name } } } }')
  const { deleteCounter } = await ask(`mutation {
    deleteCounter(name: "c") { value previousValue appliedDelta replayed valueIn(period: DAY) counter { id value maxValue createdAt updatedAt } }
  }`)
  const forgotten = { id: before.id, value: 0, maxValue: null, createdAt: null, updatedAt: null }
  expect(deleteCounter).toEqual({
    value: 0,
    previousValue: 5,
    appliedDelta: null,
    replayed: false,
    valueIn: null,
    counter: forgotten,
  })
  expect((await ask('{ counter(name: "c") { id value maxValue createdAt updatedAt } }')).counter).toEqual(
    forgotten,
  )
  for (const order of ['NAME_ASC', 'VALUE_DESC', 'VALUE_ASC', 'UPDATED_AT_DESC']) {
    const { namespace } = await ask(`{ namespace { counters(orderBy: ${order}) { nodes { name } } } }`)
    expect(namespace.counters.nodes).toEqual([{ name: 'd' }])
  }
  expect(
    (await ask('mutation { incrementBy(name: "c", delta: 50) { value previousValue } }')).incrementBy,
  ).toEqual({ value: 50, previousValue: 0 })
  expect((await ask('mutation { a: deleteCounter(name: "none") { value previousValue } }')).a).toEqual({
    value: 0,
    previousValue: 0,
  })
  const { namespace } = await ask('{ namespace { counters(orderBy: VALUE_DESC) { nodes { name } } } }')
  expect(namespace.counters.nodes).toEqual([{ name: 'c' }, { name: 'd' }])
  for (const table of ['counter', 'counter_value', 'leaderboard']) {
    expect(await query(target, `select count(*) as rows_left from ${table}`)).toEqual([{ rows_left: 2 }])
  }
})

it('deleteCounter: what is in flight lands before it or counts from zero, under load of two processes', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  let isOver = false
  let counted = 0
  const callers = upTo(16).map(async (caller) => {
    for (; !isOver; counted++) await processes[caller % 2]?.counters.incrementBy(key, 1)
  })
  let forgotten = 0
  for (const round of upTo(60))
    forgotten += (await processes[round % 2]?.counters.delete(key))?.previousValue ?? 0
  isOver = true
  await Promise.all(callers)
  const left = await processes[0]?.counters.read(key)
  expect(forgotten + (left?.value ?? 0)).toBe(counted)
  expect(processes.flatMap(({ faults }) => faults)).toEqual([])
  expect((await query(target, 'select count(*) as n from counter'))[0]?.n).toBeLessThanOrEqual(1)
})
