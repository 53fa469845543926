import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

export const execute = promisify(execFile)

const START_TIME = 19

/** When a process started, as reported by the system; empty if unknown. */
export async function beginning(pid: number): Promise<string> {
  const fields = await statFields(pid)
  return fields?.[START_TIME] ?? (await ps(pid, 'lstart')) ?? ''
}

/**
 * Whether a process of this user still runs: `beganAt` distinguishes it from a later one with the same id. If the system
 * hides it, as from services of systemd with `ProtectProc=invisible`, it counts as running: a private database that is
 * used twice is worse than a start that is refused.
 */
export async function isRunning(pid: number, beganAt: string): Promise<boolean> {
  const found = await beginning(pid)
  return found === '' ? send(pid, 0) === 'sent' : (await isAlive(pid)) && found === beganAt
}

/** The command line of a running process, its words separated by spaces; undefined if there is none. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (!(await isAlive(pid))) return undefined
  const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined)
  return words?.replaceAll('\0', ' ') ?? ps(pid, 'command')
}

const POLL_MS = 20

/** Ends a process with SIGTERM, then with SIGKILL if it still runs after `timeoutMs`. */
export async function endProcess(pid: number, timeoutMs: number): Promise<void> {
  send(pid, 'SIGTERM')
  const deadline = performance.now() + timeoutMs
  while (await isAlive(pid)) {
    if (performance.now() > deadline) send(pid, 'SIGKILL')
    await pause(POLL_MS)
  }
}

async function isAlive(pid: number): Promise<boolean> {
  if (send(pid, 0) === 'missing') return false
  // A killed process stays a zombie until its parent waits for it, which some parents never do.
  return (await statFields(pid))?.[0] !== 'Z'
}

/** Sends a signal; 0 sends none. `denied`: the process is another user's. */
function send(pid: number, signal: NodeJS.Signals | 0): 'sent' | 'missing' | 'denied' {
  try {
    process.kill(pid, signal)
    return 'sent'
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return 'missing'
    if (signal !== 0) throw error
    return 'denied'
  }
}

/** The fields of Linux's /proc/pid/stat from the state on; the name before it may contain anything. */
async function statFields(pid: number): Promise<string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}

async function ps(pid: number, column: string): Promise<string | undefined> {
  try {
    const { stdout } = await execute('ps', ['-o', `${column}=`, '-p', String(pid)])
    return stdout.trim()
  } catch {
    return undefined
  }
}
