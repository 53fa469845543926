import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { openPrivateDatabase, type PrivateDatabase } from '../../src/mysql/private/open.ts'

export const PATIENCE = { timeout: 30_000 }

/** Starts a private database server that a test may kill, freeze and start again. */
export async function privateServer(
  directory: string,
  say: (message: string) => void = () => undefined,
): Promise<PrivateDatabase> {
  const database = await openPrivateDatabase({
    directory,
    programs: join(import.meta.dirname, '../../.nth/server'),
    path: process.env.PATH ?? '',
    say,
    signal: new AbortController().signal,
  })
  onTestFinished(database.close)
  return database
}

/** Signals the database server in a directory, and waits until it is stopped if that is the signal. */
export async function signalServer(directory: string, signal: NodeJS.Signals): Promise<void> {
  await signalProcess(Number(await readFile(join(directory, 'server.pid'), 'utf8')), signal)
}

/** The same for any process. */
export async function signalProcess(pid: number, signal: NodeJS.Signals): Promise<void> {
  process.kill(pid, signal)
  // A process is stopped thread by thread.
  if (signal === 'SIGSTOP') await expect.poll(() => threadStates(pid), PATIENCE).toEqual(new Set(['T']))
}

async function threadStates(pid: number): Promise<Set<string>> {
  const threads = await readdir(`/proc/${pid}/task`)
  const stats = await Promise.all(threads.map((id) => readFile(`/proc/${pid}/task/${id}/stat`, 'utf8')))
  return new Set(stats.map((stat) => stat.slice(stat.lastIndexOf(')') + 2)[0] ?? ''))
}
