import type { Result } from './bench.ts'
import { type Figure, medianOf } from './median.ts'
import type { SystemId } from './systems.ts'

/** What one system should reach beside another. */
interface Target {
  text: string
  workload: string
  figure: Figure
  of: SystemId
  over: SystemId
  atLeast?: number
  atMost?: number
}

const HOT = 'at 64 connections, hot counter'

const targets: Target[] = [
  { ...ofNth('ceiling'), text: `Nth / ceiling ${HOT}`, workload: 'hot@64', atLeast: 0.9 },
  { ...ofNth('textbook'), text: `Nth / textbook ${HOT}`, workload: 'hot@64', atLeast: 15 },
  { ...ofNth('recipe'), text: `Nth / recipe ${HOT}`, workload: 'hot@64', atLeast: 3 },
  { ...ofNth('redis'), text: `Nth / mercurius + Redis ${HOT}`, workload: 'hot@64', atLeast: 0.95 },
  {
    ...ofNth('ceiling'),
    text: 'Nth / ceiling at 64 connections, 10 000 counters',
    workload: 'uniform@64',
    atLeast: 0.75,
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
]

function ofNth(over: SystemId) {
  return { of: 'nth', over, figure: 'requestsPerSecond' } as const
}

/** A line for each target whose two systems were measured. */
export function targetLines(results: readonly Result[]): string[] {
  return targets.flatMap(
    ({ text, workload, figure, of, over, atLeast = 0, atMost = Number.POSITIVE_INFINITY }) => {
      const [one, other] = [of, over].map((id) =>
        results.find((result) => result.workload.id === workload && result.system.id === id),
      )
      if (!one || !other) return []
      const ratio = medianOf(one, figure) / medianOf(other, figure)
      const goal = atLeast > 0 ? `at least ${atLeast}` : `at most ${atMost}`
      const verdict = ratio >= atLeast && ratio <= atMost ? 'met' : 'missed'
      return [`- ${text}: ${ratio.toFixed(2)} (target ${goal}): ${verdict}`]
    },
  )
}
