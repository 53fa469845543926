import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { type Service, startService } from '../support/server/service.ts'

const FIELDS = '{ id state expiresAt deltas { delta counter { name value held } } }'
const CHANGE = '{ value previousValue appliedDelta replayed counter { value held } }'

/** A shop with a counter `c`. */
async function startShop(definition = '{ maxValue: 3 }') {
  const service = await startService()
  await service.ask(`mutation { defineCounter(name: "c", definition: ${definition}) { name } }`)
  const holding = (changes: string, rest = '') => `mutation { hold(changes: ${changes} ${rest}) ${FIELDS} }`
  const confirming = (id: string, rest = '') => `mutation { confirmHold(id: "${id}" ${rest}) ${CHANGE} }`
  return {
    ...service,
    holding,
    confirming,
    hold: async (delta: number, rest = '') =>
      (await service.ask(holding(`[{ name: "c", delta: ${delta} }]`, rest))).hold,
    refused: (delta: number) => service.refusal(holding(`[{ name: "c", delta: ${delta} }]`)),
    confirm: async (id: string, rest = '') => (await service.ask(confirming(id, rest))).confirmHold,
    state: async () =>
      (await service.ask('{ counter(name: "c") { value held heldDown holds { nodes { id } } } }')).counter,
    stateOf: async (id: string) =>
      (await service.ask(`{ node(id: "${id}") { ... on Hold { state } } }`)).node?.state,
    add: (delta: number) => `mutation { incrementBy(name: "c", delta: ${delta}) { value } }`,
    /** As if the database's clock went on: everything that holds have lies further back. */
    pass: (seconds: number) => pass(service, seconds),
  }
}

async function pass({ target }: Service, seconds: number): Promise<void> {
  const ms = 1000 * seconds
  await query(
    target,
    `update hold set open_until = open_until - ${ms}, expires_at = expires_at - ${ms}, latest = latest - ${ms}`,
    `update counter_value set first_expiry = first_expiry - ${ms}, held_at = greatest(0, held_at - ${ms})`,
  )
}

it('hold: takes what is held out of what a bound leaves, counts it when it is confirmed, and gives it back', async () => {
  const { ask, refusal, hold, refused, confirm, state, add } = await startShop()
  const { id, ...held } = await hold(2)
  expect(held).toEqual({
    state: 'RESERVED',
    expiresAt: expect.any(String),
    deltas: [{ delta: 2, counter: { name: 'c', value: 0, held: 2 } }],
  })
  expect(await state()).toEqual({ value: 0, held: 2, heldDown: 0, holds: { nodes: [{ id }] } })
  const allButOne = { code: 'LIMIT_REACHED', limit: 3, value: 0, held: 2 }
  expect(await refused(2)).toEqual({ ...allButOne, index: 0 })
  expect(await refusal(add(2))).toEqual(allButOne)
  expect(await refusal('mutation { reset(name: "c", to: 2) { value } }')).toEqual(allButOne)
  expect(await ask('mutation { resetAll(namespace: "default", to: 2) { resetCount refusedCount } }')).toEqual(
    {
      resetAll: { resetCount: 0, refusedCount: 1 },
    },
  )
  const other = await hold(1)
  expect(await refusal(add(1))).toMatchObject({ held: 3 })
  expect(await confirm(id)).toEqual([
    { value: 2, previousValue: 0, appliedDelta: 2, replayed: false, counter: { value: 2, held: 1 } },
  ])
  await ask(`mutation { releaseHold(id: "${other.id}") { state } }`)
  expect(await state()).toEqual({ value: 2, held: 0, heldDown: 0, holds: { nodes: [] } })
  expect((await ask(add(1))).incrementBy).toEqual({ value: 3 })
  // Sold out, which is not the same as paid for by somebody.
  expect(await refused(1)).toEqual({ code: 'LIMIT_REACHED', limit: 3, value: 3, index: 0 })
})

it('confirmHold: returns the first result again, and no other', async () => {
  const { refusal, hold, confirm, confirming, ask, stateOf } = await startShop()
  const { id } = await hold(2)
  const [first] = await confirm(id)
  await ask('mutation { increment(name: "c") { value } }')
  const repeated = { ...first, replayed: true, counter: { value: 3, held: 0 } }
  expect(await confirm(id)).toEqual([repeated])
  expect(await confirm(id, 'changes: [{ name: "c", delta: 2 }]')).toEqual([repeated])
  const closed = { code: 'RESERVATION_CLOSED', state: 'CONFIRMED' }
  expect(await refusal(confirming(id, 'changes: [{ name: "c", delta: 1 }]'))).toEqual(closed)
  expect(await refusal(`mutation { releaseHold(id: "${id}") { state } }`)).toEqual(closed)
  expect(await refusal(`mutation { extendHold(id: "${id}") { state } }`)).toEqual(closed)
  expect(await stateOf(id)).toBe('CONFIRMED')
})

it('confirmHold: confirms nothing that was released, open or expired; releaseHold can be repeated', async () => {
  const { refusal, hold, confirming, ask, pass } = await startShop()
  for (const seconds of [0, 11]) {
    const { id } = await hold(2, 'ttlSeconds: 10')
    await pass(seconds)
    const release = `mutation { releaseHold(id: "${id}") { state } }`
    for (const _ of upTo(2)) expect(await ask(release)).toEqual({ releaseHold: { state: 'RELEASED' } })
    expect(await refusal(confirming(id))).toEqual({ code: 'RESERVATION_CLOSED', state: 'RELEASED' })
  }
})

it('confirmHold: counts another amount, or nothing, and gives the rest back', async () => {
  const { ask, hold, confirm, state } = await startShop('{ maxValue: 10 }')
  const [a, b] = [await hold(4), await hold(3)]
  expect(await confirm(a.id, 'changes: [{ name: "c", delta: 1 }]')).toMatchObject([{ appliedDelta: 1 }])
  expect(await state()).toMatchObject({ value: 1, held: 3 })
  const { updatedAt } = (await ask('{ counter(name: "c") { updatedAt } }')).counter
  expect(await confirm(b.id, 'changes: [{ name: "c", delta: 0 }]')).toMatchObject([{ appliedDelta: 0 }])
  // Nothing was added: it changed only what is held.
  expect((await ask('{ counter(name: "c") { updatedAt held } }')).counter).toEqual({ updatedAt, held: 0 })
})

it('hold: holds the sum of changes to the same counter, at the last seat too, and refuses a sum of nothing', async () => {
  const { ask, refusal, holding, hold, confirm } = await startShop()
  await hold(1)
  const twice = '[{ name: "c" }, { name: "other" }, { name: "c" }]'
  const { id, deltas } = (await ask(holding(twice))).hold
  expect(deltas.map(({ delta }: { delta: number }) => delta)).toEqual([2, 1])
  const more = '[{ name: "other" }, { name: "c" }, { name: "c" }]'
  expect(await refusal(holding(more))).toMatchObject({ code: 'LIMIT_REACHED', index: 1, held: 3 })
  const split = 'changes: [{ name: "c" }, { name: "c" }, { name: "other" }]'
  expect(await confirm(id, split)).toMatchObject([{ value: 2 }, { value: 1 }])
  for (const changes of ['[{ name: "c", delta: 0 }]', '[{ name: "c", delta: 1 }, { name: "c", delta: -1 }]'])
    expect(await refusal(holding(changes))).toMatchObject({
      code: 'BAD_USER_INPUT',
      argument: 'changes.0.delta',
    })
})

it('held: gives back what has expired, in reads without traffic; confirmHold counts it later only if there is room', async () => {
  const { ask, refusal, hold, confirm, confirming, state, stateOf, pass } = await startShop()
  const [a, b] = [await hold(2, 'ttlSeconds: 10'), await hold(1, 'ttlSeconds: 100')]
  await pass(11)
  expect(await state()).toMatchObject({ value: 0, held: 1, holds: { nodes: [{ id: b.id }] } })
  const list = '{ namespace { counters { nodes { held } } } }'
  expect(await ask(list)).toEqual({ namespace: { counters: { nodes: [{ held: 1 }] } } })
  expect([await stateOf(a.id), await stateOf(b.id)]).toEqual(['EXPIRED', 'RESERVED'])
  expect(await refusal(`mutation { extendHold(id: "${a.id}") { state } }`)).toEqual({
    code: 'RESERVATION_CLOSED',
    state: 'EXPIRED',
  })
  // Nobody has taken its place.
  expect(await confirm(a.id)).toMatchObject([{ value: 2 }])
  await pass(100)
  await ask('mutation { increment(name: "c") { value } }')
  expect(await refusal(confirming(b.id))).toEqual({
    code: 'RESERVATION_CLOSED',
    state: 'EXPIRED',
    limit: 3,
    value: 3,
    left: 0,
  })
  await ask('mutation { incrementBy(name: "c", delta: -1) { value } }')
  expect(await confirm(b.id)).toMatchObject([{ value: 3 }])
  expect(await state()).toMatchObject({ value: 3, held: 0 })
})

it('limits: show what is held of them, which saturated additions leave', async () => {
  const { ask, hold, add } = await startShop('{ maxIn: [{ period: DAY, max: 5 }], overflow: SATURATE }')
  await hold(2)
  expect(await ask('{ counter(name: "c") { limits { max used held } } }')).toEqual({
    counter: { limits: [{ max: 5, used: 0, held: 2 }] },
  })
  expect((await ask(add(9))).incrementBy).toEqual({ value: 3 })
})

it('confirmHold: counts of an expired hold what is left where the counter saturates, but not nothing', async () => {
  const { ask, refusal, hold, confirm, confirming, pass, add } = await startShop(
    '{ maxValue: 3, overflow: SATURATE }',
  )
  const [a, b] = [await hold(2, 'ttlSeconds: 10'), await hold(1, 'ttlSeconds: 10')]
  await pass(11)
  await ask(add(2))
  expect(await confirm(a.id)).toMatchObject([{ value: 3, appliedDelta: 1 }])
  expect(await refusal(confirming(b.id))).toMatchObject({ state: 'EXPIRED', left: 0 })
})

it('hold(idempotencyKey:): returns the same hold, in its present state, and extends nothing', async () => {
  const { ask, refusal, holding, state, pass } = await startShop()
  const request = holding('[{ name: "c", delta: 2 }]', 'ttlSeconds: 100, idempotencyKey: "k"')
  const first = (await ask(request)).hold
  await pass(1)
  const again = (await ask(request)).hold
  expect(again.id).toBe(first.id)
  expect(Date.parse(first.expiresAt) - Date.parse(again.expiresAt)).toBe(1000)
  expect(await state()).toMatchObject({ held: 2 })
  await pass(100)
  expect((await ask(request)).hold).toMatchObject({ id: first.id, state: 'EXPIRED' })
  const other = holding('[{ name: "c", delta: 1 }]', 'ttlSeconds: 100, idempotencyKey: "k"')
  expect(await refusal(other)).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED' })
})

it('extendHold: extends an open hold, to a day after it was made at most', async () => {
  const { ask, hold, pass, state } = await startShop()
  const { id, expiresAt } = await hold(1, 'ttlSeconds: 60')
  const extend = async (seconds: number) =>
    Date.parse(
      (await ask(`mutation { extendHold(id: "${id}", ttlSeconds: ${seconds}) { expiresAt } }`)).extendHold
        .expiresAt,
    )
  const extended = await extend(86_400)
  expect(extended - Date.parse(expiresAt)).toBe(86_340_000)
  await pass(80_000)
  expect(await extend(86_400)).toBe(extended - 80_000_000)
  // Also to an earlier time.
  await extend(10)
  await pass(11)
  expect(await state()).toMatchObject({ held: 0 })
})

it.each([
  ['an id of something else', 'mutation { confirmHold(id: "Q291bnRlcjpkZWZhdWx0CmM") { value } }', 'id'],
  [
    'a counter that is not held',
    'mutation { confirmHold(id: "@", changes: [{ name: "x" }]) { value } }',
    'changes.0.name',
  ],
  ['no changes', 'mutation { hold(changes: []) { id } }', 'changes'],
  ['no changes of a confirmation', 'mutation { confirmHold(id: "@", changes: []) { value } }', 'changes'],
  ['no time', 'mutation { hold(changes: [{ name: "c" }], ttlSeconds: 0) { id } }', 'ttlSeconds'],
  ['more than a day', 'mutation { extendHold(id: "@", ttlSeconds: 86401) { id } }', 'ttlSeconds'],
  [
    'a sum beyond SafeInt',
    'mutation { hold(changes: [{ name: "x", delta: 9007199254740991 }, { name: "x" }]) { id } }',
    'changes.1.delta',
  ],
])('holds: refuses %s', async (_, query, argument) => {
  const { refusal, hold } = await startShop()
  const { id } = await hold(1)
  expect(await refusal(query.replace('@', id))).toMatchObject({ code: 'BAD_USER_INPUT', argument })
})

it('hold: refuses counters with slots, and more than a SafeInt in all', async () => {
  const { ask, refusal, holding } = await startShop()
  await ask('mutation { defineCounter(name: "s", definition: { slots: 2 }) { name } }')
  expect(await refusal(holding('[{ name: "s" }]'))).toMatchObject({ code: 'BAD_USER_INPUT' })
  await ask(holding('[{ name: "big", delta: 9007199254740991 }]'))
  expect(await refusal(holding('[{ name: "big" }]'))).toMatchObject({ code: 'OUT_OF_RANGE', index: 0 })
  // A counter that was held has no slots.
  expect(
    await refusal('mutation { defineCounter(name: "big", definition: { slots: 2 }) { name } }'),
  ).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'definition.slots' })
})

it('holds: lists open holds in pages, in the order in which they expire', async () => {
  const { ask, hold } = await startShop('{}')
  const ids: string[] = []
  for (const seconds of [300, 100, 200]) ids.push((await hold(1, `ttlSeconds: ${seconds}`)).id)
  const page = async (rest: string) =>
    (
      await ask(
        `{ counter(name: "c") { holds(${rest}) { nodes { id } pageInfo { endCursor hasNextPage } } } }`,
      )
    ).counter.holds
  const first = await page('first: 2')
  expect(first.nodes).toEqual([{ id: ids[1] }, { id: ids[2] }])
  const next = await page(`first: 2, after: "${first.pageInfo.endCursor}"`)
  expect(next).toMatchObject({ nodes: [{ id: ids[0] }], pageInfo: { hasNextPage: false } })
  expect((await page('last: 1')).nodes).toEqual([{ id: ids[0] }])
})

it('confirmHold: is refused beyond the range of numbers, and works once there is room', async () => {
  const { counters, holds } = openTestNth(await freshDatabase())
  const key = { namespace: 'n', name: 'c' }
  await counters.reset(key, Number.MAX_SAFE_INTEGER - 1)
  const { token } = await holds.hold('n', [{ name: 'c', delta: 1 }], { ttlMs: 60_000, longestMs: 60_000 })
  await counters.reset(key, Number.MAX_SAFE_INTEGER)
  const confirm = async () => holds.confirm(await holds.read(token))
  await expect(confirm()).rejects.toMatchObject({ code: 'OUT_OF_RANGE' })
  await counters.reset(key, 5)
  expect(await confirm()).toMatchObject([{ value: 6 }])
})
