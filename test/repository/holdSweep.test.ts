import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { sweepHolds } from '../../src/repository/jobs.ts'
import { upTo } from '../support/client/client.ts'
import { filledUp, freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'

const DAY_MS = 86_400_000
const key = { namespace: 'n', name: 'c' }
const times = { ttlMs: 60_000, longestMs: 60_000 }

/** Sweeps as if so many days had passed. */
function sweep(target: Target, days: number): Promise<void> {
  const now = new Date(Date.now() + days * DAY_MS)
  return sweepHolds({ database: openTestDatabase(target), now, shouldContinue: () => true })
}

/** What counters hold, by their rows and by the rows of their holds. */
async function sums(target: Target) {
  const [stored] = await query(
    target,
    `select cast(sum(held_up) as signed) as held, cast(sum(held_down) as signed) as down from counter_value`,
  )
  const [open] = await query(
    target,
    `select cast(coalesce(sum(greatest(amount, 0)), 0) as signed) as held,
            cast(coalesce(-sum(least(amount, 0)), 0) as signed) as down
       from hold h join counter_value v on v.counter_id = h.counter_id and h.open_until > v.held_at`,
  )
  return { stored, open }
}

it('sweepHolds: deletes holds 30 days after they have expired, or would have, and leaves what is held right', async () => {
  const target = await freshDatabase()
  const { counters, holds } = openTestNth(target)
  const hold = (delta: number, name = 'c') => holds.hold('n', [{ name, delta }], times)
  const [confirmed, released, open, other] = [
    await hold(1),
    await hold(2),
    await hold(4),
    await hold(-8, 'd'),
  ]
  await holds.confirm(confirmed)
  await holds.release(released)
  const { revision } = await counters.read(key)
  await sweep(target, 29)
  expect(await query(target, 'select count(*) as n from hold')).toEqual([{ n: 4 }])
  // As of a month ago, but for one that is open.
  const old = `x'${confirmed.token}', x'${released.token}', x'${open.token}'`
  await query(
    target,
    `update hold set expires_at = expires_at - ${31 * DAY_MS}, open_until = open_until - ${31 * DAY_MS} where token in (${old})`,
    `update counter_value set first_expiry = first_expiry - ${31 * DAY_MS} where held_up > 0`,
  )
  await sweep(target, 0)
  expect(await query(target, 'select token from hold')).toEqual([{ token: Buffer.from(other.token, 'hex') }])
  expect(await sums(target)).toEqual({ stored: { held: 0, down: 8 }, open: { held: 0, down: 8 } })
  for (const { token } of [confirmed, released, open]) expect(await holds.find(token)).toBeUndefined()
  await expect(holds.confirm(open)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  const after = await counters.read(key)
  expect(after).toMatchObject({ value: 1, held: 0 })
  // Nobody may decide on the row as it was.
  expect(after.revision).toBeGreaterThan(revision)
})

it('sweepHolds: sweeps many holds, also of deleted counters, in batches', async () => {
  const target = await freshDatabase()
  const { counters, holds } = openTestNth(target)
  for (const name of ['c', 'gone']) await holds.hold('n', [{ name, delta: 1 }], times)
  const ids = await query(target, 'select counter_id as id from hold order by counter_id')
  await query(
    target,
    ...filledUp(1200),
    ...ids.map(
      ({ id }) =>
        `insert into hold (token, counter_id, amount, open_until, expires_at, latest)
         select unhex(left(sha2(concat(${id}, ' ', n), 256), 32)), ${id}, 1, 1000 + n, 1000 + n, 1000 + n from filled`,
    ),
    'drop table filled',
    'update counter_value set held_up = 1201, first_expiry = 1001',
  )
  await counters.delete({ namespace: 'n', name: 'gone' })
  await sweep(target, 0)
  expect(await query(target, 'select count(*) as n from hold')).toEqual([{ n: 2 }])
  expect(await sums(target)).toEqual({ stored: { held: 1, down: 0 }, open: { held: 1, down: 0 } })
  await sweep(target, 31)
  expect(await query(target, 'select count(*) as n from hold')).toEqual([{ n: 0 }])
})

it('sweepHolds: deletes a hold with all of its parts, whose other ones could be confirmed', async () => {
  const target = await freshDatabase()
  const { holds } = openTestNth(target)
  const names = upTo(1000).map((index) => `c${index}`)
  const hold = (deltas: readonly string[]) =>
    holds.hold(
      'n',
      deltas.map((name) => ({ name, delta: 1 })),
      times,
    )
  // Their parts fill more pages than one, in whatever order their tokens are.
  const [large, small] = [await hold(names), await hold(['c1', 'c2'])]
  const counts = () => query(target, 'select count(*) as n from hold group by token order by n')
  // As of a month ago, but for one part.
  await query(
    target,
    `update hold set expires_at = expires_at - ${31 * DAY_MS}, open_until = expires_at
      where counter_id <> (select id from counter where name = 'c1000')`,
    'update counter_value set first_expiry = 1 where held_up > 0',
  )
  await sweep(target, 0)
  expect(await counts()).toEqual([{ n: 1000 }])
  expect(await holds.find(small.token)).toBeUndefined()
  await sweep(target, 31)
  expect(await counts()).toEqual([])
  await expect(holds.confirm(large)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect(await sums(target)).toEqual({ stored: { held: 0, down: 0 }, open: { held: 0, down: 0 } })
})
