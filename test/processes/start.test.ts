// @module-tag slow
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createConnection } from 'mysql2/promise'
import { expect, inject, it, onTestFinished } from 'vitest'
import { Hosts } from '../../src/mysql/hosts.ts'
import { untilReady } from '../../src/mysql/ready.ts'
import { SILENT } from '../../src/operations/log.ts'
import { withMigrationLock } from '../../src/repository/migrate.ts'
import { clientOf, upTo } from '../support/client/client.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { freePort } from '../support/server/freePort.ts'
import { dataDirectory, spawnNth, startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { databaseOf, isAlive } from '../support/server/processes.ts'

const INCREMENT = 'mutation { increment(name: "c") { value } }'

const isServerRunning = (directory: string) =>
  // MariaDB removes the file when it ends in order.
  databaseOf(directory).then(isAlive, () => false)

it('nth start: prints where everything is, and ends everything on a signal, the database last, with its counts kept', {
  tags: 'quick',
}, async () => {
  const directory = await dataDirectory()
  for (const [index, signal] of (['SIGTERM', 'SIGINT', 'SIGHUP'] as const).entries()) {
    const nth = await startNth({ NTH_DATA_DIR: directory })
    await nth.printed('curl ')
    for (const line of [`${nth.url}/graphql in a browser`, `Home      ${nth.url}/`, directory])
      expect(nth.output()).toContain(line)
    expect((await nth.ask(INCREMENT)).increment.value).toBe(index + 1)
    expect(await isServerRunning(directory)).toBe(true)
    nth.child.kill(signal)
    // As npm hands a Ctrl-C on, which the process also received itself: a moment later.
    await pause(50)
    nth.child.kill(signal)
    expect(await nth.exited).toBe(0)
    expect(await isServerRunning(directory)).toBe(false)
    expect(await readdir(directory)).not.toContain('nth.lock')
  }
})

const ADMIN_KEY = 'a-secret-of-these-tests-with-enough-characters'

it.each<Record<string, string>>([{}, { NTH_ANONYMOUS: 'ADD' }, { NTH_ADMIN_KEY: ADMIN_KEY }])(
  'nth start: says with which command to try it, and that works: %j',
  async (environment) => {
    const nth = await startNth({ DATABASE_URL: urlOf(await freshDatabase()), ...environment })
    await nth.printed('curl ')
    const command = /^ *(curl .*)$/m.exec(nth.output())?.[1] ?? ''
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `${command} -s`], {
      env: { PATH: process.env.PATH, ...environment },
    })
    expect(JSON.parse(stdout)).toEqual({ data: { increment: { value: 1 } } })
  },
)

it('nth start: says that a key is needed to try it, where nobody may count without one', async () => {
  const nth = await startNth({ DATABASE_URL: urlOf(await freshDatabase()), NTH_ANONYMOUS: 'READ' })
  await nth.printed('with a key of nth keys create --label hello --allow ADD')
  await nth.printed("-H 'authorization: Bearer nth_…'")
})

it('nth start: finishes what it has accepted when it receives a signal to end, and accepts nothing more', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  const nth = await startNth({ DATABASE_URL: urlOf(target) })
  await nth.ask(INCREMENT)
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  await holder.query('select * from counter_value for update')
  const answer = nth.ask(INCREMENT)
  const waiting = `select count(*) as n
    from information_schema.processlist
   where db = database() and info like 'update fence straight_join counter_value%'`
  await expect.poll(async () => (await query(target, waiting))[0]?.n).toBe(1)
  nth.child.kill('SIGTERM')
  await expect
    .poll(() =>
      fetch(nth.url).then(
        () => 'answered',
        () => 'refused',
      ),
    )
    .toBe('refused')
  await holder.query('rollback')
  expect((await answer).increment.value).toBe(2)
  expect(await nth.exited).toBe(0)
})

it('nth start: is held off a data directory by the Nth that uses it, and takes over from one that was killed', {
  tags: 'quick',
}, async () => {
  const directory = await dataDirectory()
  const first = await startNth({ NTH_DATA_DIR: directory })
  await first.ask(INCREMENT)
  const second = spawnNth({ NTH_DATA_DIR: directory })
  expect(await second.exited).toBe(1)
  expect(second.output()).toMatch(
    new RegExp(`is in use by another Nth, process ${first.child.pid}, .*NTH_DATA_DIR`),
  )
  expect((await first.ask(INCREMENT)).increment.value).toBe(2)

  first.child.kill('SIGKILL')
  await first.exited
  const third = await startNth({ NTH_DATA_DIR: directory })
  expect((await third.ask(INCREMENT)).increment.value).toBe(3)
  third.child.kill('SIGKILL')
  await third.exited
  await expect.poll(() => isServerRunning(directory)).toBe(false)
})

it.each([
  [{ PORT: 'http' }, 'PORT must be a port from 0 to 65535'],
  [{ NTH_ADMINKEY: 'x' }, 'NTH_ADMINKEY is not a variable of Nth'],
  [{ HOST: '203.0.113.1' }, '203.0.113.1 is not an address of this machine. Set HOST to one that is'],
  [
    { HOST: 'no-such-host.invalid' },
    'The name no-such-host.invalid could not be resolved. Set HOST to an address of this machine',
  ],
  [{ HOST: 'no-such-host.invalid', WORKERS: '3' }, 'The name no-such-host.invalid could not be resolved'],
  [
    { NTH_METRICS_PORT: '0', NTH_METRICS_HOST: '203.0.113.1' },
    '203.0.113.1 is not an address of this machine. Set NTH_METRICS_HOST to one that is',
  ],
])('nth start: refuses %j with a line that says why, before anything starts', async (environment, line) => {
  const directory = await temporaryDirectory()
  const nth = spawnNth({ NTH_DATA_DIR: join(directory, 'data'), NTH_ANONYMOUS: 'READ', ...environment })
  expect(await nth.exited).toBe(1)
  expect(nth.errors().trim().split('\n')).toEqual([expect.stringContaining(line)])
  // Where a lock was taken, it was given back.
  expect(await readdir(join(directory, 'data')).catch(() => [])).toEqual([])
})

it('NTH_DATA_DIR: nobody else reaches its database, whose temporary files are its own', async () => {
  const directories = await Promise.all([dataDirectory(), dataDirectory()])
  for (const directory of directories) await chmod(directory, 0o755)
  await Promise.all(directories.map((NTH_DATA_DIR) => startNth({ NTH_DATA_DIR })))
  const modeOf = async (path: string) => (await stat(path)).mode & 0o777
  for (const directory of directories) {
    const [data = ''] = (await readdir(directory)).filter((name) => name.startsWith('data-'))
    expect(await modeOf(join(directory, 'run'))).toBe(0o700)
    expect((await modeOf(join(directory, data))) & 0o077).toBe(0)
    const target = { socketPath: join(directory, 'run/server.sock'), user: 'root', database: 'nth' }
    const [row] = await query(target, 'select @@tmpdir as folder')
    expect(row?.folder).toMatch(new RegExp(`^${directory}/`))
  }
})

it('nth start: lets only one of many that start at once use a directory', async () => {
  const directory = await dataDirectory()
  const many = Array.from({ length: 4 }, () => spawnNth({ NTH_DATA_DIR: directory }))
  const outcomes = await Promise.all(
    many.map((nth) =>
      nth.printed('Nth is running').then(
        () => 'runs',
        () => 'refused',
      ),
    ),
  )
  expect(outcomes.toSorted()).toEqual(['refused', 'refused', 'refused', 'runs'])
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome === 'refused') expect(many[index]?.output()).toContain('is in use by another Nth')
  }
})

/** A port that something listens on until the test has finished: a given one, or any. */
async function occupy(port: number): Promise<number> {
  const other = createServer().listen(port, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  return Number(Object(other.address()).port)
}

it('nth start: accepts no connection before it can answer a request on it', async () => {
  const port = await freePort()
  const starting = spawnNth({ DATABASE_URL: urlOf(await freshDatabase()), PORT: String(port) })
  let answered = 0
  const failures: unknown[] = []
  /** Sends one request on a connection of its own. */
  const request = async () => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'))
    const [answer] = await once(socket, 'data').finally(() => socket.destroy())
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /)
    answered += 1
  }
  const sendAll = async () => {
    while (answered < 10)
      await request().catch((error) => error.code === 'ECONNREFUSED' || failures.push(error))
  }
  await Promise.all(upTo(8).map(sendAll))
  await starting.printed('Nth is running')
  expect(failures).toEqual([])
})

/** What a start prints on its standard error when its port is taken. */
const inUse = (port: number, variable = 'PORT') =>
  `Port ${port} of 127.0.0.1 is in use. Set ${variable} to another one, or to 0 for any free port.\n`

it.each<[Record<string, string>, string]>([
  [{ WORKERS: '1' }, 'PORT'],
  [{ WORKERS: '2' }, 'PORT'],
  [{}, 'NTH_METRICS_PORT'],
])(
  'nth start: says that a port is taken, before a database is made: %j %s',
  { tags: 'quick' },
  async (environment, variable) => {
    const port = await occupy(0)
    const directory = join(await temporaryDirectory(), 'data')
    const nth = spawnNth({ NTH_DATA_DIR: directory, ...environment, [variable]: String(port) })
    expect(await nth.exited).toBe(1)
    expect(nth.errors()).toBe(inUse(port, variable))
    expect(await readdir(directory)).toEqual([])
  },
)

/** Root may use any port unless it starts a program without this privilege. */
const UNPRIVILEGED = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-net_bind_service'] : []

it.each([
  [{ PORT: '1', WORKERS: '1' }, 'PORT'],
  [{ PORT: '1', WORKERS: '2' }, 'PORT'],
  [{ NTH_METRICS_PORT: '1' }, 'NTH_METRICS_PORT'],
])('nth start: says that it may not use a low port, %j', async (environment, variable) => {
  const nth = spawnNth({ DATABASE_URL: urlOf(await freshDatabase()), ...environment }, UNPRIVILEGED)
  expect(await nth.exited).toBe(1)
  expect(nth.errors()).toBe(
    `Nth may not listen on port 1 of 127.0.0.1: low ports need a privilege. Set ${variable} to 1024 or more.\n`,
  )
})

/** Starts an Nth that has to wait until the lock of the migration is released, and meanwhile does something. */
async function startBehindMigration(environment: Record<string, string>, meanwhile: () => Promise<unknown>) {
  const target = await freshDatabase({ migrated: false })
  const waiting = `select id from information_schema.processlist
                    where db = '${target.database}' and info like 'select id from migration_lock%'`
  return withMigrationLock(target, async () => {
    const nth = spawnNth({ DATABASE_URL: urlOf(target), ...environment })
    await expect.poll(() => query(target, waiting)).toHaveLength(1)
    await meanwhile()
    return nth
  })
}

it.each(['1', '2'])('nth start: listens only once it can serve, with %s workers', async (WORKERS) => {
  const port = await freePort()
  const { send } = clientOf(`http://127.0.0.1:${port}`)
  const attempt = () => send(INCREMENT).catch(() => 'refused')
  const nth = await startBehindMigration({ PORT: String(port), WORKERS }, async () => {
    expect(await attempt()).toBe('refused')
  })
  const ended = nth.exited.then(() => 'ended')
  let outcome: unknown = 'refused'
  while (outcome === 'refused') outcome = await Promise.race([attempt(), ended])
  expect(outcome).toEqual({ data: { increment: { value: 1 } } })
})

it.each(['1', '2'])(
  'nth start: says that its port was taken while it started, with %s workers',
  async (WORKERS) => {
    const port = await freePort()
    const nth = await startBehindMigration({ PORT: String(port), WORKERS }, () => occupy(port))
    expect(await nth.exited).toBe(1)
    expect(nth.errors()).toBe(inUse(port))
  },
)

it.each(['1', '2'])(
  'nth start: ends on a signal while it waits for a database that is down, with %s workers',
  async (WORKERS) => {
    const nth = spawnNth({ DATABASE_URL: 'mysql://root@127.0.0.1:1/nth', WORKERS })
    await nth.printed('Waiting for the database nth at 127.0.0.1:1, up to 30 seconds')
    nth.child.kill('SIGTERM')
    expect(await nth.exited).toBe(0)
  },
)

it('nth start: gives up on a database that does not answer, or that refuses the user', {
  tags: 'quick',
}, async () => {
  const { signal } = new AbortController()
  const messages: string[] = []
  const down = { host: '127.0.0.1', port: 1, user: 'root', database: 'nth' }
  const notices = { ...SILENT, info: (message: string) => messages.push(message) }
  await expect(untilReady(new Hosts([down]), { notices, signal, timeoutMs: 600 })).rejects.toThrow(
    'The database nth at 127.0.0.1:1 did not answer within 0.6 seconds: connect ECONNREFUSED 127.0.0.1:1. Start it, or correct DATABASE_URL.',
  )
  expect(messages).toHaveLength(1)
  const stranger = { ...inject('server'), user: 'stranger', password: 'x' }
  await expect(untilReady(new Hosts([stranger]), { notices, signal })).rejects.toThrow(
    /refuses the connection: Access denied/,
  )
})

it('nth start: creates the database that a server lacks', { tags: 'quick' }, async () => {
  const target = await freshDatabase({ migrated: false })
  const missing = { ...target, database: `${target.database}_made` }
  const nth = await startNth({ DATABASE_URL: urlOf(missing) })
  onTestFinished(async () => {
    await query(target, `drop database ${missing.database}`)
  })
  expect((await nth.ask(INCREMENT)).increment.value).toBe(1)
})

it('nth start: keeps its data under a path that is too long for a socket', async () => {
  const directory = join(await temporaryDirectory(), 'd'.repeat(120))
  await mkdir(directory)
  const nth = await startNth({ NTH_DATA_DIR: directory })
  expect((await nth.ask(INCREMENT)).increment.value).toBe(1)
})
