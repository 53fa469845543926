import { expect, it } from 'vitest'
import {
  isSameDatabase,
  isSameRun,
  isSurelySameRun,
  type ServerIdentity,
  type ServerStatus,
} from '../../src/mysql/hostStatus.ts'
import { Hosts } from '../../src/mysql/hosts.ts'
import { openSession } from '../../src/mysql/session.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'
import { dataDirectory } from '../support/server/nthProcess.ts'

const key = { namespace: 'n', name: 'c' }
const HOUR_MS = 3_600_000

const identity: ServerIdentity = {
  server: 'uuid host 3306 /data',
  startedAt: 1_800_000_000_000,
  uptimeMs: HOUR_MS,
  cluster: '',
}

it.each<[string, Partial<ServerIdentity>, boolean]>([
  ['a second later', { startedAt: identity.startedAt + 1000 }, true],
  ['a run that began later', { startedAt: identity.startedAt + 60_000 }, false],
  ['a run that began earlier, of a copy', { startedAt: identity.startedAt - 60_000 }, false],
  ['a server of the same name', { server: 'other host 3306 /data' }, false],
  ['a server that reports nothing about itself', { server: '' }, false],
  ['a server that does not report its uptime', { startedAt: Number.NaN }, false],
])('server identity: takes %s for the same run of a server only if it is', (_, other, isSame) => {
  const there = { ...identity, ...other }
  expect(isSameRun(identity, there)).toBe(isSame)
  expect(isSameRun(there, identity)).toBe(isSame)
  expect(isSurelySameRun(identity, there)).toBe(isSame)
})

it('server identity: is not sure of a run that is so young that the next one looks the same', () => {
  expect(isSurelySameRun({ ...identity, uptimeMs: 1000 }, identity)).toBe(false)
})

it('server identity: takes two servers that report nothing about themselves for two, and two nodes of a cluster for one database', () => {
  expect(isSameDatabase({ ...identity, server: '' }, { ...identity, server: '' })).toBe(false)
  const node = { ...identity, cluster: 'state' }
  expect(isSameDatabase(node, { ...node, server: 'other' })).toBe(true)
  expect(isSameRun(node, { ...node, server: 'other' })).toBe(false)
})

async function identityOf(target: Target): Promise<ServerStatus> {
  const hosts = new Hosts([target])
  const session = await openSession(await hosts.current(), { timeLimitMs: AMPLE_MS, idleLimitS: 10 })
  await session.close()
  return session.identity
}

it('server identity: distinguishes servers and their runs by what they report', async () => {
  const server = await freshDatabase()
  const other = await privateServer(await dataDirectory())
  const [one, again, another] = [
    await identityOf(server),
    await identityOf(server),
    await identityOf(other.target),
  ]
  expect(isSameRun(one, again)).toBe(true)
  expect(one.connectionId).not.toBe(again.connectionId)
  expect(isSameDatabase(one, another)).toBe(false)
})

it('server identity: counts on where the database does not let it end its lost connection', async () => {
  const database = await freshDatabase()
  // A younger one can't be distinguished from the next run.
  const uptime = async () => (await query(database, "show global status like 'Uptime'"))[0]?.Value
  await expect.poll(async () => Number(await uptime())).toBeGreaterThan(5)
  let isCut = false
  let kills = 0
  const ER_KILL_DENIED = 1095
  const target = await startProxy(database, (statement) => {
    if (/^kill/.test(statement)) {
      kills++
      return { errno: ER_KILL_DENIED }
    }
    if (isCut || !/^start transaction;\nupdate fence/.test(statement)) return 'passes'
    isCut = true
    return 'stays unanswered'
  })
  expect((await openTestNth(target).counters.incrementBy(key, 1)).value).toBe(1)
  expect([isCut, kills]).toEqual([true, 1])
})
