import { expect, it } from 'vitest'
import { migrate } from '../../src/mysql/startup/migrate.ts'
import { query } from '../support/database.ts'
import { openTestNth } from '../support/nth.ts'
import { temporaryDirectory } from '../support/nthProcess.ts'
import { privateServer } from '../support/privateServer.ts'

const key = { namespace: 'n', name: 'c' }

it.each([
  ['by its default', 'set global autocommit = 0'],
  ['for each new connection', "set global init_connect = 'set autocommit = 0'"],
])('makes changes durable on a server that has autocommit off %s', async (_, setting) => {
  const { target } = await privateServer(await temporaryDirectory())
  await migrate(target)
  await query(target, 'create user app@localhost', 'grant all on nth.* to app@localhost', setting)
  const app = { ...target, user: 'app' }
  const first = openTestNth(app)
  await first.counters.incrementBy(key, 5)
  await first.counters.define(key, { maxValue: 9 })
  await first.counters.incrementBy({ ...key, name: 'gone' }, 1)
  await first.counters.delete({ ...key, name: 'gone' })
  await first.sequences.define(key, { step: 2 })
  await first.namespaces.define('n', { timeZone: 'Europe/Berlin' })
  const { counters, sequences, namespaces } = openTestNth(app)
  expect(await counters.read(key)).toMatchObject({ value: 5, definition: { bounds: { maxValue: 9 } } })
  expect(await counters.read({ ...key, name: 'gone' })).toMatchObject({ createdAt: null })
  expect((await sequences.read(key)).definition?.step).toBe(2)
  expect((await namespaces.read('n')).retention.timeZone).toBe('Europe/Berlin')
  // Whoever reads sees what is there now, not what was when they read first.
  await first.counters.incrementBy(key, 1)
  expect((await counters.read(key)).value).toBe(6)
  await expect.poll(() => query(target, 'select trx_id from information_schema.innodb_trx')).toEqual([])
})
