import { expect } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'
import type { Nth } from '../../../src/repository/nth.ts'
import { query } from '../database/database.ts'
import { upTo } from './client.ts'

export const GAPLESS =
  'mutation { defineSequence(name: "invoice", definition: { gapless: true, format: "INV-{value:3}" }) { gapless } }'

export const RESERVE = `mutation($key: String, $ttl: Int! = 300) {
  reserveInSequence(name: "invoice", ttlSeconds: $ttl, idempotencyKey: $key) { id value formatted state expiresAt }
}`
export const CONFIRM =
  'mutation($id: ID!) { confirmReservation(id: $id) { id value formatted state expiresAt } }'
export const RELEASE = 'mutation($id: ID!) { releaseReservation(id: $id) { id value state } }'

/** The group that these take numbers of. */
export const KEY = { namespace: 'default', sequence: 'invoice', group: '' }

/** The states of the numbers of the only gapless group of a database. */
export interface Numbers {
  confirmed: number[]
  open: number[]
  /** Given back, and not reissued. */
  free: number[]
}

export async function numbersIn(target: Target): Promise<Numbers> {
  const rows = await query(target, 'select value, state, is_free from reservation order by value')
  const those = (wanted: (row: { state: number; is_free: number }) => boolean) =>
    rows.filter((row) => wanted(row as never)).map(({ value }) => value as number)
  return {
    confirmed: those(({ state }) => state === 1),
    open: those(({ state }) => state === 0),
    free: those(({ is_free }) => is_free === 1),
  }
}

/** Every number from 1 to the furthest is confirmed, open or free, and only one of these. */
export async function expectNoGap(target: Target): Promise<Numbers> {
  const numbers = await numbersIn(target)
  const all = Object.values(numbers).flat() as number[]
  expect(all.toSorted((a, b) => a - b)).toEqual(upTo(all.length))
  return numbers
}

/** Ends the time of all reservations that are open. */
export async function expireAll(target: Target): Promise<void> {
  await query(
    target,
    'update reservation set expires_at = utc_timestamp(3) - interval 1 second where state = 0',
  )
}

/** Settles everything: what is open expires, and what is free is issued and confirmed. Then there is no gap. */
export async function settleAll(
  target: Target,
  { reserve, confirm }: Pick<Nth['sequences'], 'reserve' | 'confirm'>,
  key: Parameters<Nth['sequences']['reserve']>[0],
): Promise<void> {
  await expireAll(target)
  const before = await numbersIn(target)
  const highest = before.confirmed.length + before.open.length + before.free.length
  const missing = highest - before.confirmed.length
  for (const _ of upTo(missing)) await confirm((await reserve(key, 60)).token)
  const { confirmed, open, free } = await numbersIn(target)
  expect(confirmed).toEqual(upTo(highest))
  expect([open, free]).toEqual([[], []])
  expect((await reserve(key, 60)).value).toBe(highest + 1)
}
