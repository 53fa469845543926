import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { FAULT_KINDS, type FaultKind } from './faultKinds.ts'

export const HELP = `Counts through two Nth servers on a database that fails in many ways, and checks every number.

  npm run faults -- --engine NAME [options]

  --engine <name>     a file of engines/, or the path of one that works like them
  --seconds <n>       how long faults are caused (120)
  --faults <kinds>    only these, with commas between them, or none: ${FAULT_KINDS.join(',')}
  --kills <n>         instead: kill a node that is written to n times and another one n times, without a time limit
  --flush <0|1|2>     innodb_flush_log_at_trx_commit of all nodes (1). With 0, commits are lost if all are killed at once:
                      it is checked that no server answers anything afterwards
  --callers <n>       how many callers there are, half of them at each server (64)
  --canary            instead: show that a transaction and a read in forms known to be unsafe on Galera fail here
  --port <n>          first port of the nodes (23000)
  --directory <path>  of their data, emptied first (/tmp/nth-faults)
  --help              this text

SEED=<n> repeats the random choices of a run.`

/** `kills`: how often a node of each sort is killed; undefined: `faults` are caused, for `seconds`. */
export type Options = NonNullable<ReturnType<typeof readOptions>>

/**
 * Reads the command line; undefined if it asks for help.
 *
 * @throws {Error} saying what is wrong with it
 */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      engine: { type: 'string' },
      seconds: { type: 'string', default: '120' },
      faults: { type: 'string', default: FAULT_KINDS.join(',') },
      kills: { type: 'string' },
      flush: { type: 'string', default: '1' },
      callers: { type: 'string', default: '64' },
      canary: { type: 'boolean', default: false },
      port: { type: 'string', default: '23000' },
      directory: { type: 'string', default: '/tmp/nth-faults' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  if (!values.engine) throw new Error('--engine is missing')
  return {
    engine: engineFile(values.engine),
    seconds: integer('--seconds', values.seconds),
    faults: values.faults === 'none' ? [] : values.faults.split(',').map(faultKind),
    kills: values.kills === undefined ? undefined : integer('--kills', values.kills),
    flush: integer('--flush', values.flush),
    callers: integer('--callers', values.callers),
    isCanary: values.canary,
    port: integer('--port', values.port),
    directory: resolve(values.directory),
    seed: integer('SEED', process.env.SEED || String(randomInt(2 ** 31))),
  }
}

function engineFile(name: string): string {
  const file = name.includes('/') ? resolve(name) : join(process.cwd(), 'engines', name)
  if (!existsSync(file)) throw new Error(`--engine: there is no ${file}`)
  return file
}

function faultKind(name: string): FaultKind {
  const kind = FAULT_KINDS.find((kind) => kind === name)
  if (!kind) throw new Error(`--faults: unknown fault "${name}"; known: ${FAULT_KINDS.join(', ')}`)
  return kind
}

function integer(name: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${name} must be an integer, not "${text}"`)
  return Number(text)
}
