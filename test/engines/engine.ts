import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** What an engine can do, beside `start` and `hosts`. */
export type Harm = 'kill' | 'node' | 'freeze' | 'thaw' | 'cut' | 'heal' | 'stop'

/** A server that stores, by its number in the engine, from 1. */
export interface Node {
  number: number
  host: string
  port: number
}

/** The database under test: an executable that starts, harms and stops it. */
export type Engine = Awaited<ReturnType<typeof startEngine>>

const LIMIT_MS = 300_000

/**
 * Starts an engine, which the caller stops. If it fails, it is stopped here.
 *
 * @param options of its servers
 */
export async function startEngine(
  file: string,
  directory: string,
  port: number,
  options: readonly string[] = [],
) {
  const place = [directory, String(port)]
  const env = {
    ...process.env,
    ENGINE_OPTIONS: [process.env.ENGINE_OPTIONS ?? '', ...options].join(' ').trim(),
  }

  async function run(verb: string, ...more: string[]): Promise<string> {
    const args = [verb, ...more]
    // In a group of its own: a Ctrl-C must not end servers that are still counted on.
    const child = spawn(file, args, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT_MS,
      env,
    })
    let output = ''
    let errors = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    // Not `close`: servers that it starts may keep its output open.
    const [code, signal] = await once(child, 'exit')
    await new Promise(setImmediate)
    if (code !== 0)
      throw new Error(`${file} ${args.join(' ')} ended with ${code ?? signal}: ${errors || output}`)
    return output
  }

  try {
    await run('start', ...place)
    const nodes = parseHosts(await run('hosts', ...place))
    return {
      nodes,
      version: (await run('version')).trim(),
      /** Does something to one node, and waits until it is done. */
      harm: async (verb: Harm, node: Node) => void (await run(verb, ...place, String(node.number))),
      /** Starts all nodes again after all were ended, the one with the most transactions first. */
      startAgain: async () => void (await run('start', ...place)),
      stop: async () => void (await run('stop', ...place)),
    }
  } catch (error) {
    await run('stop', ...place).catch(() => undefined)
    throw error
  }
}

function parseHosts(text: string): Node[] {
  return text
    .trim()
    .split(',')
    .map((address, index) => {
      const [host = '', port = ''] = address.split(':')
      return { number: index + 1, host, port: Number(port) }
    })
}
