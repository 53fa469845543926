import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ROOT } from './built.ts'

/** A process of the benchmark's own, which ends with it. */
export interface Child {
  process: ChildProcess
  /** The first part of what it matches, as soon as that is printed; fails if the process ends before. */
  printed(pattern: RegExp): Promise<string>
  /** The code or the signal that it ended by. */
  ended: Promise<number | string>
  /** Ends it, and waits until it has ended. May be called again. */
  end(): Promise<void>
}

export interface ChildOptions {
  env?: Record<string, string>
  /** Whether it and this process send each other messages. */
  talks?: boolean
}

export interface ProgramOptions extends ChildOptions {
  nodeFlags?: readonly string[]
}

const SETPRIV = '/usr/bin/setpriv'

/** Starts a program. On Linux the kernel ends it when this process ends, however that comes. */
export function startChild(program: string, args: string[], options: ChildOptions = {}): Child {
  const words = [program, ...args]
  const [command = program, ...rest] = existsSync(SETPRIV)
    ? [SETPRIV, '--pdeathsig', 'TERM', '--', ...words]
    : words
  const child = spawn(command, rest, {
    cwd: fileURLToPath(ROOT),
    env: { ...environment, ...options.env },
    stdio: ['ignore', 'pipe', 'inherit', ...(options.talks ? ['ipc' as const] : [])],
    // Away from the terminal's process group: Ctrl-C is for this process, which ends its children.
    detached: true,
  })
  const ended = new Promise<number | string>((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('exit', (code, signal) => resolve(signal ?? `exit ${code}`))
  })
  let output = ''
  child.stdout?.on('data', (chunk) => {
    output += chunk
  })

  return {
    process: child,
    ended,

    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(output)
          if (!match) return
          child.stdout?.off('data', look)
          resolve(match[1] ?? '')
        }
        child.stdout?.on('data', look)
        look()
        ended.then((how) => reject(new Error(`${words.join(' ')} ended (${how}): ${output}`)))
      }),

    async end() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** Starts a program of the benchmark. */
export function startProgram(file: string, args: string[] = [], options: ProgramOptions = {}): Child {
  const { nodeFlags = [], ...rest } = options
  return startChild(
    process.execPath,
    [...nodeFlags, '--import', TSX, fileURLToPath(new URL(file, import.meta.url)), ...args],
    rest,
  )
}

const TSX = import.meta.resolve('tsx')

// All of them as in production: graphql-js checks more where it doesn't know.
const environment = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  NODE_ENV: 'production',
}
