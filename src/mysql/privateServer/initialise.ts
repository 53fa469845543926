import { spawn } from 'node:child_process'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { exists, withFreeSpace } from './files.ts'
import type { ServerProgram } from './findServer.ts'

/**
 * Creates the data files of a new server under `path`, unless they exist. They get that name only when complete, so an
 * interrupted start leaves no incomplete files there.
 *
 * Its user `root` has no password: the server only listens on a socket, in a directory private to its owner.
 */
export async function initialise(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  if (await exists(path)) return
  const partial = `${path}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { mode: 0o700 })
  await makeTemporaryFolder(partial)
  try {
    await makeSystemTables(program, partial, signal)
  } catch (error) {
    throw signal.aborted ? error : await withFreeSpace(error, dirname(path))
  }
  await rm(temporaryFolder(partial), { recursive: true })
  await rename(partial, path)
}

async function makeSystemTables(program: ServerProgram, path: string, signal: AbortSignal): Promise<void> {
  const options = commonOptions(program, path)
  if (program.kind === 'mysql') return run(program, [...options, '--initialize-insecure'], '', signal)
  const bootstrap = [...options, '--bootstrap', '--skip-networking', '--skip-log-bin']
  await run(program, bootstrap, await systemTables(program), signal)
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
  return [
    '--no-defaults',
    ...program.options,
    `--datadir=${path}`,
    `--tmpdir=${temporaryFolder(path)}`,
    ...user,
  ]
}

export async function makeTemporaryFolder(path: string): Promise<void> {
  await mkdir(temporaryFolder(path), { recursive: true, mode: 0o700 })
}

function temporaryFolder(path: string): string {
  return `${path}.tmp`
}

async function systemTables({ path, systemTables }: ServerProgram): Promise<string> {
  if (systemTables.length === 0) {
    throw new Error(
      `The server ${path} lacks the files that create its system tables (mariadb_system_tables.sql). Install its complete package, or set DATABASE_URL.`,
    )
  }
  const texts = await Promise.all(systemTables.map((file) => readFile(file, 'utf8')))
  return ['create database mysql;', 'use mysql;', ...texts, ''].join('\n')
}

function run(program: ServerProgram, args: string[], input: string, signal: AbortSignal): Promise<void> {
  const [command, ...words] = program.command
  const child = spawn(command, [...words, ...args], { stdio: ['pipe', 'ignore', 'pipe'], signal })
  let complaints = ''
  child.stderr.on('data', (chunk) => {
    complaints += chunk
  })
  // It may exit before it has read everything; exit code and stderr show why.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) return resolve()
      const reason = errorLines(complaints).join('\n')
      reject(new Error(`${program.path} could not create a new database (exit ${code}):\n${reason}`))
    })
  })
}

/** The errors in a server's log; all lines if none is marked as an error. */
function errorLines(log: string): string[] {
  const lines = log.trim().split('\n')
  const errors = lines.filter((line) => line.includes('[ERROR]'))
  return errors.length > 0 ? errors : lines
}
