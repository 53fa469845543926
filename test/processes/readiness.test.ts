// @module-tag slow
import { type Connection, createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished, vi } from 'vitest'
import { ER, LostAnswerError } from '../../src/mysql/errors.ts'
import { Health } from '../../src/mysql/health.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { SILENT } from '../../src/operations/log.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { openOnce } from '../support/openOnce.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const key = { namespace: 'n', name: 'c' }

async function ready(url: string) {
  const response = await fetch(`${url}/ready`)
  const { status, busy, errors } = await response.json()
  return response.ok ? { status, busy } : { status: response.status, reason: errors[0].message }
}

async function connectionTo(target: Target): Promise<Connection> {
  const connection = await createConnection(target)
  connection.on('error', () => undefined)
  onTestFinished(() => connection.destroy())
  return connection
}

interface Server {
  directory: string
  stop: () => Promise<void>
  root: Target
  app: Target
}

/** A server, the same for all tests of this file, with a user that `read_only` holds for. */
async function ownServer(): Promise<Server> {
  const directory = await temporaryDirectory()
  const { target: root, close } = await privateServer(directory)
  await query(root, "create user app@localhost identified by 'old'", 'grant all on nth.* to app@localhost')
  return { directory, stop: close, root, app: { ...root, user: 'app', password: 'old' } }
}

async function killAppConnections(root: Target): Promise<number> {
  const rows = await query(root, "select id from information_schema.processlist where user = 'app'")
  // One may have ended meanwhile.
  for (const { id } of rows) await query(root, `kill ${id}`).catch(() => undefined)
  return rows.length
}

/** Brings a fault about, and returns what ends it. */
type Fault = (server: Server) => Promise<() => Promise<unknown>>

/** What happens to the database, why it is then unavailable, and the tags of the test. */
const faults: [string, string, string[], Fault][] = [
  [
    'is locked for a backup',
    'read-only',
    [],
    async ({ root }) => {
      const connection = await connectionTo(root)
      await connection.query('flush tables with read lock')
      return () => connection.query('unlock tables')
    },
  ],
  [
    'is read-only',
    'read-only',
    [],
    async ({ root }) => {
      await query(root, 'set global read_only = 1')
      return () => query(root, 'set global read_only = 0')
    },
  ],
  [
    'has another password',
    'access denied',
    [],
    async ({ root }) => {
      await query(root, "alter user app@localhost identified by 'new'")
      await killAppConnections(root)
      return () => query(root, "alter user app@localhost identified by 'old'")
    },
  ],
  [
    'has no connection left',
    'too many connections',
    [],
    async ({ root }) => {
      // The least that it can be set to.
      await query(root, 'create user if not exists other@localhost', 'set global max_connections = 10')
      const others: Connection[] = []
      const takeAll = async () => {
        const left = await killAppConnections(root)
        while (others.length < 10) {
          const other = await connectionTo({ ...root, user: 'other', database: '' }).catch(() => undefined)
          if (!other) break
          others.push(other)
        }
        return left
      }
      await expect.poll(takeAll).toBe(0)
      return async () => {
        await Promise.all(others.map((other) => other.end()))
        await query(root, 'set global max_connections = 151')
      }
    },
  ],
  [
    'is stopped',
    'unreachable',
    ['quick'],
    async (server) => {
      await server.stop()
      return async () => {
        server.stop = (await privateServer(server.directory)).close
      }
    },
  ],
]

const INCREMENT = 'mutation { increment(name: "c") { value } }'
const CHANGES = `mutation { a: increment(name: "c") { value } b: reset(name: "new") { value } c: nextInSequence(name: "s") { value } }`

for (const [name, reason, tags, fault] of faults)
  it(`GET /ready: is not ready while its database ${name}, idle or not, says why, and changes are refused`, {
    tags,
  }, async () => {
    const server = await openOnce(ownServer)
    const { url, send, warnings } = await startService({ target: server.app, writeTimeoutMs: 500 })
    await send(INCREMENT)
    for (const isBusy of [false, true]) {
      expect(await ready(url)).toMatchObject({ status: 'ready' })
      const end = await fault(server)
      if (isBusy) {
        const { data, errors } = await send(CHANGES)
        expect(data).toEqual({ a: null, b: null, c: null })
        expect(errors?.map(({ extensions }) => extensions)).toEqual(
          Array(3).fill({ code: 'UNAVAILABLE', retryAfterMs: 1000, retryable: true }),
        )
      }
      await expect.poll(() => ready(url)).toEqual({ status: 503, reason: `Database unavailable: ${reason}.` })
      expect((await fetch(`${url}/health`)).status).toBe(200)
      await end()
      // Without a request in between.
      await expect.poll(() => warnings.at(-1)).toBe('Database available again.')
      expect(await ready(url)).toMatchObject({ status: 'ready' })
      await expect.poll(() => send(INCREMENT)).not.toHaveProperty('errors')
    }
    const outage = expect.stringMatching(new RegExp(`^Database unavailable: ${reason} \\(.+\\)\\.$`))
    expect(warnings).toEqual([outage, 'Database available again.', outage, 'Database available again.'])
  })

it('GET /ready: stays ready, and says that it is busy, while slow reads use all connections', async () => {
  let holdsUp = false
  let checks = 0
  const { release, released } = held()
  const target = await startProxy(await freshDatabase(), async (statement): Promise<Delivery> => {
    if (/select utc_timestamp/.test(statement)) checks += 1
    if (holdsUp && /counter_value v/.test(statement)) await released
    return 'passes'
  })
  const { url, ask } = await startService({ target })
  await ask('mutation { increment(name: "c") { value } }')
  expect(await ready(url)).toEqual({ status: 'ready' })
  holdsUp = true
  // Each in a document of its own, and of a namespace of its own: others are read together.
  const reads = upTo(30).map((n) =>
    ask(`{ namespace(name: "default") { counters(first: ${n}) { nodes { value } } } }`),
  )
  await expect.poll(() => ready(url)).toEqual({ status: 'ready', busy: true })
  const before = checks
  while (checks < before + 4) expect(await ready(url)).toMatchObject({ status: 'ready' })
  release()
  await Promise.all(reads)
  await expect.poll(() => ready(url)).toEqual({ status: 'ready' })
})

function held() {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  onTestFinished(release)
  return { release, released }
}

it('GET /ready: is not ready while its main writer gets no answer, and the check does not either', async () => {
  const { release, released } = held()
  let isStuck = false
  const target = await startProxy(await freshDatabase(), async (statement): Promise<Delivery> => {
    if (isStuck && /^\s*(insert into|update) fence/m.test(statement)) await released
    return 'passes'
  })
  const { counters, checkDatabase, databaseState } = openTestNth(target)
  await counters.incrementBy(key, 1)
  expect(await databaseState()).toMatchObject({ isAvailable: true })
  isStuck = true
  const change = counters.incrementBy(key, 1)
  await expect
    .poll(() => checkDatabase().catch(({ message }) => message))
    .toBe('Database unavailable: read-only.')
  expect(await databaseState()).toMatchObject({ isAvailable: false })
  isStuck = false
  release()
  await change
  await expect.poll(() => databaseState()).toMatchObject({ isAvailable: true })
})

it('health check: writes only where nothing was written for five seconds, and at most once a second, a row of no writer', async () => {
  const statements: string[] = []
  const target = await startProxy(await freshDatabase(), (statement) => {
    statements.push(statement.trim())
    return 'passes'
  })
  const { counters, checkDatabase } = openTestNth(target)
  const written = () => statements.filter((statement) => /values \(0, /.test(statement)).length
  const begun = performance.now()
  await Promise.all(upTo(100).map(checkDatabase))
  expect(written()).toBe(1)
  await counters.incrementBy(key, 1)
  const changedAt = performance.now()
  await expect
    .poll(async () => {
      await checkDatabase()
      return written()
    })
    .toBe(2)
  expect(performance.now() - changedAt).toBeGreaterThan(4900)
  expect(written()).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1000)
})

/** Health whose checks fail with an error, while there is one. */
function openHealth() {
  const said: string[] = []
  const state: { error: unknown; opened: number } = { error: undefined, opened: 0 }
  const answer = async () => {
    if (state.error) throw state.error
  }
  const health = new Health({
    notices: { ...SILENT, warn: (message) => said.push(message) },
    openProbe() {
      state.opened += 1
      return { read: answer, write: answer, close: async () => undefined }
    },
  })
  onTestFinished(() => health.close())
  const flush = (kind: string, cause?: unknown) => {
    health.attempting()
    health.attempted({ kind, cause })
  }
  return { health, flush, state, said }
}

function setClockByHand(): void {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
}

const REFUSED = Object.assign(new Error('Too many connections'), { errno: ER.CON_COUNT_ERROR })
const FULL = Object.assign(new Error('The table is full'), { errno: ER.RECORD_FILE_FULL })

it('health check: does not count conflicts, locked rows and refused changes, nor one failure', async () => {
  const { health, flush, said } = openHealth()
  for (const kind of ['conflict', 'conflict', 'locked', 'notLocked', 'broken', 'fault', 'stale'])
    flush(kind, REFUSED)
  for (const _ of upTo(5)) {
    flush('lost', REFUSED)
    flush('committed')
  }
  expect(await health.check()).toBe(true)
  expect(said).toEqual([])
  flush('lost', REFUSED)
  flush('conflict')
  flush('lost', REFUSED)
  await expect(health.check()).rejects.toThrow('Database unavailable: too many connections.')
})

it('health check: counts the success of a pool while there are too many connections for a check', async () => {
  const { health, state, said } = openHealth()
  setClockByHand()
  state.error = REFUSED
  for (const _ of upTo(5)) {
    health.answered()
    expect(await health.check()).toBe(false)
    vi.advanceTimersByTime(1000)
  }
  expect(said).toEqual([])
  vi.advanceTimersByTime(1000)
  await health.check().catch(() => undefined)
  vi.advanceTimersByTime(1000)
  await expect(health.check()).rejects.toThrow('Database unavailable: too many connections.')
})

it('health check: fails with its first check while the main writer gets no answer, and goes on if that check succeeds', async () => {
  setClockByHand()
  const { health, flush, state } = openHealth()
  flush('committed')
  health.attempting()
  vi.advanceTimersByTime(3001)
  expect(await health.check()).toBe(true)
  health.attempting()
  state.error = new LostAnswerError('silent')
  vi.advanceTimersByTime(3001)
  await expect(health.check()).rejects.toThrow('Database unavailable: unreachable.')
})

it('health check: keeps its connection while the checks succeed, and opens another one for each while something fails', async () => {
  setClockByHand()
  const { health, flush, state } = openHealth()
  const check = async () => {
    vi.advanceTimersByTime(1000)
    await health.check().catch(() => undefined)
    return state.opened
  }
  for (const _ of upTo(5)) expect(await check()).toBe(1)
  for (const _ of upTo(2)) flush('lost', REFUSED)
  // One with which it succeeds, and one for the next check.
  const opened = await check()
  expect(opened).toBe(3)
  expect(await check()).toBe(opened)
})

it('health check: finds out that its database is available again though nobody asks and nothing is flushed', async () => {
  const { flush, said } = openHealth()
  for (const _ of upTo(2)) flush('lost', REFUSED)
  expect(said).toEqual([expect.stringContaining('unavailable: too many connections (')])
  await expect.poll(() => said).toContain('Database available again.')
})

it('health check: says that the disk is full until no change has failed for that for ten seconds, whatever else succeeds or fails', async () => {
  setClockByHand()
  const { health, flush, state, said } = openHealth()
  const checkAfter = (ms: number) => {
    vi.advanceTimersByTime(ms)
    return health.check().catch(({ message }) => message)
  }
  flush('lost', FULL)
  for (const _ of upTo(3)) {
    flush('committed')
    flush('lost', REFUSED)
    expect(await checkAfter(9000)).toBe('Database unavailable: disk full.')
    health.poolFailed(FULL)
  }
  expect(await checkAfter(10_001)).toBe(true)
  expect(said).toEqual(['Database unavailable: disk full (The table is full).', 'Database available again.'])
  flush('lost', FULL)
  state.error = REFUSED
  expect(await checkAfter(10_001)).toBe('Database unavailable: too many connections.')
})

it('health check: logs two outages in a minute, however often the state changes, and one that lasts later', async () => {
  setClockByHand()
  const { health, flush, state, said } = openHealth()
  const fail = () => upTo(2).map(() => flush('lost', REFUSED))
  const outage = [
    'Database unavailable: too many connections (Too many connections).',
    'Database available again.',
  ]
  for (const _ of upTo(50)) {
    fail()
    flush('committed')
  }
  expect(said).toEqual([...outage, ...outage])
  state.error = REFUSED
  fail()
  vi.advanceTimersByTime(59_000)
  await expect(health.check()).rejects.toThrow('too many connections')
  expect(said).toHaveLength(4)
  vi.advanceTimersByTime(1000)
  await expect(health.check()).rejects.toThrow('too many connections')
  expect(said).toHaveLength(5)
  state.error = undefined
  vi.advanceTimersByTime(1000)
  expect(await health.check()).toBe(true)
  expect(said).toEqual([...outage, ...outage, ...outage])
})
