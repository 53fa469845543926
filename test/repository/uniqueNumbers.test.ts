import { expect, it } from 'vitest'
import { migrateAgain } from '../../src/repository/migrate.ts'
import { upTo } from '../support/client/client.ts'
import { CONFIRM, GAPLESS, RELEASE, RESERVE } from '../support/client/invoices.ts'
import { DEFINE, define, KEY, NEXT, next } from '../support/client/sequenceCalls.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const REFUSED_GROUP = { code: 'BAD_USER_INPUT', argument: 'group' }
const RESERVE_IN = 'mutation($group: String!) { reserveInSequence(name: "s", group: $group) { formatted } }'
const group = (name = '') => ({ namespace: 'n', sequence: 's', group: name })

it('nextInSequence: issues numbers to the unnamed group only, if the format does not show the group', async () => {
  const service = await startService()
  await define(service, { format: 'X-{value}' })
  expect((await next(service)).formatted).toBe('X-1')
  expect(await service.refusal(NEXT, { group: 'a' })).toEqual(REFUSED_GROUP)
  await service.ask('mutation { restartSequence(name: "s", group: "b", nextValue: 9) { nextValue } }')
  expect(await service.refusal(NEXT, { group: 'b' })).toEqual(REFUSED_GROUP)
  const groups = await query(service.target, 'select name from sequence_group order by name')
  expect(groups.map(({ name }) => String(name))).toEqual(['', 'b'])
  await define(service, { allowRepeats: true })
  expect((await next(service, { group: 'a' })).formatted).toBe('X-1')
  await define(service, { format: 'Y-{value}', gapless: true }, 'gapless')
  const reservation = RESERVE_IN.replace('"s"', '"gapless"')
  expect(await service.refusal(reservation, { group: 'a' })).toEqual(REFUSED_GROUP)
  expect((await service.ask(reservation, { group: '' })).reserveInSequence.formatted).toBe('Y-1')
})

it('defineSequence: accepts what a program defines at every start, also where an earlier version has let it repeat texts', async () => {
  const target = await freshDatabase()
  const before = openTestNth(target)
  await before.sequences.define(KEY, { format: 'X-{value}', allowRepeats: true })
  await before.sequences.next(group('a'), 1)
  // As earlier versions have it.
  await query(target, 'update sequence set allow_repeats = false')
  await migrateAgain(target, '0009_past_formats.sql')
  const { sequences } = openTestNth(target)
  for (const allowRepeats of [false, null, undefined]) {
    const { definition } = await sequences.define(KEY, { format: 'X-{value}', allowRepeats, maxValue: 100 })
    expect(definition).toMatchObject({ allowRepeats: true, maxValue: 100 })
  }
  expect((await sequences.next(group('b'), 1)).issued.value).toBe(1)
  // A format that shows the group ends it.
  await sequences.define(KEY, { format: 'Y-{group}-{value}', allowRepeats: false })
  const { definition } = await sequences.define(KEY, { allowRepeats: false })
  expect(definition?.allowRepeats).toBe(false)
})

it.each([
  ['X-{value}', '', false],
  ['{{group}}{value}', 'a', true],
  ['{{{group}}}-{value}', 'a', false],
  [null, 'a', false],
])('migrations: the format %s of the group "%s" allows repeats: %s', async (format, name, isMigrated) => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.define(KEY, { format, allowRepeats: true })
  await sequences.next(group(name), 1)
  await query(target, 'update sequence set allow_repeats = false')
  await migrateAgain(target, '0009_past_formats.sql')
  const [row] = await query(target, 'select allow_repeats, migrated_repeats from sequence')
  expect(row).toEqual({ allow_repeats: Number(isMigrated), migrated_repeats: Number(isMigrated) })
})

it('defineSequence: reads the formats that earlier versions have noted, and adds none there', async () => {
  const service = await startService()
  await define(service, { format: 'INV-{value}' })
  await next(service)
  const past = { restartEvery: null, isDescending: false, isSigned: false, isMixed: false }
  const groups = { isNamed: false, isUnnamed: true }
  const noted = JSON.stringify([{ format: 'RE{value}', ...past, groups }])
  await query(service.target, `update sequence set format_history = '${noted}'`)
  const definition = { format: 'RE{value:3}' }
  expect(await service.refusal(DEFINE, { definition })).toMatchObject({ argument: 'definition.format' })
  await define(service, { format: 'N-{value}' })
  const [row] = await query(service.target, 'select format_history, past_formats from sequence')
  expect(String(row?.format_history)).toBe(noted)
  expect(JSON.parse(String(row?.past_formats))).toEqual(['RE#', 'INV-#'])
})

const RESTART = 'mutation($at: SafeInt!) { restartSequence(name: "invoice", nextValue: $at) { nextValue } }'

it('restartSequence: closes the reservations of a group that is restarted, so that no number is confirmed twice', async () => {
  const { ask, refusal } = await startService()
  await ask(GAPLESS)
  const reserve = async () => (await ask(RESERVE)).reserveInSequence
  const drafts = [await reserve(), await reserve(), await reserve()]
  await ask(RELEASE, { id: drafts[2].id })
  await ask(RESTART, { at: 1 })
  const closed = { code: 'RESERVATION_CLOSED', state: 'EXPIRED' }
  const again = [await reserve(), await reserve()]
  expect(again.map(({ value }) => value)).toEqual([1, 2])
  for (const { id } of drafts.slice(0, 2)) {
    expect(await refusal(CONFIRM, { id })).toEqual(closed)
    expect(await refusal(RELEASE, { id })).toEqual(closed)
    const { node } = await ask('query($id: ID!) { node(id: $id) { ... on Reservation { state } } }', { id })
    expect(node).toEqual({ state: 'EXPIRED' })
  }
  expect((await ask(RELEASE, { id: drafts[2].id })).releaseReservation.state).toBe('RELEASED')
  for (const { id } of again) await ask(CONFIRM, { id })
})

it('restartSequence: refuses a number at or before a confirmed one, unless repeats are allowed', async () => {
  const { ask, refusal } = await startService()
  await ask(GAPLESS)
  const reserve = async () => (await ask(RESERVE)).reserveInSequence
  const [one, two] = [await reserve(), await reserve()]
  await ask(CONFIRM, { id: two.id })
  for (const at of [1, 2])
    expect(await refusal(RESTART, { at })).toEqual({
      code: 'BAD_USER_INPUT',
      argument: 'nextValue',
      limit: 2,
    })
  expect(await refusal('mutation { restartSequence(name: "invoice") { nextValue } }')).toMatchObject({
    limit: 2,
  })
  await ask(RESTART, { at: 3 })
  // One that was confirmed before still answers the same.
  expect((await ask(CONFIRM, { id: two.id })).confirmReservation).toMatchObject({ state: 'CONFIRMED' })
  expect(await refusal(CONFIRM, { id: one.id })).toMatchObject({ code: 'RESERVATION_CLOSED' })
  // Also in a later generation, which has none.
  expect(await refusal(RESTART, { at: 2 })).toMatchObject({ limit: 2 })
  await ask('mutation { defineSequence(name: "invoice", definition: { allowRepeats: true }) { id } }')
  await ask(RESTART, { at: 1 })
  expect((await reserve()).value).toBe(1)
})

it('restartSequence: refuses it in the direction of the sequence', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define(KEY, { gapless: true, startValue: 10, step: -1, minValue: 0 })
  await sequences.confirm((await sequences.reserve(group(), 60)).token)
  const code = 'BAD_USER_INPUT'
  for (const at of [10, 11]) await expect(sequences.restart(group(), at)).rejects.toMatchObject({ code })
  await sequences.restart(group(), 9)
  expect((await sequences.reserve(group(), 60)).value).toBe(9)
})

it('confirmReservation: confirms a draft of the past period, unless the group was restarted in that period', async () => {
  const clock = { at: Date.UTC(2026, 11, 31, 12) }
  const { sequences } = openTestNth(await freshDatabase(), { now: () => new Date(clock.at) })
  await sequences.define(KEY, { gapless: true, restartEvery: 'YEAR', format: 'INV-{group}-{yyyy}-{value}' })
  const drafts = [await sequences.reserve(group('a'), 86_400), await sequences.reserve(group('b'), 86_400)]
  await sequences.restart(group('b'), 1)
  clock.at += 86_400_000
  await sequences.restart(group('a'), 5)
  const [kept, abandoned] = await Promise.allSettled(drafts.map(({ token }) => sequences.confirm(token)))
  expect(kept).toMatchObject({ value: { formatted: 'INV-a-2026-1', state: 'CONFIRMED' } })
  expect(abandoned).toMatchObject({ reason: { code: 'RESERVATION_CLOSED' } })
  // A confirmed number of the past period holds up no restart of this one.
  await sequences.restart(group('a'), 1)
})

it('deleteSequence: deletes no sequence with confirmed numbers, unless repeats are allowed', async () => {
  const { ask, refusal } = await startService()
  await ask(GAPLESS)
  const remove = 'mutation { deleteSequence(name: "invoice") { name } }'
  const reserve = async () => (await ask(RESERVE)).reserveInSequence
  await reserve()
  await ask(remove)
  await ask(GAPLESS)
  for (const _ of upTo(2)) await ask(CONFIRM, { id: (await reserve()).id })
  expect(await refusal(remove)).toEqual({ code: 'BAD_USER_INPUT', argument: 'name' })
  expect((await reserve()).value).toBe(3)
  await ask('mutation { defineSequence(name: "invoice", definition: { allowRepeats: true }) { id } }')
  await ask(remove)
  await ask(GAPLESS)
  expect((await reserve()).value).toBe(1)
})
