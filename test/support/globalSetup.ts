import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import type { TestProject } from 'vitest/node'
import { openPrivateDatabase } from '../../src/mysql/privateServer.ts'
import { parseTargets, type Target } from '../../src/mysql/settings.ts'
import { SILENT } from '../../src/operations/log.ts'
import { findMysqlClient } from './database/fetchedProgram.ts'
import { hasFirstRelease } from './server/firstRelease.ts'
import { makeTemporaryDirectory } from './temporary.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The server that the tests make their databases on. */
    server: Target
    /** What the names of their databases begin with. */
    databasePrefix: string
    /** The seed of random tests. */
    seed: number
    /** How many times as long as usual the long random tests run; 0 if they run for short. */
    longRuns: number
  }
}

/**
 * Gives the tests a real server: the one of TEST_DATABASE_URL, a user's that may create databases, or a
 * private one that ends with the tests.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  console.log(`Random tests: SEED=${project.getProvidedContext().seed}`)
  if (!hasFirstRelease()) {
    console.log(
      'The first release is not in the history here: the tests of upgrades and of changes of the schema are left out. To run them: git fetch --unshallow',
    )
  }
  // Fetched here, as three files need it: each of them would do it at the same time.
  await findMysqlClient()
  const [server, built] = await Promise.allSettled([provideServer(project), bundle()])
  if (server.status === 'rejected') throw server.reason
  if (built.status === 'fulfilled') return server.value
  await server.value()
  throw built.reason
}

/** Tests start the bundle as a program, and visit its pages: after an edit they must not test what was built before it. */
async function bundle(): Promise<void> {
  const root = join(import.meta.dirname, '../..')
  const npm = spawn('npm', ['run', '--silent', 'bundle'], { cwd: root, stdio: 'inherit' })
  const [code] = await once(npm, 'exit')
  if (code !== 0) throw new Error('npm run bundle has failed')
}

/** Provides the server, and returns what ends it. */
async function provideServer(project: TestProject): Promise<() => Promise<void>> {
  const prefix = `nth_test_${randomBytes(3).toString('hex')}_`
  project.provide('databasePrefix', prefix)
  const url = process.env.TEST_DATABASE_URL
  if (url) {
    const [server] = parseTargets(new URL(url).pathname.length > 1 ? url : new URL('nth_test', url).href)
    project.provide('server', server)
    return () => dropDatabases(server, prefix)
  }
  const directory = await makeTemporaryDirectory()
  const database = await openPrivateDatabase({
    directory,
    // Shared with `npm start`, so that it is fetched once.
    programs: join(import.meta.dirname, '../../.nth/server'),
    path: process.env.PATH ?? '',
    memoryMb: 128,
    notices: { ...SILENT, info: console.log },
    signal: new AbortController().signal,
  })
  project.provide('server', database.target)
  return async () => {
    await database.close()
    await rm(directory, { recursive: true })
  }
}

/** The databases that the tests have kept for one another. */
async function dropDatabases({ database: _, ...server }: Target, prefix: string): Promise<void> {
  const connection = await createConnection(server)
  const [rows] = await connection.query<RowDataPacket[]>(
    `select schema_name as name from information_schema.schemata where schema_name like '${prefix}%'`,
  )
  for (const { name } of rows) await connection.query(`drop database ${name}`)
  await connection.end()
}
