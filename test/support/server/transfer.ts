import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { vi } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'
import { urlOf } from '../database/database.ts'
import { temporaryDirectory } from './nthProcess.ts'

const ROOT = join(import.meta.dirname, '../../..')

export interface Ended {
  /** The exit code, or the signal that ended it. */
  code: number | NodeJS.Signals
  output: string
  /** What it says of its work, without the log. */
  errors: string
  /** The changes that it has logged. */
  audit: object[]
}

/** Starts the built command on a database. */
export function startCommand(target: Target, args: string[], environment: Record<string, string> = {}) {
  return spawnCommand(args, { DATABASE_URL: urlOf(target), ...environment })
}

function spawnCommand(
  args: readonly string[],
  environment: Record<string, string>,
  directory = ROOT,
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, ['dist/bundle/main.js', ...args], {
    cwd: directory,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      NTH_DATABASE_MEMORY_MB: '128',
      ...environment,
    },
  })
  const parts = { output: [] as Buffer[], errors: [] as Buffer[] }
  child.stdout.on('data', (chunk) => parts.output.push(chunk))
  child.stderr.on('data', (chunk) => parts.errors.push(chunk))
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code, signal) => {
      const lines = Buffer.concat(parts.errors).toString().split('\n')
      const isLogged = (line: string) => line.startsWith('{"level":')
      resolve({
        code: code ?? signal ?? 0,
        output: Buffer.concat(parts.output).toString(),
        errors: lines.filter((line) => !isLogged(line)).join('\n'),
        audit: lines.filter(isLogged).map((line) => JSON.parse(line).audit),
      })
    })
  })
  return { child, ended }
}

/** Runs the built command on a database, with a text as its standard input. */
export function runCommand(
  target: Target,
  args: string[],
  input: string | Buffer = '',
  environment?: Record<string, string>,
): Promise<Ended> {
  const { child, ended } = startCommand(target, args, environment)
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input)
  return ended
}

/** Runs the built command with some variables, as it was built in a directory. */
export function runNth(
  args: readonly string[],
  environment: Record<string, string> = {},
  directory?: string,
): Promise<Ended> {
  const { child, ended } = spawnCommand(args, environment, directory)
  child.stdin?.end()
  return ended
}

/** Runs a command in this process, which takes a tenth of the time of another one, and returns why it fails. */
export async function failureOf(
  run: (args: string[]) => Promise<void>,
  args: readonly string[],
  target?: Target,
): Promise<string> {
  vi.stubEnv('DATABASE_URL', target ? urlOf(target) : 'mysql://nobody@127.0.0.1:1/nth')
  try {
    await run([...args])
  } catch (error) {
    return (error as Error).message
  } finally {
    vi.unstubAllEnvs()
  }
  throw new Error(`${args.join(' ')} did not fail`)
}

/** Exports a database. */
export async function exported(target: Target, ...options: string[]): Promise<string> {
  const { code, output, errors } = await runCommand(target, ['export', ...options])
  if (code !== 0) throw new Error(errors)
  return output
}

/** Imports a text, from a file. */
export async function imported(target: Target, text: string | Buffer, ...options: string[]): Promise<Ended> {
  return runCommand(target, ['import', await fileOf(text), ...options])
}

/** Restores the text of an export or a backup into an empty database. */
export async function restored(target: Target, text: string, ...options: string[]): Promise<Ended> {
  return runCommand(target, ['restore', await fileOf(text), ...options])
}

/** A file with a text, which is removed when the test has finished. */
export async function fileOf(text: string | Buffer, name = 'file'): Promise<string> {
  const path = join(await temporaryDirectory(), name)
  await writeFile(path, text)
  return path
}

export function readText(path: string): Promise<string> {
  return readFile(path, 'utf8')
}

export interface Line {
  type: string
  [field: string]: unknown
}

/** The lines of an export between the first and the last one. */
export function entriesIn(text: string): Line[] {
  return text
    .trimEnd()
    .split('\n')
    .slice(1, -1)
    .map((line) => JSON.parse(line))
}

/** A file of an export with some lines. */
export function fileWith(lines: readonly Line[]): string {
  const all = [
    { type: 'nth', formatVersion: 1, version: '0.2.0', at: '2026-11-20T00:00:00.000Z' },
    ...lines,
    { type: 'end', lines: lines.length },
  ]
  return all.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** The line of a counter that counts by the defaults. */
export function counterLine(name: string, value: number, fields: object = {}): Line {
  return {
    type: 'counter',
    namespace: 'default',
    name,
    value,
    definition: {
      minValue: null,
      maxValue: null,
      overflow: 'REJECT',
      slots: 1,
      timeZone: 'UTC',
      periods: [
        { period: 'HOUR', keepDays: 90, since: null },
        { period: 'DAY', keepDays: null, since: null },
        { period: 'MONTH', keepDays: null, since: null },
      ],
    },
    createdAt: '2026-11-01T00:00:00.000Z',
    updatedAt: '2026-11-01T00:00:00.000Z',
    history: {},
    ...fields,
  }
}

/** A directory for commands, which has `nth` in its path, for a database. */
export async function commandEnvironment(databaseUrl: string): Promise<NodeJS.ProcessEnv> {
  const directory = await temporaryDirectory()
  const nth = join(directory, 'nth')
  await writeFile(nth, `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/bundle/main.js')} "$@"\n`)
  await chmod(nth, 0o755)
  return { HOME: directory, PATH: `${directory}:${process.env.PATH}`, DATABASE_URL: databaseUrl }
}
