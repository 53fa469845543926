// @module-tag slow
import { expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { exported, imported } from '../support/server/transfer.ts'

const KEY = { namespace: 'default', sequence: 'exact', group: '' }
const NAME = { namespace: 'default', name: 'exact' }

it('keeps a gapless sequence without gaps, and its reservations with their ids', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const { sequences } = openTestNth(one)
  await sequences.define(NAME, { gapless: true, format: 'INV-{value:3}' })
  const [a, b, c, d] = await Promise.all(upTo(4).map(() => sequences.reserve(KEY, 1000)))
  if (!a || !b || !c || !d) throw new Error('Not reserved')
  await sequences.confirm(a.token)
  await sequences.release(b.token)
  await sequences.release(d.token)
  const text = await exported(one)
  expect((await imported(other, text)).errors).toContain('Reservations: 4 created.')
  expect((await imported(other, text)).errors).toContain('Reservations: 4 unchanged.')
  const copy = openTestNth(other).sequences
  expect(await copy.reservations([a, b, c, d])).toEqual(await sequences.reservations([a, b, c, d]))
  // The released numbers come first, then the next one.
  const again = []
  for (const _ of upTo(3)) again.push(await copy.reserve(KEY, 1000))
  expect(again.map(({ value }) => value)).toEqual([b.value, d.value, 5].toSorted((x, y) => x - y))
  expect((await copy.confirm(c.token)).state).toBe('CONFIRMED')
  for (const { token } of again) await copy.confirm(token)

  // The older export takes nothing back, and frees no number that was issued again.
  const repeated = await imported(other, text)
  expect([repeated.code, repeated.errors]).toEqual([
    0,
    expect.stringContaining('Sequence groups: 1 kept.\nReservations: 4 unchanged.'),
  ])
  expect((await copy.reserve(KEY, 1000)).value).toBe(6)
})

it('takes over what was confirmed elsewhere, and refuses a number that two have', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const [from, to] = [openTestNth(one).sequences, openTestNth(other).sequences]
  await from.define(NAME, { gapless: true })
  const first = await from.reserve(KEY, 1000)
  await imported(other, await exported(one))
  // A later export confirms what the earlier one had open.
  await from.confirm(first.token)
  const second = await from.reserve(KEY, 1000)
  await from.confirm(second.token)
  const own = await to.reserve(KEY, 1000)
  expect(own.value).toBe(second.value)
  const { code, errors } = await imported(other, await exported(one))
  expect(code).toBe(1)
  expect(errors).toContain('reservation of "2": its number is taken by another reservation.')
  expect(errors).toContain('Reservations: 1 raised, 1 refused.')
  expect((await to.reservation(first.token))?.state).toBe('CONFIRMED')
  // A number that is free here and confirmed there is not issued again.
  await to.release(own.token)
  expect((await imported(other, await exported(one))).errors).toContain('1 created')
  expect((await to.reserve(KEY, 1000)).value).toBe(3)
})

it('refuses the numbers of another generation, and lowers none', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const [from, to] = [openTestNth(one).sequences, openTestNth(other).sequences]
  await from.define(NAME, { gapless: true })
  await from.reserve(KEY, 1000)
  const early = await exported(one)
  await imported(other, early)
  await to.reserve(KEY, 1000)
  const lowered = await imported(other, early, '--overwrite')
  expect([lowered.code, lowered.errors]).toEqual([
    1,
    expect.stringContaining('numbers of a gapless sequence are never lowered'),
  ])
  await to.restart(KEY, 100)
  expect((await imported(other, early)).errors).toContain('it was restarted')
  expect((await to.reserve(KEY, 1000)).value).toBe(100)
  expect(await to.next(KEY, 1).catch((error) => error)).toBeInstanceOf(NthError)
})
