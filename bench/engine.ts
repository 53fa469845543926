import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ROOT } from './built.ts'

const execute = promisify(execFile)

/** A database engine of `engines/`, running on this machine. */
export interface Engine {
  /** Its name and version. */
  version: string
  /** host:port of its nodes. */
  hosts: string[]
  stop(): Promise<void>
}

/**
 * Starts an engine with all of its nodes.
 *
 * @param port the first of those that it may use, of which it takes up to 40
 */
export async function startEngine(name: string, directory: string, port: number): Promise<Engine> {
  const program = fileURLToPath(new URL(`engines/${name}`, ROOT))
  const place = [join(directory, name), String(port)]
  const run = async (command: string, ...args: string[]) =>
    (await execute(program, [command, ...args])).stdout.trim()
  const stop = async () => void (await run('stop', ...place))
  try {
    await run('start', ...place)
    return { version: await run('version'), hosts: (await run('hosts', ...place)).split(','), stop }
  } catch (error) {
    await stop()
    throw error
  }
}
