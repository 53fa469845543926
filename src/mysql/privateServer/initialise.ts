import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import type { ServerProgram } from './findServer.ts'
import { execute } from './processes.ts'

/**
 * Creates the data files of a new server under `path`, unless they exist. They get that name only when complete, so an
 * interrupted start leaves no incomplete files there.
 *
 * Its user `root` has no password: the server only listens on a socket, in a directory private to its owner.
 */
export async function initialise(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  if (existsSync(path)) return
  const partial = `${path}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { mode: 0o700 })
  await makeTemporaryFolder(partial)
  await makeSystemTables(program, partial, signal)
  await rm(temporaryFolder(partial), { recursive: true })
  await rename(partial, path)
}

async function makeSystemTables(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  const options = commonOptions(program, path)
  if (program.kind === 'mysql') return run(program, [...options, '--initialize-insecure'], '', signal)
  if (program.systemTables.length === 0) {
    throw new Error(
      `The server ${program.path} lacks the files that create its system tables (mariadb_system_tables.sql). Install its complete package, or set DATABASE_URL.`,
    )
  }
  const texts = await Promise.all(program.systemTables.map((file) => readFile(file, 'utf8')))
  const input = ['create database mysql;', 'use mysql;', ...texts, ''].join('\n')
  await run(program, [...options, '--bootstrap', '--skip-networking', '--skip-log-bin'], input, signal)
}

/**
 * Options for every start of a server on these files. The first one must stay first.
 *
 * Temporary files are stored beside the data: on start, MariaDB deletes the temporary files in its folder for them, and
 * in a shared one they would be another server's.
 */
export function commonOptions(program: ServerProgram, path: string): string[] {
  // As root, a server only runs with this option.
  const user = process.getuid?.() === 0 ? ['--user=root'] : []
  const folders = [`--datadir=${path}`, `--tmpdir=${temporaryFolder(path)}`]
  return ['--no-defaults', ...program.options, ...folders, ...user]
}

export async function makeTemporaryFolder(path: string): Promise<void> {
  await mkdir(temporaryFolder(path), { recursive: true, mode: 0o700 })
}

function temporaryFolder(path: string): string {
  return `${path}.tmp`
}

async function run(
  program: ServerProgram,
  args: string[],
  input: string,
  signal: AbortSignal,
): Promise<void> {
  const [command, ...words] = program.command
  const running = execute(command, [...words, ...args], { signal })
  // It may exit before it has read everything; exit code and stderr show why.
  running.child.stdin?.on('error', () => undefined).end(input)
  await running.catch((error) => {
    if (signal.aborted) throw error
    const lines = error.stderr.trim().split('\n')
    const errors = lines.filter((line: string) => line.includes('[ERROR]'))
    const reason = (errors.length > 0 ? errors : lines).join('\n')
    throw new Error(`${program.path} could not create a new database (exit ${error.code}):\n${reason}`)
  })
}
