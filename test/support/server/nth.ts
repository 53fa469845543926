import { onTestFinished } from 'vitest'
import type { Target, Targets } from '../../../src/mysql/settings.ts'
import { type Notices, SILENT } from '../../../src/operations/log.ts'
import { openNth } from '../../../src/repository/nth.ts'
import { createRandom } from '../random.ts'

const DAY_MS = 86_400_000

/** The deadline of calls that must succeed, also on a slow machine, in milliseconds. */
export const AMPLE_MS = 60_000

export interface TestNthOptions {
  /** Default: ample. A test of what is refused at its deadline sets another one, and expects nothing else to be fast. */
  timeoutMs: number
  maxPending: number
  keyTtlMs: number
  now: () => Date
  /** Off, unless a test is about them: they count by the database's clock, and tests count statements. */
  runsJobs: boolean
  worksDespiteLoss: boolean
  eventualReads: boolean
  rowCacheBytes: number
  /** Default: 0, so that leaderboards have what this process has just changed. */
  leaderboardAgeMs: number
  /** Default: random numbers of the seed. With 0, attempts follow one another without a pause. */
  random: () => number
}

/** How many were opened: each has random numbers of its own, so that those that collided part. */
let opened = 0

/** The core on a database, without HTTP, closed when the test has finished. */
export function openTestNth(database: Target | Targets, options: Partial<TestNthOptions> = {}) {
  const {
    timeoutMs = AMPLE_MS,
    maxPending = 10_000,
    keyTtlMs = DAY_MS,
    runsJobs = false,
    now,
    worksDespiteLoss,
    eventualReads,
    rowCacheBytes,
    leaderboardAgeMs = 0,
    random = createRandom(opened++).fraction,
  } = options
  const faults: unknown[] = []
  const said: string[] = []
  const notices: Notices = {
    ...SILENT,
    warn: (message) => said.push(message),
    fault: (error) => faults.push(error),
  }
  const nth = openNth('database' in database ? [database] : database, {
    timeoutMs,
    maxPending,
    keyTtlMs,
    runsJobs,
    worksDespiteLoss,
    eventualReads,
    rowCacheBytes,
    leaderboardAgeMs,
    random,
    notices,
    now,
  })
  onTestFinished(nth.close)
  return {
    ...nth,
    faults,
    /** What was reported to the operator about the database. */
    said,
  }
}
