import { Agent, get, type IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { costOfCall } from './generator.ts'
import { readValues } from './load.ts'
import type { Options } from './options.ts'
import { memoryOf } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'
import { startNth } from './systems.ts'
import { type Workload, workloads } from './workloads.ts'

/** Subscribers while numbers change. */
const STREAMS = 1000
/** Subscribers while nothing changes. */
const IDLE_STREAMS = 5000
/** How many are opened at once. */
const AT_ONCE = 100
/** When the last event of a stream must have come, after the last change. */
const SETTLED_MS = 1500

/** A subscriber of one counter. */
interface Subscriber {
  name: string
  events: number
  value: number
  revision: number
  /** Whether a state came that was older than one before it. */
  wentBack: boolean
  lastAt: number
  close(): void
}

/**
 * Measures what a change costs with subscribers beside without, in turn: a thousand of one hot counter, and a thousand of
 * a thousand counters. Checks that each has the last value, and received no older state after a newer one.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export function live({ rounds, seconds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const nth = resources.keep(await startNth(await resources.database()))
    const generator = resources.generator()
    // It has one address.
    const url = nth.urls[0] as string
    const [hot, thousand] = [workloadOf('hot@64'), workloadOf('thousand@64')]
    for (const { id } of [hot, thousand]) await generator.run({ urls: nth.urls, workload: id })
    // First, as a process that has answered much keeps memory that they would use.
    const before = memoryOf(nth.pid)
    const idle = await openStreams(url, thousand.names, IDLE_STREAMS)
    const bytesEach = (memoryOf(nth.pid) - before) / IDLE_STREAMS
    for (const stream of idle) stream.close()

    const rows: string[][] = []
    for (const workload of [hot, thousand]) {
      const without: number[] = []
      // Of each round, as the machine may be slower in the next one.
      const ratios: number[] = []
      const eventRates: number[] = []
      const delaysMs: number[] = []
      for (let round = 1; round <= rounds; round++) {
        signal.throwIfAborted()
        const alone = await costOfCall(generator, nth, workload.id, seconds)
        await pause(SETTLED_MS)
        const streams = await openStreams(url, workload.names, STREAMS)
        for (const stream of streams) stream.events = 0
        const beside = await costOfCall(generator, nth, workload.id, seconds)
        const endedAt = performance.now()
        await pause(SETTLED_MS)
        await check(url, workload, streams)
        for (const stream of streams) stream.close()
        without.push(alone)
        ratios.push(beside / alone)
        eventRates.push(streams.reduce((sum, { events }) => sum + events, 0) / STREAMS / seconds)
        delaysMs.push(Math.max(...streams.map(({ lastAt }) => lastAt)) - endedAt)
        say(`round ${round} of ${rounds}, ${workload.id}: ${alone.toFixed(0)}, then ${beside.toFixed(0)} µs`)
      }
      rows.push([
        workload.title,
        medianOf(without).toFixed(0),
        `${medianOf(ratios).toFixed(2)} times`,
        medianOf(eventRates).toFixed(1),
        `${Math.max(...delaysMs).toFixed(0)} ms`,
      ])
    }
    return [
      '# Subscribers',
      `Processor time of Nth for a change, in µs, medians of ${rounds} rounds of ${seconds} s: without subscribers, and with ${STREAMS}. Each had the last value at the end, and none received an older state after a newer one.`,
      tableOf(['', 'without', 'with', 'events/s each', 'last event after the last change, at most'], rows),
      `${IDLE_STREAMS} idle subscribers: ${(bytesEach / 1000).toFixed(1)} kB each.`,
      '',
    ].join('\n\n')
  })
}

function workloadOf(id: string): Workload {
  const workload = workloads.find((each) => each.id === id)
  if (!workload) throw new Error(`There is no workload ${id}.`)
  return workload
}

/** Opens streams of some counters in turn, each on a connection of its own. */
export async function openStreams(
  url: string,
  names: readonly string[],
  count: number,
): Promise<Subscriber[]> {
  const streams: Subscriber[] = []
  while (streams.length < count) {
    const more = Array.from({ length: Math.min(AT_ONCE, count - streams.length) }, (_, index) =>
      openStream(url, names[(streams.length + index) % names.length] ?? ''),
    )
    streams.push(...(await Promise.all(more)))
  }
  return streams
}

/** Opens a stream, and waits for its first event. */
function openStream(url: string, name: string): Promise<Subscriber> {
  const query = 'subscription($names: [String!]!) { counters(names: $names) { value revision } }'
  const parameters = new URLSearchParams({ query, variables: JSON.stringify({ names: [name] }) })
  return new Promise((resolve, reject) => {
    const options = { agent: new Agent(), headers: { accept: 'text/event-stream' } }
    const request = get(`${url}/graphql?${parameters}`, options, (response) => {
      if (response.statusCode === 200) readEvents(response, subscriber, () => resolve(subscriber))
      else reject(new Error(`A subscription was refused with ${response.statusCode}.`))
    })
    const close = () => void request.destroy()
    const subscriber = { name, events: 0, value: 0, revision: 0, wentBack: false, lastAt: 0, close }
    request.on('error', reject)
  })
}

function readEvents(response: IncomingMessage, subscriber: Subscriber, onEvent: () => void): void {
  let text = ''
  response.on('error', () => undefined)
  response.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
    const events = text.split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      const [, json] = /^event: next\ndata: (.*)$/.exec(event) ?? []
      if (json === undefined) continue
      const { value, revision } = JSON.parse(json).data.counters[0]
      subscriber.wentBack ||= revision < subscriber.revision
      Object.assign(subscriber, { events: subscriber.events + 1, value, revision, lastAt: performance.now() })
      onEvent()
    }
  })
}

/** @throws {Error} if a stream doesn't have the value of its counter, or had an older state after a newer one */
async function check(url: string, workload: Workload, streams: readonly Subscriber[]): Promise<void> {
  const values = await readValues(new URL(url), workload)
  for (const { name, value, wentBack } of streams) {
    if (wentBack) throw new Error(`A subscriber of ${name} received an older state after a newer one.`)
    const expected = values[workload.names.indexOf(name)]
    if (value !== expected) throw new Error(`A subscriber of ${name} has ${value}, not ${expected}.`)
  }
}
