import type { Result } from './bench.ts'
import { type Figure, medianOf } from './median.ts'
import type { SystemId } from './systems.ts'

/** What one system should reach beside another, or itself with another workload. With no bound it is only told. */
interface Target {
  text: string
  workload: string
  /** Where it is another one. */
  overWorkload?: string
  figure: Figure
  of: SystemId
  over: SystemId
  atLeast?: number
  atMost?: number
}

const HOT = 'at 64 connections, hot counter'
const HUNDRED = 'at 64 connections, 100 counters'

const targets: Target[] = [
  { ...ofNth('ceiling'), text: `Nth / ceiling ${HOT}`, workload: 'hot@64', atLeast: 0.9 },
  { ...ofNth('textbook'), text: `Nth / textbook ${HOT}`, workload: 'hot@64', atLeast: 15 },
  { ...ofNth('recipe'), text: `Nth / recipe ${HOT}`, workload: 'hot@64', atLeast: 3 },
  {
    ...ofNth('textbook'),
    text: 'Nth / textbook at 20 connections, two boards',
    workload: 'boards@20',
    atLeast: 10,
  },
  { ...ofNth('redis'), text: `Nth / mercurius + Redis ${HOT}`, workload: 'hot@64', atLeast: 0.95 },
  {
    ...ofNth('ceiling'),
    text: 'Nth / ceiling at 64 connections, 10 000 counters',
    workload: 'uniform@64',
    atLeast: 0.6,
  },
  {
    ...ofNth('ceiling'),
    text: 'Nth / ceiling at 64 connections, 10 000 counters that keep no periods',
    workload: 'uniform-bare@64',
    overWorkload: 'uniform@64',
    atLeast: 0.75,
  },
  {
    ...ofNth('nth'),
    text: 'Nth with the default periods / with none at 64 connections, 10 000 counters',
    workload: 'uniform@64',
    overWorkload: 'uniform-bare@64',
  },
  {
    ...ofNth('nth'),
    text: `Nth with the default periods / with none ${HOT}`,
    workload: 'hot@64',
    overWorkload: 'bare@64',
    atLeast: 0.85,
  },
  {
    ...ofNth('nth'),
    text: `Nth telling each call its number in the month / not telling ${HOT}`,
    workload: 'told@64',
    overWorkload: 'hot@64',
  },
  {
    ...ofNth('pair'),
    of: 'pair',
    text: 'Two processes of Nth, a hot counter with 16 slots / exact',
    workload: 'slots@256',
    overWorkload: 'exact@256',
  },
  {
    ...ofNth('far'),
    of: 'far',
    text: 'Four processes of Nth, 5 ms from the database, a hot counter with 16 slots / exact',
    workload: 'slots@256',
    overWorkload: 'exact@256',
  },
  {
    ...ofNth('recipe'),
    text: 'Nth / recipe at 1 connection, hot counter, p50',
    workload: 'hot@1',
    figure: 'p50Ms',
    atMost: 1.3,
  },
  {
    ...ofNth('ceiling'),
    text: 'Nth / ceiling at 64 connections, reads of 100 counters',
    workload: 'reads@64',
    atLeast: 0.9,
  },
  {
    ...ofNth('mercurius'),
    of: 'ceiling',
    text: `ceiling / mercurius in memory ${HOT}`,
    workload: 'hot@64',
    atLeast: 0.85,
  },
  {
    ...ofNth('nth'),
    text: `Nth with an idempotency key a call / without ${HOT}`,
    workload: 'keyed@64',
    overWorkload: 'hot@64',
    atLeast: 0.4,
  },
  {
    ...ofNth('nth'),
    text: `Nth with an API key a call / without ${HOT}`,
    workload: 'apikeys@64/1',
    overWorkload: 'hot@64',
    atLeast: 0.95,
  },
  {
    ...ofNth('nth'),
    text: `Nth with one of 10 000 API keys a call / of 10 ${HOT}`,
    workload: 'apikeys@64/10000',
    overWorkload: 'apikeys@64/10',
    atLeast: 0.95,
  },
  {
    ...ofNth('nth'),
    text: `Nth's counters a second by incrementMany of 100 / by increment ${HUNDRED}`,
    workload: 'many@64',
    overWorkload: 'hundred@64',
    figure: 'changesPerSecond',
    atLeast: 10,
  },
  {
    ...ofNth('nth'),
    text: `Nth's counters a second by incrementMany of 100 / by increment ${HOT}`,
    workload: 'many@64',
    overWorkload: 'hot@64',
    figure: 'changesPerSecond',
  },
  {
    ...ofNth('nth'),
    text: 'Nth at 64 connections, pages of 1 000 000 ranked counters / of 1 000',
    workload: 'leaders@64/1m',
    overWorkload: 'leaders@64/1k',
    atLeast: 0.8,
  },
]

function ofNth(over: SystemId) {
  return { of: 'nth', over, figure: 'requestsPerSecond' } as const
}

/** A line for each target both of whose measurements were made. */
export function targetLines(results: readonly Result[]): string[] {
  return targets.flatMap((target) => {
    const { text, workload, overWorkload = workload, figure } = target
    const one = find(results, target.of, workload)
    const other = find(results, target.over, overWorkload)
    if (!one || !other) return []
    const ratio = medianOf(one, figure) / medianOf(other, figure)
    return [`- ${text}: ${ratio.toFixed(2)} ${verdict(target, ratio)}`]
  })
}

function find(results: readonly Result[], system: SystemId, workload: string): Result | undefined {
  return results.find((result) => result.workload.id === workload && result.system.id === system)
}

function verdict({ atLeast, atMost }: Target, ratio: number): string {
  if (atLeast !== undefined) return `(target at least ${atLeast}): ${ratio >= atLeast ? 'met' : 'missed'}`
  if (atMost !== undefined) return `(target at most ${atMost}): ${ratio <= atMost ? 'met' : 'missed'}`
  return '(no target)'
}
