import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Connection, RowDataPacket } from 'mysql2/promise'

/** The project, whose service is measured as it was built. */
export const ROOT = new URL('../', import.meta.url)

/** Imports a file of `dist`, with the types of the source that it was built from. */
export function built<Module>(path: string): Promise<Module> {
  return import(new URL(`dist/${path}`, ROOT).href)
}

/** A process of the benchmark, which ends with it. */
export interface Child {
  process: ChildProcess
  /** Returns the first group of the pattern's match, as soon as that is printed; fails if the process ends before. */
  printed(pattern: RegExp): Promise<string>
  /** The code or the signal that it ended by. */
  ended: Promise<number | string>
  /** Ends it, and waits until it has ended. May be called again. */
  end(): Promise<void>
}

interface ChildOptions {
  env?: Record<string, string>
  /** Whether it and this process send each other messages. */
  hasMessages?: boolean
  /** Options of Node, for a program of the benchmark. */
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
    // All as in production: graphql-js checks more in development.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', ...options.env },
    stdio: ['ignore', 'pipe', 'inherit', ...(options.hasMessages ? ['ipc' as const] : [])],
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

const TSX = import.meta.resolve('tsx')

/** Starts a program of the benchmark. */
export function startProgram(file: string, args: string[] = [], options: ChildOptions = {}): Child {
  const path = fileURLToPath(new URL(file, import.meta.url))
  return startChild(process.execPath, [...(options.nodeFlags ?? []), '--import', TSX, path, ...args], options)
}

/** The options of Node in the first line of Nth's executable. */
export const NODE_FLAGS = (readFileSync(new URL('bin/nth.js', ROOT), 'utf8').split('\n')[0] ?? '')
  .split(' ')
  .filter((word) => word.startsWith('--'))

/** What a system prints when it serves, with its address. */
export const SERVES = /(?:Serving at|GraphQL) +(http:\/\/[^\s/]+)/

/** The resident memory of a process, in bytes (Linux). */
export function memoryOf(pid: number): number {
  return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Clock ticks of the kernel in a second. */
const TICKS_PER_SECOND = 100

/** The processor time that a process has used, in seconds (Linux). */
export function processorTimeOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

/** The processor time of a process's threads, in seconds (Linux): to the nanosecond, but without threads that have ended. */
export function exactTimeOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const timeOf = (thread: string) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0])
  return threads.reduce((sum, thread) => sum + timeOf(thread), 0) / 1e9
}

/** The processes that a process has started, in order (Linux). */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** The number of files and sockets that a process has open (Linux). */
export function filesOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

/** The process of a database server on this machine. */
export async function serverProcessOf(connection: Connection): Promise<number> {
  const [[row]] = await connection.query<RowDataPacket[]>(
    "select if(@@pid_file like '/%', @@pid_file, concat(@@datadir, @@pid_file)) as path",
  )
  return Number(readFileSync(row?.path, 'utf8'))
}
