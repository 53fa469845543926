import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'c' }

describe('the fence', () => {
  it('has a row for each writer that flushed, and raises it with each flush', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    for (let time = 1; time <= 3; time++) {
      await counters.incrementBy(key, 1)
      expect(await query(target, 'select seq from fence')).toEqual([{ seq: time }])
    }
  })

  it('sweeps the rows of writers that have not been touched for a week, and no others', async () => {
    const target = await freshDatabase()
    await query(
      target,
      'insert into fence (id, touched_at) values (1, utc_timestamp() - interval 8 day), (2, utc_timestamp() - interval 6 day)',
    )
    openTestNth(target, { runsJobs: true })
    await expect.poll(() => query(target, 'select id from fence')).toEqual([{ id: 2 }])
  })

  it.each([
    [6.5, []],
    [1, [expect.stringContaining('the row of a writer that had committed is missing')]],
  ])(
    'takes its missing row, after %d days without a flush, for swept or for lost, and continues with a new one: %s',
    async (days, reported) => {
      const target = await freshDatabase()
      const { counters, faults } = openTestNth(target, { worksDespiteLoss: true })
      await counters.incrementBy(key, 1)
      await query(target, 'delete from fence')
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + days * 24 * 3_600_000 })
      onTestFinished(() => void vi.useRealTimers())
      expect((await counters.incrementBy(key, 1)).value).toBe(2)
      expect(faults.map(String)).toEqual(reported)
      expect(await query(target, 'select seq from fence')).toEqual([{ seq: 1 }])
    },
  )

  it('continues with a new row when its row is deleted while it waits for a counter', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target, { worksDespiteLoss: true })
    const other = { namespace: 'n', name: 'other' }
    await Promise.all([counters.incrementBy(key, 1), counters.incrementBy(other, 1)])
    const holder = await hold(target, 'c')
    const statements = collectStatements()
    const calls = [counters.incrementBy(key, 1), counters.incrementBy(other, 1)] as const
    await expect.poll(() => statements).toContainEqual(expect.stringMatching(/^start transaction;/))
    // It has to wait until the flush is rolled back, and comes before the next one.
    await query(target, 'delete from fence')
    expect((await calls[1]).value).toBe(2)
    expect(await query(target, 'select seq from fence where seq > 0')).toEqual([{ seq: 1 }])
    await holder.query('rollback')
    expect((await calls[0]).value).toBe(2)
  })

  const group = { namespace: 'n', sequence: 's', group: '' }
  const HIDE = 'update sequence_value set identity = identity + 1'

  it('waits for the row of a sequence group that is not to be seen, and says to an operator what is missing', async () => {
    const target = await freshDatabase()
    const { sequences, faults } = openTestNth(target)
    await sequences.next(group, 1)
    await query(target, HIDE)
    const call = sequences.next(group, 1)
    await expect.poll(() => faults.map(String)).toEqual([expect.stringContaining('The writer finds no row')])
    await query(target, 'update sequence_value set identity = identity - 1')
    expect((await call).issued.value).toBe(2)
  })

  it('says after the deadline that a change was not made whose row is missing', async () => {
    const target = await freshDatabase()
    await openTestNth(target).sequences.next(group, 1)
    const { sequences } = openTestNth(target, { timeoutMs: 1000 })
    await query(target, HIDE)
    await expect(sequences.next(group, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})
