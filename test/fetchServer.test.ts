import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { fetchServer } from '../src/mysql/private/fetchServer.ts'
import { findUnpackedServer } from '../src/mysql/private/findServer.ts'
import { initialise } from '../src/mysql/private/initialise.ts'
import { startPrivateServer } from '../src/mysql/private/server.ts'
import { temporaryDirectory } from './support/nthProcess.ts'

const { signal } = new AbortController()

it("fetches the distribution's server and runs it from where it was unpacked", async () => {
  const directory = await temporaryDirectory()
  const root = join(directory, 'server')
  await fetchServer(root, signal)
  // What it fetched for unpacking is gone.
  expect(await readdir(directory)).toEqual(['server'])
  const program = await findUnpackedServer(root)
  if (!program) throw new Error('The unpacked server does not run')
  expect(program.kind).toBe('mariadb')
  const data = join(directory, 'data')
  await initialise(program, data, signal)
  const server = await startPrivateServer({ program, directory, data, onRestart: () => undefined, signal })
  onTestFinished(server.stop)
  const connection = await createConnection(server.target)
  const [rows] = await connection.query<RowDataPacket[]>(
    "select 'ready' as answer, @@innodb_flush_log_at_trx_commit as flush",
  )
  expect(rows).toEqual([{ answer: 'ready', flush: 1 }])
  await connection.end()
})

it('ends a fetch that is interrupted, and leaves nothing half done', async () => {
  const directory = await temporaryDirectory()
  const interruption = new AbortController()
  const fetching = fetchServer(join(directory, 'server'), interruption.signal)
  await expect.poll(() => readdir(directory)).toEqual(['server.partial'])
  interruption.abort()
  await expect(fetching).rejects.toThrow()
  expect(await readdir(directory)).toEqual([])
})
