// @module-tag slow
import { EventEmitter, once } from 'node:events'
import { expect, it, onTestFinished, vi } from 'vitest'
import { ER } from '../../src/mysql/errors.ts'
import { Hosts } from '../../src/mysql/hosts.ts'
import { Database } from '../../src/mysql/pool.ts'
import { JOINED } from '../../src/mysql/slots.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openOnce } from '../support/openOnce.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const key = { namespace: 'n', name: 'c' }
const CHANGE = /^(start transaction;\n)?(insert|update|delete)|^commit$|;\ncommit$/

const switchovers = [
  'OPTION_PREVENTS_STATEMENT',
  'READ_ONLY_TRANSACTION',
  'READ_ONLY_MODE',
  'UNKNOWN_COM',
  'SERVER_OFFLINE_MODE',
  'RUN_HOOK_ERROR',
] as const

/** An Nth whose connections so far lead to a server that refuses each change, from the switchover on. */
async function switchable(errno: number, pattern = CHANGE) {
  let newest = 0
  let lastOfOld = 0
  const target = await startProxy(await freshDatabase(), (statement, connection) => {
    newest = Math.max(newest, connection)
    return connection <= lastOfOld && pattern.test(statement) ? { errno } : 'passes'
  })
  const switchOver = () => {
    lastOfOld = newest
  }
  return { ...openTestNth(target), switchOver }
}

it.each(switchovers)(
  'switchover: goes on with another server when the one before answers %s',
  { tags: 'quick' },
  async (name) => {
    const { counters, namespaces, sequences, said, faults, switchOver } = await switchable(ER[name])
    await counters.incrementBy(key, 1)
    await sequences.define(key, { step: 2 })
    // So that the connections of readers, too, are open.
    await Promise.all(upTo(20).map(() => counters.list('n', { limit: 1, fromEnd: false, prefix: '' })))
    switchOver()
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 2 })
    await sequences.define(key, { step: 3 })
    await namespaces.define('n', { timeZone: 'Europe/Berlin' })
    expect(await counters.incrementBy({ ...key, name: 'new' }, 1)).toMatchObject({ value: 1 })
    expect(said).toEqual([])
    expect(faults).toEqual([])
  },
)

it('switchover: asks another server whether a COMMIT took effect that the previous one refused', {
  tags: 'quick',
}, async () => {
  const { counters, said, switchOver } = await switchable(ER.OPTION_PREVENTS_STATEMENT, /;\ncommit$/)
  await counters.incrementBy(key, 1)
  switchOver()
  expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 2 })
  expect(said).toEqual([])
})

it('switchover: uses no other connection of before a switchover, though it was answered after the first rejection', {
  tags: 'quick',
}, async () => {
  const old = new Set<number>()
  let isSwitched = false
  const target = await startProxy(await freshDatabase(), (statement, connection) => {
    if (!isSwitched) old.add(connection)
    return isSwitched && old.has(connection) && CHANGE.test(statement)
      ? { errno: ER.READ_ONLY_MODE }
      : 'passes'
  })
  // The longest pause before the second attempt.
  const random = vi.spyOn(Math, 'random').mockReturnValue(1)
  const hosts = new Hosts([target])
  const database = new Database(hosts, { timeLimitMs: AMPLE_MS, maxPending: 10 })
  onTestFinished(async () => {
    random.mockRestore()
    await database.close()
    hosts.close()
  })
  const events = new EventEmitter()
  const [begun, rejected] = [once(events, 'begun'), once(events, 'rejected')]
  const reading = database.withRetry(JOINED, async (connection) => {
    await connection.query('select 1')
    events.emit('begun')
    await rejected
    await connection.query('select 1')
  })
  await begun
  await database.select(JOINED, 'select 1')
  isSwitched = true
  let rejections = 0
  await database.withRetry(JOINED, async (connection) => {
    await connection.query('insert into deleted_counter (id) values (1)').catch((error) => {
      rejections += 1
      // Only then has the pool noted the rejection.
      setImmediate(() => events.emit('rejected'))
      throw error
    })
  })
  await reading
  expect(rejections).toBe(1)
})

/** A server for these tests, and a user that its `read_only` holds for, as it does not for those who may set it. */
async function ownServer() {
  const { target } = await privateServer(await temporaryDirectory())
  await migrate(target)
  await query(target, "create user app@localhost identified by 'old'", 'grant all on nth.* to app@localhost')
  return { root: target, app: { ...target, user: 'app', password: 'old' } }
}

it('switchover: waits, or answers UNAVAILABLE, while its database is read-only, and says so once', async () => {
  const { root, app } = await openOnce(ownServer)
  const { counters, sequences, said, faults } = openTestNth(app, { timeoutMs: 2000 })
  await counters.incrementBy(key, 0)
  const load = startLoad(16, async () => (await counters.incrementBy(key, 1)).value)
  for (const times of upTo(2)) {
    await load.afterMore(100)
    await query(root, 'set global read_only = 1')
    const refused = load.refused.length
    await expect.poll(() => load.refused.length).toBeGreaterThan(refused + 16)
    await expect(sequences.define(key, { step: times })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await expect(counters.incrementBy({ ...key, name: 'new' }, 1)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    })
    expect((await counters.read(key)).value).toBeGreaterThanOrEqual(load.answered.length)
    await query(root, 'set global read_only = 0')
    await load.afterMore(100)
  }
  await load.end()
  const round = [expect.stringContaining('read-only'), 'Database available again.']
  expect(said).toEqual([...round, ...round])
  expect(faults).toEqual([])
  const doubtful = load.refused.filter((code) => code !== 'UNAVAILABLE')
  expect(new Set(['OUTCOME_UNKNOWN', ...doubtful])).toEqual(new Set(['OUTCOME_UNKNOWN']))
  expect(new Set(load.answered).size).toBe(load.answered.length)
  const { value } = await counters.read(key)
  expect(value).toBeGreaterThanOrEqual(load.answered.length)
  expect(value).toBeLessThanOrEqual(load.answered.length + doubtful.length)
  if (doubtful.length === 0) expect(sorted(load.answered)).toEqual(upTo(value))
})

it('switchover: does not report connections beyond the limit while the open ones suffice', async () => {
  const { root, app } = await openOnce(ownServer)
  await query(root, 'alter user app@localhost with max_user_connections 2')
  const { counters, said, faults } = openTestNth(app)
  const list = () => counters.list('n', { limit: 1, fromEnd: false, prefix: '' })
  await list()
  const pages = await Promise.all(upTo(200).map(list))
  expect(pages).toHaveLength(200)
  expect(said).toEqual([])
  expect(faults).toEqual([])
})

/** Errors of a full disk. */
const FULL = [ER.DISK_FULL, ER.RECORD_FILE_FULL, ER.ERROR_ON_WRITE, ER.WRITE]

// Each waits for ten seconds without such an error.
it('switchover: says once that a disk is full, and goes on when there is room', () =>
  Promise.all(FULL.map(fillDisk)))

async function fillDisk(errno: number): Promise<void> {
  let isFull = false
  const target = await startProxy(await freshDatabase(), (statement) =>
    isFull && CHANGE.test(statement) ? { errno } : 'passes',
  )
  await openTestNth(target).counters.incrementBy(key, 1)
  const { counters, sequences, said, faults } = openTestNth(target, { timeoutMs: 4000 })
  await counters.read(key)
  // A busy machine may have been slow to connect.
  said.splice(0)
  isFull = true
  for (const _ of upTo(2)) {
    await Promise.all([
      expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' }),
      expect(sequences.define(key, {})).rejects.toMatchObject({ code: 'UNAVAILABLE' }),
    ])
    expect((await counters.read(key)).value).toBe(1)
  }
  isFull = false
  await expect.poll(() => counters.incrementBy(key, 1).catch(() => undefined)).toMatchObject({ value: 2 })
  // A change that needs no room would have succeeded before.
  await expect
    .poll(() => said)
    .toEqual([expect.stringMatching(/^Database unavailable: /), 'Database available again.'])
  expect(faults).toEqual([])
}
