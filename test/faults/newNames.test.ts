import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { inParallel, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

const key = (name: string) => ({ namespace: 'n', name })

it('looks up and creates all names of one tick together', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const statements = collectStatements()
  await counters.incrementMany(
    'n',
    upTo(200).map((index) => ({ name: `c${index}`, delta: 1 })),
  )
  expect(statements.filter((text) => /insert into counter /.test(text))).toHaveLength(1)
  expect(statements.length).toBeLessThan(15)
})

it('creates each name once, though two processes use it at the same time among others', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  await inParallel(20, 200, async (index) => {
    const names = upTo(30).map((place) => `c${(index * 7 + place * 3) % 300}`)
    await processes[index % 2]?.counters.incrementMany(
      'n',
      names.map((name) => ({ name, delta: 1 })),
    )
  })
  const [sum] = await query(target, 'select count(*) as counters, sum(value) as value from counter_value')
  expect([sum?.counters, Number(sum?.value)]).toEqual([300, 6000])
  expect(processes.flatMap(({ faults }) => faults)).toEqual([])
})

it('delays no other call long for a name that a process is about to create', { tags: 'slow' }, async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: AMPLE_MS })
  await counters.incrementBy(key('known'), 1)
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  // InnoDB has who would make the same wait, and with it who would put a name directly before it.
  await holder.query("insert into counter (namespace_id, name) select id, 'stuck' from namespace")
  let isStuck = true
  const stuck = counters.incrementBy(key('stuck'), 1).finally(() => {
    isStuck = false
  })
  stuck.catch(() => undefined)
  const others = await Promise.all(upTo(5).map((index) => counters.incrementBy(key(`z${index}`), 1)))
  expect(others.map(({ value }) => value)).toEqual([1, 1, 1, 1, 1])
  for (const index of upTo(80)) {
    const again = counters.incrementBy(key('stuck'), 1)
    again.catch(() => undefined)
    expect(await counters.incrementBy(key(`zz${index}`), 1)).toMatchObject({ value: 1 })
  }
  // If each of them waited for the lock, a second at a time, its deadline would have been over before.
  expect(isStuck).toBe(true)
  await holder.query('rollback')
  expect((await stuck).value).toBeGreaterThan(0)
})

it('creates the other names when a trigger refuses one', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await query(
    target,
    `create trigger refuse before insert on counter for each row
     if new.name = 'bad' then signal sqlstate '45000' set message_text = 'no'; end if`,
  )
  const results = ['a', 'bad', 'b'].map((name) =>
    counters.incrementBy(key(name), 1).then(
      ({ value }) => value,
      () => 'refused',
    ),
  )
  expect(await Promise.all(results)).toEqual([1, 'refused', 1])
})
