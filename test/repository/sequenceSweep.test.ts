import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { sweepSequences } from '../../src/repository/jobs.ts'
import { upTo } from '../support/client/client.ts'
import { filledUp, freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'

const KEY = { namespace: 'n', sequence: 's', group: '' }
const DAY_MS = 86_400_000

function sweep(target: Target, now: Date, shouldContinue = () => true): Promise<void> {
  return sweepSequences({ database: openTestDatabase(target), now, shouldContinue })
}

async function rowsOf(target: Target): Promise<Record<string, number>> {
  const tables = ['sequence', 'sequence_group', 'sequence_value', 'reservation', 'deleted_sequence']
  const counts = tables.map(async (table) => {
    const [row] = await query(target, `select count(*) as n from ${table}`)
    return [table, Number(row?.n)] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

it('sweepSequences: removes all that a deleted sequence has left, and nothing else', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  for (const name of ['s', 'kept']) {
    await sequences.define({ namespace: 'n', name }, { gapless: true })
    for (const group of upTo(3)) {
      for (const _ of upTo(2))
        await sequences.reserve({ namespace: 'n', sequence: name, group: String(group) }, 60)
    }
  }
  const [doomed] = await query(target, "select id from sequence where name = 's'")
  await query(
    target,
    ...filledUp(1200),
    `insert into sequence_group (id, sequence_id, name) select 1000 + n, ${doomed?.id}, concat('x', n) from filled`,
    'insert into sequence_value (group_id, period_key) select 1000 + n, 2026 from filled',
    'insert into sequence_value (group_id, period_key) select 1001, 2026000 + n from filled',
    'drop table filled',
  )
  await sequences.delete({ namespace: 'n', name: 's' })
  let batches = 0
  await sweep(target, new Date(), () => batches++ < 4)
  expect(await rowsOf(target)).toMatchObject({ sequence: 1, deleted_sequence: 1 })
  await sweep(target, new Date())
  const left = { sequence: 1, sequence_group: 3, sequence_value: 3, reservation: 6, deleted_sequence: 0 }
  expect(await rowsOf(target)).toEqual(left)
  expect((await sequences.reserve({ namespace: 'n', sequence: 'kept', group: '1' }, 60)).value).toBe(3)
})

it('sweepSequences: removes what was released and reissued a month ago, but nothing that was confirmed or is free', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.define({ namespace: 'n', name: 's' }, { gapless: true })
  const [one, two, three] = [
    await sequences.reserve(KEY, 60),
    await sequences.reserve(KEY, 60),
    await sequences.reserve(KEY, 60),
  ]
  if (!one || !two || !three) throw new Error('There are three')
  await sequences.confirm(one.token)
  await sequences.release(two.token)
  await sequences.reserve(KEY, 60)
  await sequences.release(three.token)
  await sweep(target, new Date(Date.now() + 29 * DAY_MS))
  expect(await sequences.reservation(two.token)).toMatchObject({ state: 'RELEASED' })
  await sweep(target, new Date(Date.now() + 31 * DAY_MS))
  expect(await sequences.reservation(two.token)).toBeUndefined()
  await expect(sequences.confirm(two.token)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect(await sequences.reservation(one.token)).toMatchObject({ state: 'CONFIRMED' })
  expect(await sequences.reservation(three.token)).toMatchObject({ state: 'RELEASED' })
  expect((await sequences.reserve(KEY, 60)).value).toBe(3)
})

it('sweepSequences: keeps what expired long ago for a month after its number was reissued', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.define({ namespace: 'n', name: 's' }, { gapless: true })
  const expired = await sequences.reserve(KEY, 60)
  await query(target, 'update reservation set expires_at = utc_timestamp(3) - interval 31 day')
  expect((await sequences.reserve(KEY, 60)).value).toBe(expired.value)
  await sweep(target, new Date())
  await expect(sequences.confirm(expired.token)).rejects.toMatchObject({ code: 'RESERVATION_CLOSED' })
})
