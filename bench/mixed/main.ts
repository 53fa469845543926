import { watchForSilence } from '../load/drive.ts'
import { type Load, runCaller } from './caller.ts'
import { createWorkerFinder } from './processes.ts'
import { createMix } from './requests.ts'
import { runStreamer } from './streamer.ts'
import { type Counted, createTally } from './tally.ts'

/** What a process of clients is to do. */
export interface MixedJob {
  url: string
  /** The ids of the workers' processes. */
  workers: number[]
  seconds: number
  callers: number
  streamers: number
}

/** What it reports: how many answers came since the last report, each second, and in the end all that it counted. */
export type MixedReport = { answers: number } | { counted: Counted } | { fault: string }

const REPORT_MS = 1000

process.on('message', async (job: MixedJob) => {
  try {
    process.send?.({ counted: await run(job) } satisfies MixedReport)
  } catch (error) {
    process.send?.({ fault: (error as Error).message } satisfies MixedReport)
  }
})

async function run({ url: address, workers, seconds, callers, streamers }: MixedJob): Promise<Counted> {
  const url = new URL(address)
  const tally = createTally()
  const until = performance.now() + seconds * 1000
  const watch = watchForSilence()
  let answers = 0
  const load: Load = {
    url,
    tally,
    findWorker: createWorkerFinder(Number(url.port), workers),
    isOver: () => performance.now() >= until,
    onAnswer: () => {
      watch.heard()
      answers += 1
    },
  }
  const report = () => {
    process.send?.({ answers } satisfies MixedReport)
    answers = 0
  }
  const timer = setInterval(report, REPORT_MS)
  const pick = createMix(url, tally)
  try {
    const all = Promise.all([
      ...Array.from({ length: callers }, () => runCaller(load, pick)),
      ...Array.from({ length: streamers }, () => runStreamer(load)),
    ])
    await Promise.race([all, watch.silence])
    return tally.counted
  } finally {
    watch.end()
    clearInterval(timer)
    report()
  }
}
