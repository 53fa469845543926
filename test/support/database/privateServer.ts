import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import {
  initialise,
  openPrivateDatabase,
  type PrivateDatabase,
  serverProgram,
  startPrivateServer,
} from '../../../src/mysql/privateServer.ts'
import type { ServerProgram } from '../../../src/mysql/serverProgram.ts'
import { SILENT } from '../../../src/operations/log.ts'
import { onFinished } from '../openOnce.ts'

const PROGRAMS = join(import.meta.dirname, '../../../.nth/server')

/** Starts a private database server that a test may kill, freeze and start again. */
export async function privateServer(
  directory: string,
  say: (message: string) => void = () => undefined,
  memoryMb = 128,
): Promise<PrivateDatabase> {
  const database = await openPrivateDatabase({
    directory,
    programs: PROGRAMS,
    path: process.env.PATH ?? '',
    memoryMb,
    notices: { ...SILENT, info: say },
    signal: new AbortController().signal,
  })
  onFinished(database.close)
  return database
}

/** The program that private servers of the tests run. */
export function serverProgramForTests(): Promise<ServerProgram> {
  return serverProgram({
    root: PROGRAMS,
    kinds: ['mariadb', 'mysql'],
    path: process.env.PATH ?? '',
    notices: SILENT,
    signal: new AbortController().signal,
  })
}

/** Starts a private database server with options of a test's own. They come last, so they override its usual ones. */
export async function privateServerWith(
  directory: string,
  options: string[],
): Promise<PrivateDatabase['target']> {
  const { signal } = new AbortController()
  const found = await serverProgramForTests()
  const data = join(directory, 'data')
  await initialise(found, data, signal)
  const program: ServerProgram = {
    ...found,
    command: ['/bin/sh', '-c', `exec "$@" ${options.join(' ')}`, 'sh', ...found.command],
  }
  const server = await startPrivateServer({
    program,
    directory,
    data,
    memoryMb: 128,
    notices: SILENT,
    signal,
  })
  onFinished(server.close)
  return server.target
}

/** Signals the database server in a directory, and waits until it is stopped if that is the signal. */
export async function signalServer(directory: string, signal: NodeJS.Signals): Promise<void> {
  await signalProcess(Number(await readFile(join(directory, 'server.pid'), 'utf8')), signal)
}

/** The same for any process. */
export async function signalProcess(pid: number, signal: NodeJS.Signals): Promise<void> {
  process.kill(pid, signal)
  // A process is stopped thread by thread.
  if (signal === 'SIGSTOP') await expect.poll(() => threadStates(pid)).toEqual(new Set(['T']))
}

async function threadStates(pid: number): Promise<Set<string>> {
  const threads = await readdir(`/proc/${pid}/task`)
  const stats = await Promise.all(threads.map((id) => readFile(`/proc/${pid}/task/${id}/stat`, 'utf8')))
  return new Set(stats.map((stat) => stat.slice(stat.lastIndexOf(')') + 2)[0] ?? ''))
}
