import { parseArgs } from 'node:util'
import { type System, systems } from './systems.ts'
import { MILLION, type Workload, workloads } from './workloads.ts'

export interface Options {
  rounds: number
  seconds: number
  warmupSeconds: number
  /** How far the database is away, each way, in milliseconds. */
  distanceMs: number
  systems: System[]
  workloads: Workload[]
  /** Whether only the million counters are measured. */
  million: boolean
  /** Whether only one database server is measured beside clusters. */
  cluster: boolean
  /** Whether only subscribers are measured. */
  live: boolean
  /** Whether only the processor time of a call is measured. */
  gate: boolean
  /** Whether only a mixed load is run, for this long. */
  mixed: boolean
  minutes: number
  /** Whether only the tickets of two boards are measured, without HTTP. */
  tickets: boolean
}

export const HELP = `Measures Nth beside other ways to count, all in one run, and checks every number they hand out.
Prints tables as Markdown, and on the error output how far it is. Ends with 1 at any wrong number or error.

  npm run bench -- [options]

  --rounds <n>     how often each is measured, one round of all after the other; the medians are shown (3)
  --seconds <s>    how long each measurement takes (4)
  --warmup <s>     how long each runs before that (1)
  --distance <ms>  how far the database is away from all systems, each way (0)
  --only <ids>     only these systems and workloads, with commas between them; may be repeated
  --only million   only this: all of a million counters beside 10 000, and the size of their tables (10 minutes)
  --gate           only this: the processor time of a call, beside Nth in memory; before and after a change (3 minutes)
  --cluster        only this: one database server beside clusters, on engines of Debian's packages (10 minutes)
  --live           only this: what a change costs with a thousand subscribers, beside without (2 minutes)
  --mixed          only this: everything at once on two workers; checks memory, connections, metrics and numbers
  --minutes <n>    how long the mixed load takes (10)
  --tickets        only this: 2 boards x 10 callers x 1 000 tickets without HTTP, beside SERIALIZABLE transactions
  --help           this text

Systems:   ${systems.map(({ id }) => id).join(' ')}
Workloads: ${workloads.map(({ id }) => id).join(' ')}

For instance: npm run bench -- --rounds 5 --only nth,ceiling,hot@64
              npm run bench -- --distance 1 --only nth,recipe,hot@1,hot@64,hot@256`

/**
 * Reads the command line; undefined if it asks for help.
 *
 * @throws {Error} saying what is wrong with it
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
      tickets: { type: 'boolean', default: false },
      mixed: { type: 'boolean', default: false },
      minutes: { type: 'string', default: '10' },
      gate: { type: 'boolean', default: false },
      cluster: { type: 'boolean', default: false },
      live: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return undefined
  const rounds = positive('--rounds', values.rounds)
  if (!Number.isInteger(rounds)) throw new Error(`--rounds must be a whole number, not ${rounds}`)
  return {
    rounds,
    distanceMs: values.distance === '0' ? 0 : positive('--distance', values.distance),
    million: values.only.includes(MILLION),
    tickets: values.tickets,
    gate: values.gate,
    cluster: values.cluster,
    live: values.live,
    mixed: values.mixed,
    minutes: positive('--minutes', values.minutes),
    seconds: positive('--seconds', values.seconds),
    warmupSeconds: positive('--warmup', values.warmup),
    ...chosen(values.only.flatMap((ids) => ids.split(','))),
  }
}

function positive(name: string, text: string): number {
  const number = Number(text)
  if (!(number > 0 && number < Number.POSITIVE_INFINITY))
    throw new Error(`${name} must be above 0, not ${text}`)
  return number
}

/** All systems where none is named, and all workloads where none is named. */
function chosen(ids: string[]): Pick<Options, 'systems' | 'workloads'> {
  const named = <Item extends { id: string }>(items: readonly Item[]): Item[] =>
    items.filter(({ id }) => ids.includes(id))
  const unknown = ids.filter((id) => ![...systems, ...workloads].some((item) => item.id === id))
  if (unknown.length > 0) throw new Error(`--only knows no ${unknown.join(', ')}; see --help`)
  const [someSystems, someWorkloads] = [named(systems), named(workloads)]
  return {
    systems: someSystems.length > 0 ? someSystems : [...systems],
    workloads: someWorkloads.length > 0 ? someWorkloads : [...workloads],
  }
}
