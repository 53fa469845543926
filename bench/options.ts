import { parseArgs } from 'node:util'
import { type System, systems } from './systems.ts'
import { clusters, ratios, type Workload, workloads } from './workloads.ts'

export interface Options {
  mode: 'bench' | 'beside' | 'charges' | 'gate' | 'holds' | 'live' | 'mixed' | 'tickets'
  rounds: number
  seconds: number
  warmupSeconds: number
  /** How far the database is away, in each direction. */
  distanceMs: number
  /** How long the mixed load takes. */
  minutes: number
  systems: readonly System[]
  workloads: readonly Workload[]
}

export const HELP = `Measures Nth beside other ways to count, all in one run, and checks every number that they issue.
Prints tables as Markdown, and its progress to the error output. Ends with 1 at any wrong number or error.

  npm run bench -- [options]

  --rounds <n>     number of measurements of each, one round of all after the other; the medians are shown (3)
  --seconds <s>    duration of each measurement (4)
  --warmup <s>     duration of the load before each measurement (1)
  --distance <ms>  distance of the database from all systems, in each direction (0)
  --only <ids>     only these systems and workloads, with commas between them; may be repeated
  --beside         only how long a caller waits beside others that ask for much, and alone (5 minutes)
  --cluster        only one database server beside clusters, on engines of \`engines/\` (10 minutes)
  --gate           only the processor time of a call, beside Nth in memory; before and after a change (3 minutes)
  --charges        only what each value costs that a request is charged for, beside that of a list (20 minutes)
  --holds          only what holds cost, beside increments and a transaction each (6 minutes)
  --live           only what a change costs with a thousand subscribers, beside without (2 minutes)
  --mixed          only everything at once on two workers; checks memory, connections and numbers
  --minutes <n>    duration of the mixed load (10)
  --ratios         only what Nth is to reach beside what a team would write by hand
  --tickets        only 2 boards x 10 callers x 1 000 tickets without HTTP, beside SERIALIZABLE transactions
  --help           this text

Systems:   ${systems.map(({ id }) => id).join(' ')}
Workloads: ${workloads.map(({ id }) => id).join(' ')}

For instance: npm run bench -- --rounds 5 --only nth,ceiling,hot@64
              npm run bench -- --only nth,uniform@64,million
              npm run bench -- --distance 1 --only nth,recipe,hot@1,hot@64,hot@256`

/**
 * Reads the command line; undefined if it asks for help.
 *
 * @throws {Error} saying which argument is invalid
 */
export function readOptions(args: string[]): Options | undefined {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '4' },
      warmup: { type: 'string', default: '1' },
      distance: { type: 'string', default: '0' },
      only: { type: 'string', multiple: true, default: [] },
      minutes: { type: 'string', default: '10' },
      beside: { type: 'boolean', default: false },
      cluster: { type: 'boolean', default: false },
      charges: { type: 'boolean', default: false },
      gate: { type: 'boolean', default: false },
      holds: { type: 'boolean', default: false },
      live: { type: 'boolean', default: false },
      mixed: { type: 'boolean', default: false },
      ratios: { type: 'boolean', default: false },
      tickets: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  const rounds = positive('--rounds', values.rounds)
  if (!Number.isInteger(rounds)) throw new Error(`--rounds must be a whole number, not ${rounds}`)
  const modes = ['beside', 'charges', 'gate', 'holds', 'live', 'mixed', 'tickets'] as const
  return {
    mode: modes.find((mode) => values[mode]) ?? 'bench',
    rounds,
    seconds: positive('--seconds', values.seconds),
    warmupSeconds: positive('--warmup', values.warmup),
    distanceMs: values.distance === '0' ? 0 : positive('--distance', values.distance),
    minutes: positive('--minutes', values.minutes),
    ...chosen([
      ...values.only.flatMap((ids) => ids.split(',')),
      ...(values.cluster ? clusters : []),
      ...(values.ratios ? ratios : []),
    ]),
  }
}

function positive(name: string, text: string): number {
  const number = Number(text)
  if (!(number > 0 && number < Number.POSITIVE_INFINITY))
    throw new Error(`${name} must be above 0, not ${text}`)
  return number
}

/** If none is named, all systems but clusters, or all workloads but those that must be named. */
function chosen(ids: readonly string[]): Pick<Options, 'systems' | 'workloads'> {
  const named = <Item extends { id: string }>(items: readonly Item[]): Item[] =>
    items.filter(({ id }) => ids.includes(id))
  const unknown = ids.filter((id) => ![...systems, ...workloads].some((item) => item.id === id))
  if (unknown.length > 0)
    throw new Error(`unknown parameter "${unknown.join(', ')}" of --only; supported: see --help`)
  const [namedSystems, namedWorkloads] = [named(systems), named(workloads)]
  return {
    systems: namedSystems.length > 0 ? namedSystems : systems.filter(({ id }) => !clusters.includes(id)),
    workloads:
      namedWorkloads.length > 0 ? namedWorkloads : workloads.filter(({ isOnlyNamed }) => !isOnlyNamed),
  }
}
