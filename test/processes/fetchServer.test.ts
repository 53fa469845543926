// @module-tag slow
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { initialise, startPrivateServer } from '../../src/mysql/privateServer.ts'
import {
  fetchServer,
  findServer,
  findUnpackedServer,
  type ServerProgram,
} from '../../src/mysql/serverProgram.ts'
import { SILENT } from '../../src/operations/log.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const { signal } = new AbortController()

it("private server: fetches the distribution's server and runs it from where it was unpacked", async () => {
  const directory = await temporaryDirectory()
  const root = join(directory, 'server')
  await fetchServer(root, signal)
  // What it fetched for unpacking is gone.
  expect(await readdir(directory)).toEqual(['server'])
  await expectToRun(await findUnpackedServer(root), directory)

  for (const name of ['mysql', 'mariadb'] as const) {
    await layOut(root, name)
    await expectToRun(await findUnpackedServer(root), await temporaryDirectory())
    // The same files as an installed server's: beside a program in PATH.
    await expectToRun(await findServer(await installed(root), ['mariadb']), await temporaryDirectory())
  }
})

it('private server: says which files a server lacks that comes without its system tables', {
  tags: 'quick',
}, async () => {
  const directory = await temporaryDirectory()
  const program = {
    kind: 'mariadb' as const,
    path: '/opt/mariadbd',
    command: ['/opt/mariadbd'] as [string],
    options: [],
    systemTables: [],
  }
  await expect(initialise(program, join(directory, 'data'), signal)).rejects.toThrow(
    'The server /opt/mariadbd lacks the files that create its system tables (mariadb_system_tables.sql)',
  )
})

it('private server: ends a fetch that is interrupted, and leaves nothing half done', async () => {
  const directory = await temporaryDirectory()
  const interruption = new AbortController()
  const fetching = fetchServer(join(directory, 'server'), interruption.signal)
  await expect.poll(() => readdir(directory)).toEqual(['server.partial'])
  interruption.abort()
  await expect(fetching).rejects.toThrow()
  expect(await readdir(directory)).toEqual([])
})

async function expectToRun(program: ServerProgram | undefined, directory: string): Promise<void> {
  if (!program) throw new Error('The server does not run')
  expect(program.kind).toBe('mariadb')
  const data = join(directory, 'data')
  await initialise(program, data, signal)
  const server = await startPrivateServer({
    program,
    directory,
    data,
    memoryMb: 128,
    notices: SILENT,
    signal,
  })
  onTestFinished(server.close)
  const connection = await createConnection(server.target)
  const [rows] = await connection.query<RowDataPacket[]>(
    "select 'ready' as answer, @@innodb_flush_log_at_trx_commit as flush",
  )
  expect(rows).toEqual([{ answer: 'ready', flush: 1 }])
  await connection.end()
}

/** Gives an unpacked server's files the names of Debian 12, which are MySQL's, or of Debian 13. */
async function layOut(root: string, name: 'mysql' | 'mariadb'): Promise<void> {
  const share = join(root, 'usr/share')
  const other = name === 'mysql' ? 'mariadb' : 'mysql'
  if (existsSync(join(share, other))) await rename(join(share, other), join(share, name))
  for (const part of ['system_tables', 'system_tables_data']) {
    const from = join(share, name, `${other}_${part}.sql`)
    if (existsSync(from)) await rename(from, join(share, name, `${name}_${part}.sql`))
  }
}

/** A folder for PATH with the unpacked server as a program that finds its libraries. */
async function installed(root: string): Promise<string> {
  const unpacked = await findUnpackedServer(root)
  if (!unpacked) throw new Error('The server does not run')
  const prefix = await temporaryDirectory()
  await symlink(join(root, 'usr/share'), join(prefix, 'share'))
  await mkdir(join(prefix, 'sbin'))
  const program = `#!/bin/sh\nexec ${unpacked.command.join(' ')} "$@" ${unpacked.options.join(' ')}\n`
  await writeFile(join(prefix, 'sbin/mariadbd'), program, { mode: 0o755 })
  return join(prefix, 'sbin')
}
