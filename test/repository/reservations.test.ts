import { createPool, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { readFree } from '../../src/commit/reservations.ts'
import { upTo } from '../support/client/client.ts'
import { CONFIRM, GAPLESS, KEY, numbersIn, RELEASE, RESERVE } from '../support/client/invoices.ts'
import { filledUp, freshDatabase, query } from '../support/database/database.ts'
import { sessionClocks } from '../support/database/sessionClocks.ts'
import { defaults } from '../support/model/sequenceModel.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const PLACE = { id: 1, periodKey: 0, definition: { ...defaults, gapless: true } }

async function startInvoices() {
  const service = await startService()
  await service.ask(GAPLESS)
  return {
    ...service,
    reserve: async (variables: object = {}) =>
      (await service.ask(RESERVE, { ...variables })).reserveInSequence,
    confirm: async (id: string) => (await service.ask(CONFIRM, { id })).confirmReservation,
    release: async (id: string) => (await service.ask(RELEASE, { id })).releaseReservation,
  }
}

it('reserveInSequence: holds a number until confirmReservation, which can be repeated', async () => {
  const { ask, refusal, reserve, confirm } = await startInvoices()
  const reserved = await reserve({ ttl: 60 })
  expect(reserved).toMatchObject({ value: 1, formatted: 'INV-001', state: 'RESERVED' })
  const left = Date.parse(reserved.expiresAt) - Date.now()
  expect(left).toBeGreaterThan(30_000)
  expect(left).toBeLessThan(70_000)
  const confirmed = await confirm(reserved.id)
  expect(confirmed).toEqual({ ...reserved, state: 'CONFIRMED' })
  expect(await confirm(reserved.id)).toEqual(confirmed)
  expect(await refusal(RELEASE, { id: reserved.id })).toEqual({
    code: 'RESERVATION_CLOSED',
    state: 'CONFIRMED',
  })
  const { node } = await ask('query($id: ID!) { node(id: $id) { id ... on Reservation { state value } } }', {
    id: reserved.id,
  })
  expect(node).toEqual({ id: reserved.id, state: 'CONFIRMED', value: 1 })
})

it('reserveInSequence: issues released and expired numbers first, lowest first, and then continues', async () => {
  const { target, refusal, ask, reserve, confirm, release } = await startInvoices()
  const [one, two, three, four] = [await reserve(), await reserve(), await reserve(), await reserve()]
  expect(await release(three.id)).toEqual({ id: three.id, value: 3, state: 'RELEASED' })
  expect(await release(three.id)).toEqual({ id: three.id, value: 3, state: 'RELEASED' })
  expect(await release(two.id)).toMatchObject({ state: 'RELEASED' })
  const next = '{ sequence(name: "invoice") { group { nextValue lastValue lastFormatted } } }'
  const group = async () => (await ask(next)).sequence.group
  expect(await group()).toEqual({ nextValue: 2, lastValue: 4, lastFormatted: 'INV-004' })
  await query(
    target,
    'update reservation set expires_at = utc_timestamp(3) - interval 1 second where value = 1',
  )
  expect(await group()).toMatchObject({ nextValue: 1 })
  expect(await refusal(CONFIRM, { id: one.id })).toEqual({ code: 'RESERVATION_CLOSED', state: 'EXPIRED' })
  expect(await refusal(RELEASE, { id: one.id })).toEqual({ code: 'RESERVATION_CLOSED', state: 'EXPIRED' })
  expect(await refusal(CONFIRM, { id: two.id })).toEqual({ code: 'RESERVATION_CLOSED', state: 'RELEASED' })
  const again = [await reserve(), await reserve(), await reserve(), await reserve()]
  expect(again.map(({ value }) => value)).toEqual([1, 2, 3, 5])
  // The first holder of a number has no hold on the second's.
  expect(await refusal(CONFIRM, { id: one.id })).toEqual({ code: 'RESERVATION_CLOSED', state: 'EXPIRED' })
  expect(await refusal(CONFIRM, { id: two.id })).toEqual({ code: 'RESERVATION_CLOSED', state: 'RELEASED' })
  for (const { id } of [...again, four]) await confirm(id)
  expect(await numbersIn(target)).toEqual({ confirmed: upTo(5), open: [], free: [] })
  expect(await group()).toMatchObject({ nextValue: 6 })
})

it('reservations: numbers of several groups are reserved, confirmed and released in one flush', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define({ namespace: 'n', name: 's' }, { gapless: true })
  const reserve = (group: string) => sequences.reserve({ namespace: 'n', sequence: 's', group }, 60)
  const [a, b, c] = await Promise.all([reserve('a'), reserve('b'), reserve('c')])
  const closed = await Promise.all([
    sequences.release(a.token),
    sequences.confirm(b.token),
    sequences.release(c.token),
  ])
  expect(closed.map(({ state }) => state)).toEqual(['RELEASED', 'CONFIRMED', 'RELEASED'])
  const again = await Promise.all([reserve('a'), reserve('b'), reserve('c'), reserve('c')])
  expect(again.map(({ value }) => value)).toEqual([1, 2, 1, 2])
})

it('reserveInSequence: reissues what is released in one flush lowest first, also to those who reserve in it', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define({ namespace: 'default', name: 'invoice' }, { gapless: true })
  const reserve = () => sequences.reserve(KEY, 60)
  const drafts = await Promise.all(upTo(5).map(reserve))
  const tokens = [4, 2, 5].map((value) => drafts[value - 1]?.token ?? '')
  const released = tokens.map((token) => sequences.release(token))
  // Each release reads its reservation first, together with this read, so that all of these go into one flush.
  const reserved = sequences.reservation(tokens[0] ?? '').then(() => Promise.all(upTo(2).map(reserve)))
  const [again] = await Promise.all([reserved, ...released])
  expect(again.map(({ value }) => value)).toEqual([2, 4])
  expect((await sequences.readSequenceGroup(KEY)).nextValue).toBe(5)
  expect([(await reserve()).value, (await reserve()).value]).toEqual([5, 6])
})

it.each([
  ['a millisecond before', -1, 'RESERVED', 2],
  ['at', 0, 'EXPIRED', 1],
])(
  'reservations: all calls judge alike whether one has expired, %s its instant',
  async (_, byMs, state, next) => {
    const [clock = expect.fail('There is one')] = sessionClocks(1, Date.parse('2027-02-28T12:00:00.250Z'))
    const { sequences } = openTestNth(clock.of(await freshDatabase()))
    await sequences.define({ namespace: 'default', name: 'invoice' }, { gapless: true })
    const { token, expiresAt } = await sequences.reserve(KEY, 60)
    clock.at = expiresAt + byMs
    expect((await sequences.reservation(token))?.state).toBe(state)
    expect((await sequences.readSequenceGroup(KEY)).nextValue).toBe(next)
    const confirmed = await sequences.confirm(token).catch(({ details }) => details)
    expect(confirmed.state).toBe(state === 'EXPIRED' ? 'EXPIRED' : 'CONFIRMED')
    expect((await sequences.reserve(KEY, 60)).value).toBe(next)
  },
)

it('reserveInSequence(idempotencyKey:): makes one reservation, and returns its present state to a repeat', async () => {
  const { target, refusal, reserve, confirm } = await startInvoices()
  const first = await reserve({ key: 'k' })
  expect(await reserve({ key: 'k' })).toEqual(first)
  const together = await Promise.all(upTo(20).map(() => reserve({ key: 'other' })))
  expect(new Set(together.map(({ id }) => id)).size).toBe(1)
  await confirm(first.id)
  expect(await reserve({ key: 'k' })).toEqual({ ...first, state: 'CONFIRMED' })
  expect(await refusal(RESERVE, { key: 'k', ttl: 5 })).toEqual({ code: 'IDEMPOTENCY_KEY_REUSED' })
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [2], free: [] })
})

it('reservations: show the group of their number, so that clients keep it up to date', async () => {
  const { ask, reserve } = await startInvoices()
  const { id } = await reserve()
  const GROUP = 'group { id name lastValue lastFormatted nextValue nextFormatted }'
  const { sequence } = await ask(`{ sequence(name: "invoice") { ${GROUP} } }`)
  expect(sequence.group).toMatchObject({ lastFormatted: 'INV-001', nextValue: 2, nextFormatted: 'INV-002' })
  const { releaseReservation } = await ask(
    `mutation($id: ID!) { releaseReservation(id: $id) { ${GROUP} } }`,
    { id },
  )
  expect(releaseReservation.group).toEqual({ ...sequence.group, nextValue: 1, nextFormatted: 'INV-001' })
  const { reserveInSequence } = await ask(`mutation { reserveInSequence(name: "invoice") { ${GROUP} } }`)
  expect(reserveInSequence.group).toEqual(sequence.group)
  const { node } = await ask(`query($id: ID!) { node(id: $id) { ... on Reservation { ${GROUP} } } }`, { id })
  expect(node.group).toEqual(sequence.group)
})

it('reserveInSequence: does not mix with nextInSequence', async () => {
  const { ask, send, refusal } = await startInvoices()
  for (const [call, other] of [
    ['nextInSequence(name: "invoice") { value }', 'reserveInSequence'],
    ['reserveInSequence(name: "ticket") { id }', 'nextInSequence'],
  ]) {
    const { errors: [error] = [] } = await send(`mutation { ${call} }`)
    expect(error?.message).toContain(`Use ${other}`)
    // The name is right.
    expect(error?.extensions).toEqual({ code: 'BAD_USER_INPUT' })
  }
  await ask(RESERVE)
  const plain = 'mutation { defineSequence(name: "invoice", definition: { gapless: false }) { id } }'
  expect(await refusal(plain)).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'definition.gapless' })
  const cycle =
    'mutation { defineSequence(name: "c", definition: { gapless: true, cycle: true, maxValue: 9 }) { id } }'
  expect(await refusal(cycle)).toMatchObject({ code: 'BAD_USER_INPUT', argument: 'definition.gapless' })
})

it.each([
  ['confirmReservation(id: "x") { id }', 'BAD_USER_INPUT', 'id'],
  [
    `confirmReservation(id: "${Buffer.from('Counter:default\nc').toString('base64url')}") { id }`,
    'BAD_USER_INPUT',
    'id',
  ],
  [
    `releaseReservation(id: "${Buffer.from(`Reservation:${'0'.repeat(32)}`).toString('base64url')}") { id }`,
    'NOT_FOUND',
  ],
  ['reserveInSequence(name: "invoice", ttlSeconds: 0) { id }', 'BAD_USER_INPUT', 'ttlSeconds'],
  ['reserveInSequence(name: "invoice", ttlSeconds: 86401) { id }', 'BAD_USER_INPUT', 'ttlSeconds'],
])('reservations: refuses %s', async (field, code, argument?: string) => {
  const { refusal } = await startInvoices()
  expect(await refusal(`mutation { ${field} }`)).toMatchObject({ code, ...(argument && { argument }) })
})

it('reserveInSequence: ends at the highest number, and reissues released numbers', async () => {
  const { ask, refusal, reserve, release } = await startInvoices()
  await ask('mutation { defineSequence(name: "invoice", definition: { maxValue: 2 }) { id } }')
  const [, two] = [await reserve(), await reserve()]
  expect(await refusal(RESERVE)).toEqual({ code: 'SEQUENCE_EXHAUSTED', limit: 2, lastValue: 2 })
  await release(two.id)
  expect(await reserve()).toMatchObject({ value: 2 })
})

it('reserveInSequence: reissues released numbers in descending order for a sequence that counts down', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define({ namespace: 'n', name: 's' }, { gapless: true, startValue: 10, step: -2 })
  const key = { namespace: 'n', sequence: 's', group: '' }
  const held = [
    await sequences.reserve(key, 60),
    await sequences.reserve(key, 60),
    await sequences.reserve(key, 60),
  ]
  expect(held.map(({ value }) => value)).toEqual([10, 8, 6])
  for (const { token } of held.slice(0, 2)) await sequences.release(token)
  expect((await sequences.readSequenceGroup(key)).nextValue).toBe(10)
  const again = [
    await sequences.reserve(key, 60),
    await sequences.reserve(key, 60),
    await sequences.reserve(key, 60),
  ]
  expect(again.map(({ value }) => value)).toEqual([10, 8, 4])
})

it('defineSequence: refuses to reverse a gapless sequence, as released numbers would then be issued twice', async () => {
  const { ask, refusal } = await startInvoices()
  await ask(RESERVE)
  const reversal =
    'mutation { defineSequence(name: "invoice", definition: { step: -1, format: "B{value}" }) { id } }'
  expect(await refusal(reversal)).toEqual({ code: 'BAD_USER_INPUT', argument: 'definition.step' })
})

it('reserveInSequence: issues nothing beyond its bounds, not even a released number', async () => {
  const { ask, refusal, target, reserve, release } = await startInvoices()
  const held = [await reserve(), await reserve(), await reserve(), await reserve()]
  await query(target, 'update reservation set expires_at = utc_timestamp(3) where value = 4')
  await ask(
    'mutation { defineSequence(name: "invoice", definition: { minValue: 2, startValue: 2, maxValue: 3 }) { id } }',
  )
  for (const { id } of held.slice(0, 2)) await release(id)
  const { sequence } = await ask('{ sequence(name: "invoice") { group { nextValue } } }')
  expect(sequence.group.nextValue).toBe(2)
  expect((await reserve()).value).toBe(2)
  expect(await refusal(RESERVE)).toEqual({ code: 'SEQUENCE_EXHAUSTED', limit: 3, lastValue: 4 })
})

it('reserveInSequence: reads few of 20 000 reservations to find the lowest that has expired, or that none has', async () => {
  const target = await freshDatabase({ isReused: false })
  const { sequences } = openTestNth(target)
  await sequences.define({ namespace: 'default', name: 'invoice' }, { gapless: true })
  await sequences.reserve(KEY, 60)
  await query(
    target,
    ...filledUp(20_000),
    `insert into reservation (token, group_id, period_key, generation, value, formatted, expires_at)
     select unhex(lpad(hex(n), 32, '0')), 1, 0, 0, n + 1, n, utc_timestamp(3) from filled`,
    'drop table filled',
    'update sequence_value set value = 20001',
    'analyze table reservation, sequence_value',
  )
  const connection = await createPool(target).getConnection()
  onTestFinished(() => connection.destroy())
  const reads = async () => {
    let sum = 0
    for (const statement of [...readFree(PLACE, 3), ...readFree(PLACE, 1, '')]) {
      await connection.query('flush status')
      const [rows] = await connection.query<RowDataPacket[]>(statement)
      expect(rows.every(({ value }) => value < 5)).toBe(true)
      const [status] = await connection.query<RowDataPacket[]>("show session status like 'Handler_read%'")
      sum += status.reduce((all, { Value }) => all + Number(Value), 0)
    }
    return sum < 200 ? 'few' : sum
  }
  expect(await reads()).toBe('few')
  await query(target, 'update reservation set expires_at = utc_timestamp(3) + interval 1 hour')
  expect(await reads()).toBe('few')
  await query(target, 'update reservation set expires_at = utc_timestamp(3) where value > 1')
  expect((await sequences.reserve(KEY, 60)).value).toBe(2)
  expect((await sequences.readSequenceGroup(KEY)).nextValue).toBe(3)
  await sequences.restart(KEY, 50_000)
  expect((await sequences.readSequenceGroup(KEY)).nextValue).toBe(50_000)
  expect((await sequences.reserve(KEY, 60)).value).toBe(50_000)
})
