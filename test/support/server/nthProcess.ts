import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Client, clientOf } from '../client/client.ts'
import { onFinished } from '../openOnce.ts'
import { makeTemporaryDirectory } from '../temporary.ts'
import { AMPLE_MS } from './nth.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** Lines at the level `info` that are about no request, and the one that says why it could not start. */
const PROGRESS = /^\{"level":(?:30|60),(?!.*"requestId").*\n/gm

export interface NthProcess extends Client {
  child: ChildProcess
  /** Everything it has printed so far, with the progress of its start as it is on a terminal. */
  output(): string
  /** The same as it was printed. */
  raw(): string
  /** The part of it on the standard error, with what is progress or an end as it is on a terminal. */
  errors(): string
  /** Its exit code, or the signal that ended it. */
  exited: Promise<number | NodeJS.Signals>
  /** Waits until it has printed a text; fails if it ends before. */
  printed(text: string): Promise<void>
}

/**
 * Starts the built service as `npm start` does, ended by force when the test has finished.
 *
 * @param before a program and its arguments, which starts what follows
 * @param directory where it was built: this checkout, or another version
 */
export function spawnNth(
  environment: Record<string, string>,
  before: readonly string[] = [],
  directory = ROOT,
): Omit<NthProcess, keyof Client> {
  const [program = process.execPath, ...args] = [...before, process.execPath, 'dist/bundle/main.js', 'start']
  const child = spawn(program, args, {
    cwd: directory,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PORT: '0',
      NTH_DATABASE_MEMORY_MB: '128',
      NTH_WRITE_TIMEOUT_MS: String(AMPLE_MS),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const listeners = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      text += chunk
      for (const listener of listeners) listener()
    })
  }
  const asOnTerminal = (lines: string) => lines.replace(PROGRESS, (line) => `${JSON.parse(line).msg}\n`)
  const output = () => asOnTerminal(text)
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on('close', (code, signal) => resolve(code ?? signal ?? 0))
  })
  onFinished(async () => {
    child.kill('SIGTERM')
    await exited
  })
  return {
    child,
    exited,
    output,
    raw: () => text,
    errors: () => asOnTerminal(errors),
    printed: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => output().includes(wanted) && resolve()
        listeners.add(look)
        look()
        exited.then((code) => reject(new Error(`Ended (${code}) before it printed "${wanted}": ${output()}`)))
      }),
  }
}

/** Starts the service and waits until it runs. */
export async function startNth(
  environment: Record<string, string>,
  before?: readonly string[],
  directory?: string,
): Promise<NthProcess> {
  const started = spawnNth(environment, before, directory)
  await started.printed('Nth is running')
  const url = /GraphQL\s+(\S+)\/graphql/.exec(started.output())?.[1] ?? ''
  return { ...started, ...clientOf(url) }
}

/** A directory for the data of an Nth: with the server program that the tests use, if that one was fetched. */
export async function dataDirectory(): Promise<string> {
  const path = await temporaryDirectory()
  const server = join(ROOT, '.nth/server')
  if (existsSync(server)) await symlink(server, join(path, 'server'))
  return path
}

/** A directory that is removed when the test has finished. */
export async function temporaryDirectory(): Promise<string> {
  const path = await makeTemporaryDirectory()
  onFinished(() => rm(path, { recursive: true, force: true }))
  return path
}
