import { createHistogram } from 'node:perf_hooks'
import type { Workload } from '../workloads.ts'
import { drive, type Request } from './drive.ts'
import { bytesOf, changeOf, readOf } from './requests.ts'
import { openTally, type Tally } from './tally.ts'
import { readValues } from './values.ts'

/** What a measurement found. */
export interface Figures {
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
}

export interface Measurement {
  url: URL
  workload: Workload
  warmupSeconds: number
  /** How long requests are counted, after the warm-up. */
  seconds: number
}

/**
 * Measures a workload, and checks every number that is handed out meanwhile, also before and after what is
 * counted.
 *
 * @throws {Error} at anything wrong
 */
export async function measure(measurement: Measurement): Promise<Figures> {
  const { url, workload, warmupSeconds, seconds } = measurement
  const pick = picker(workload, url)
  const latencies = createHistogram()

  await tallied(url, workload, async (tally, before) => {
    const takeChange = changeTaker(workload, tally)
    const from = performance.now() + warmupSeconds * 1000
    const until = from + seconds * 1000
    await drive({
      url,
      connections: workload.connections,
      next: (now) => (now < until ? pick() : undefined),
      take({ changes }, body, sentAt, now) {
        if (changes === undefined) takeRead(before, body)
        else takeChange(changes, body)
        // A histogram takes whole numbers from 1 on: microseconds.
        if (now >= from && now < until) latencies.record(Math.max(1, Math.round((now - sentAt) * 1000)))
      },
    })
  })
  return {
    requestsPerSecond: latencies.count / seconds,
    p50Ms: latencies.percentile(50) / 1000,
    p99Ms: latencies.percentile(99) / 1000,
  }
}

/** Changes each name of a workload once, so that all are there, and checks the numbers. */
export async function touch({ url, workload }: Pick<Measurement, 'url' | 'workload'>): Promise<void> {
  await tallied(url, workload, async (tally) => {
    const takeChange = changeTaker(workload, tally)
    const requests = changes(workload, url).values()
    await drive({
      url,
      connections: Math.min(workload.connections, workload.names.length),
      next: () => requests.next().value,
      take: ({ changes = 0 }, body) => takeChange(changes, body),
    })
  })
}

async function tallied(
  url: URL,
  workload: Workload,
  work: (tally: Tally, before: readonly number[]) => Promise<void>,
): Promise<void> {
  const before = await readValues(url, workload)
  const tally = openTally(workload.names, before)
  await work(tally, before)
  tally.check(await readValues(url, workload))
}

function changes(workload: Workload, url: URL): Request[] {
  return workload.names.map((name, place) => ({
    bytes: bytesOf(changeOf(workload, name), url),
    changes: place,
  }))
}

/** Picks a request at random, with the workload's share of reads. */
function picker(workload: Workload, url: URL): () => Request | undefined {
  const read = { bytes: bytesOf(readOf(workload.names), url) }
  const all = changes(workload, url)
  return () => (Math.random() < workload.readShare ? read : all[Math.floor(Math.random() * all.length)])
}

function changeTaker({ kind }: Workload, tally: Tally): (place: number, body: string) => void {
  const field = kind === 'counter' ? 'increment' : 'nextInSequence'
  return (place, body) => {
    const { data, errors } = JSON.parse(body)
    const value = data?.[field]?.value
    if (errors || !Number.isSafeInteger(value)) throw new Error(`It answered a change with ${body}`)
    tally.note(place, value)
  }
}

/** Every name must have a value, and none may be older than what was there before. */
function takeRead(before: readonly number[], body: string): void {
  const { data, errors } = JSON.parse(body)
  const values: unknown[] = data?.counters?.map(({ value }: { value: unknown }) => value) ?? []
  const isGood = values.every((value, place) => typeof value === 'number' && value >= (before[place] ?? 0))
  if (errors || values.length !== before.length || !isGood) {
    throw new Error(`It answered a read of ${before.length} names with ${body}`)
  }
}
