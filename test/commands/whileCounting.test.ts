// @module-tag random
import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { freshDatabase } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'
import { counterLine, entriesIn, exported, fileWith, imported } from '../support/server/transfer.ts'

stopClock()

const inDefault = (name: string) => ({ namespace: 'default', name })

it('nth export: is a consistent snapshot while callers count: counters that are equal at each commit are equal in it', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target)
  // Pages lie between the two counters of a cart.
  for (const side of ['a', 'b']) {
    const lines = [
      ...upTo(40).map((cart) => counterLine(`cart ${cart} ${side}`, 0)),
      ...upTo(8000).map((n) => counterLine(`filler ${side} ${n}`, 0)),
    ]
    expect((await imported(target, fileWith(lines))).code).toBe(0)
  }
  const carts = upTo(40).map((cart) => [`cart ${cart} a`, `cart ${cart} b`])
  let calls = 0
  const load = startLoad(16, async (caller) => {
    const cart = carts[(caller * 7 + calls++) % carts.length] ?? []
    const changes = cart.map((name) => ({ name, delta: 1 }))
    const [change] = await counters.incrementMany('default', changes)
    if (caller === 1) await sequences.next({ namespace: 'default', sequence: 's', group: '' }, 1)
    return change?.value ?? 0
  })
  for (const _ of upTo(runSize(2, 4))) {
    await load.afterMore(200)
    const lines = entriesIn(await exported(target))
    const values = new Map(lines.map(({ name, value, history }) => [String(name), { value, history }]))
    for (const [a = '', b = ''] of carts) expect(values.get(a)).toEqual(values.get(b))
    const total = (name: string) => {
      const { history } = values.get(name) ?? {}
      return ((history as Record<string, [string, number][]>)?.DAY ?? []).reduce((sum, [, n]) => sum + n, 0)
    }
    for (const [a = ''] of carts) if (values.has(a)) expect(total(a)).toBe(values.get(a)?.value)
  }
  await load.end()
  expect(load.refused).toEqual([])
})

it('nth import: issues no number twice while it imports the history of the same counter', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.define(inDefault('slots'), { slots: 3 })
  const others = upTo(400).map((n) => `c${n}`)
  const load = startLoad(16, async () => {
    await counters.incrementBy(inDefault('slots'), 1)
    return (await counters.incrementBy(inDefault('hot'), 1)).value
  })
  for (const round of upTo(8)) {
    await load.afterMore(100)
    const history = { DAY: [['2026-10-01T00:00:00Z', round]] }
    const lines = [...others, 'hot', 'slots'].map((name) => counterLine(name, round, { history }))
    expect((await imported(target, fileWith(lines))).code).toBe(0)
  }
  await load.end()
  expect(load.refused).toEqual([])
  expect(new Set(load.answered).size).toBe(load.answered.length)
  // There may be more than a call takes as arguments.
  const last = load.answered.reduce((most, value) => Math.max(most, value), 0)
  for (const name of ['hot', 'slots']) {
    const counter = await counters.read(inDefault(name))
    const { value } = counter
    const today = await counters.valueIn(counter, 'DAY')
    // An import of other days moves the running one, and loses nothing of it.
    expect([name, value, today]).toEqual([name, last, last])
  }
})

it('nth import: loses nothing that others count while it imports, and both see what was imported at once', async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target)
  const names = upTo(60).map((number) => `c${number}`)
  const sequenceKey = { namespace: 'default', sequence: 's', group: 'g' }
  const added = new Map<string, number>()
  const issued: number[] = []
  let calls = 0
  const load = startLoad(16, async (caller) => {
    const name = names[(caller * 11 + calls++) % names.length] ?? ''
    const { value } = await counters.incrementBy(inDefault(name), 1)
    added.set(name, (added.get(name) ?? 0) + 1)
    if (caller === 2) issued.push((await sequences.next(sequenceKey, 1)).issued.value)
    return value
  })
  await load.afterMore(300)
  const base = 1_000_000
  const group = {
    type: 'sequenceGroup',
    ...sequenceKey,
    latest: { period: 0, format: null, timeZone: 'UTC', isCurrent: true },
    periods: [
      { period: 0, lastValue: base, nextValue: null, generation: 0, createdAt: null, updatedAt: null },
    ],
  }
  const file = fileWith([...names.map((name) => counterLine(name, base)), group])
  const first = await imported(target, file)
  expect(first.code).toBe(0)
  const seen = await Promise.all(names.map(async (name) => (await counters.read(inDefault(name))).value))
  expect(Math.min(...seen)).toBeGreaterThanOrEqual(base)
  const marks = new Map(added)
  await load.afterMore(300)
  await imported(target, file)
  await load.afterMore(300)
  await load.end()
  expect(load.refused).toEqual([])
  for (const [index, name] of names.entries()) {
    const { value } = await counters.read(inDefault(name))
    // Nothing since the first import is missing, and the second one added nothing.
    expect(value).toBeGreaterThanOrEqual(base + (added.get(name) ?? 0) - (marks.get(name) ?? 0))
    expect(value).toBeLessThanOrEqual((seen[index] ?? 0) + (added.get(name) ?? 0))
  }
  expect(new Set(issued).size).toBe(issued.length)
  expect(Math.max(...issued)).toBeGreaterThan(base)
})

it('nth import: lets a running server and its caches continue from what was imported', async () => {
  const target = await freshDatabase()
  const { ask, send } = await startService({ target })
  const count = `mutation { increment(name: "a") { value valueIn(period: DAY) } x: increment(name: "b") { value }
    nextInSequence(name: "s", group: "g") { formatted } }`
  await ask(count)
  const before = await ask('{ counter(name: "a") { revision } }')
  const start = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`
  const definition = { ...(counterLine('b', 0).definition as object), maxValue: 30 }
  const group = {
    type: 'sequenceGroup',
    namespace: 'default',
    sequence: 's',
    group: 'g',
    latest: { period: 0, format: null, timeZone: 'UTC', isCurrent: true },
    periods: [{ period: 0, lastValue: 70, nextValue: null, generation: 0, createdAt: null, updatedAt: null }],
  }
  const file = fileWith([
    counterLine('a', 41, { history: { DAY: [[start, 11]] } }),
    counterLine('b', 50),
    counterLine('c', 30, { definition }),
    group,
  ])
  expect((await imported(target, file)).code).toBe(0)
  expect((await ask('{ counter(name: "a") { revision } }')).counter.revision).toBeGreaterThan(
    before.counter.revision,
  )
  expect(await ask('{ counter(name: "a") { value valueIn(period: DAY) } }')).toEqual({
    counter: { value: 41, valueIn: 1 },
  })
  expect(await ask(count)).toEqual({
    increment: { value: 42, valueIn: 2 },
    x: { value: 51 },
    nextInSequence: { formatted: 'g-71' },
  })
  expect((await send('mutation { increment(name: "c") { value } }')).errors?.[0]?.extensions.code).toBe(
    'LIMIT_REACHED',
  )
  expect(await ask('{ namespace { counters(orderBy: VALUE_DESC) { nodes { name value } } } }')).toEqual({
    namespace: {
      counters: {
        nodes: [
          { name: 'b', value: 51 },
          { name: 'a', value: 42 },
          { name: 'c', value: 30 },
        ],
      },
    },
  })
})
