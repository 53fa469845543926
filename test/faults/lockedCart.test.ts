import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { collectStatements } from '../support/database/statements.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'

it('does not have a cart with a locked counter hold up the others of its counters', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target, { timeoutMs: AMPLE_MS })
  await counters.incrementMany('n', [
    { name: 'hot', delta: 1 },
    { name: 'locked', delta: 1 },
  ])
  const locker = await createConnection(target)
  onTestFinished(() => locker.end())
  await locker.query('start transaction')
  await locker.query(
    'select * from counter_value where counter_id = (select id from counter where name = ?) for update',
    [Buffer.from('locked')],
  )
  const cart = counters.incrementMany('n', [
    { name: 'hot', delta: 1 },
    { name: 'locked', delta: 1 },
  ])
  let isSettled = false
  const settled = cart.finally(() => {
    isSettled = true
  })
  settled.catch(() => undefined)
  for (const _ of upTo(200)) await counters.incrementBy({ namespace: 'n', name: 'hot' }, 1)
  // If it held what it shares with them while it waits, a second at a time, its deadline would have been over before.
  expect(isSettled).toBe(false)
  await locker.query('rollback')
  await settled
  const [hot, locked] = await counters.readMany(['hot', 'locked'].map((name) => ({ namespace: 'n', name })))
  expect([hot?.value, locked?.value]).toEqual([202, 2])
})

it('takes the other counters of a cart again only when the locked one could be locked by itself', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const cart = () =>
    counters.incrementMany(
      'n',
      ['hot', 'locked'].map((name) => ({ name, delta: 1 })),
    )
  await cart()
  const rows = await query(target, 'select id from counter order by name')
  const [hot, locked] = rows.map(({ id }) => String(id))
  const holder = await hold(target, 'locked')
  const statements = collectStatements('counter_value')
  const idsIn = (text: string) =>
    [...text.matchAll(/counter_id (?:= |in \()([\d, ]*\d)/g)].flatMap(([, ids = '']) => ids.split(', '))
  const touching = (id = '') => statements.filter((text) => idsIn(text).includes(id))
  const waiting = cart()
  await expect.poll(() => touching(locked).length, { interval: 10 }).toBeGreaterThanOrEqual(5)
  // The first waits for the lock, the second tries all. Then a text ends where the lock is not free.
  const lockedFirst = new RegExp(
    `^start transaction;[^;]*;\\s*select count[^;]*counter_id = ${locked}[^;]*for update nowait;`,
  )
  for (const text of touching(hot).slice(2)) expect(text).toMatch(lockedFirst)
  await holder.query('rollback')
  expect((await waiting).map(({ value }) => value)).toEqual([2, 2])
})
