import { join } from 'node:path'
import { freshDatabase, urlOf } from '../database/database.ts'
import { openOnce } from '../openOnce.ts'
import { type NthProcess, startNth } from './nthProcess.ts'

const PRELOADED = join(import.meta.dirname, 'ticks.mjs')

/**
 * How often something is done, so that the first time's compiling and what else runs here don't count: at least twice,
 * as a document is known the second time, and no more often than it takes for a tick that is short.
 */
const [FEWEST_ROUNDS, MOST_ROUNDS] = [2, 25]

/** How long a fixed piece of work took where a tick may take 50 ms, in milliseconds of the processor. */
const REFERENCE_MS = 2

/** How long one request may hold up all others, in milliseconds of a machine that does the fixed work in `REFERENCE_MS`. */
export const SHORT_MS = 50

export interface MeasuredNth extends NthProcess {
  /**
   * The longest tick of its event loop under some work, in milliseconds, the best of several rounds: by the clock,
   * which other processes lengthen, or by the processor's time, which the collector's threads do. Where the fixed work
   * takes longer than `REFERENCE_MS` at that moment, as the machine is slower or busy, accordingly less.
   */
  longestTick(work: () => Promise<unknown>): Promise<number>
}

/** The service as it runs, with a heap of 512 MB: one for all tests of a file, on a database of its own. */
export function startMeasuredNth(): Promise<MeasuredNth> {
  return openOnce(start)
}

async function start(): Promise<MeasuredNth> {
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    NODE_OPTIONS: `--import ${PRELOADED} --max-old-space-size=512 --max-semi-space-size=32`,
  })

  async function longestSinceLastQuery(): Promise<number> {
    const before = nth.output().length
    nth.child.kill('SIGUSR2')
    while (true) {
      const said = /longest tick: (\{.*\})\n/.exec(nth.output().slice(before))?.[1]
      if (!said) {
        await new Promise((resolve) => nth.child.stdout?.once('data', resolve))
        continue
      }
      const { delayMs, cpuMs } = JSON.parse(said)
      return Math.min(delayMs, cpuMs)
    }
  }

  return {
    ...nth,
    async longestTick(work) {
      let longest = Number.POSITIVE_INFINITY
      for (let round = 1; round <= MOST_ROUNDS; round += 1) {
        await longestSinceLastQuery()
        await work()
        const slowness = Math.max(1, referenceMs() / REFERENCE_MS)
        longest = Math.min(longest, (await longestSinceLastQuery()) / slowness)
        if (round >= FEWEST_ROUNDS && longest < SHORT_MS) break
      }
      return longest
    },
  }
}

/** How long the fixed work takes now, in milliseconds of the processor: the lower quartile, as the first rounds compile. */
function referenceMs(): number {
  const text = JSON.stringify(Array.from({ length: 5000 }, (_, value) => ({ name: `name ${value}`, value })))
  const rounds = Array.from({ length: 15 }, () => {
    const from = process.cpuUsage()
    JSON.stringify(JSON.parse(text)).replaceAll('name', 'x')
    const { user, system } = process.cpuUsage(from)
    return (user + system) / 1000
  })
  return rounds.toSorted((a, b) => a - b)[3] ?? REFERENCE_MS
}
