import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { BenchOptions } from './bench.ts'
import { openDatabase } from './database.ts'
import { startGenerator } from './generator.ts'
import { middleOf } from './median.ts'
import { memoryOf, processorTimeOf } from './mixed/processes.ts'
import { SERVES, startNth } from './systems.ts'
import { workloads } from './workloads.ts'

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
  isBack: boolean
  lastAt: number
  close(): void
}

/**
 * Measures what a change costs with subscribers beside without, in turn: a thousand of one hot counter, and a thousand of
 * a thousand counters. Checks that each has the last value, and had no older state after a newer one.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export async function live(options: Omit<BenchOptions, 'systems' | 'workloads'>): Promise<string> {
  const { rounds, seconds, say, signal } = options
  const directory = await mkdtemp(join(tmpdir(), 'nth-live-'))
  const database = await openDatabase(directory, { say, signal })
  const nth = startNth({ database: database.target })
  const generator = startGenerator()
  signal.addEventListener('abort', generator.end)
  try {
    const url = await nth.printed(SERVES)
    const pid = nth.process.pid ?? 0
    await generator.touch(url, 'thousand@64')
    // First, as a process that has answered much keeps memory that they would use.
    const before = memoryOf(pid)
    const idle = await openStreams(url, namesOf('thousand@64'), IDLE_STREAMS)
    const each = (memoryOf(pid) - before) / IDLE_STREAMS
    for (const stream of idle) stream.close()
    const lines: string[] = []
    for (const id of ['hot@64', 'thousand@64']) {
      await generator.touch(url, id)
      const costs: [without: number[], withStreams: number[]] = [[], []]
      const others = { eventsPerSecond: [] as number[], lateMs: [] as number[] }
      for (let round = 1; round <= rounds; round++) {
        for (const [index, cost] of costs.entries()) {
          signal.throwIfAborted()
          const streams = await openStreams(url, namesOf(id), index === 0 ? 0 : STREAMS)
          for (const stream of streams) stream.events = 0
          const before = processorTimeOf(pid)
          const { requestsPerSecond } = await generator.measure(url, id, { seconds, warmupSeconds: 0 })
          cost.push((1e6 * (processorTimeOf(pid) - before)) / (requestsPerSecond * seconds))
          const ended = performance.now()
          await pause(SETTLED_MS)
          if (streams.length > 0) {
            await check(url, streams)
            others.lateMs.push(Math.max(...streams.map(({ lastAt }) => lastAt)) - ended)
            const events = streams.reduce((sum, stream) => sum + stream.events, 0)
            others.eventsPerSecond.push(events / streams.length / seconds)
          }
          for (const stream of streams) stream.close()
          say(
            `round ${round} of ${rounds}, ${id}, ${streams.length} subscribers: ${Math.round(cost.at(-1) ?? 0)} µs`,
          )
        }
      }
      const [without, withStreams] = costs.map(middleOf) as [number, number]
      // Of each round, as the machine may be slower in the next one.
      const ratios = costs[1].map((cost, round) => cost / (costs[0][round] ?? Number.NaN))
      const ratio = middleOf(ratios).toFixed(2)
      const rate = middleOf(others.eventsPerSecond).toFixed(1)
      const late = Math.round(Math.max(...others.lateMs))
      lines.push(
        `| ${id} | ${without.toFixed(0)} | ${withStreams.toFixed(0)}: ${ratio} times | ${rate} | ${late} ms |`,
      )
    }
    return [
      '# Subscribers',
      `Processor time of Nth for a change, in µs, medians of ${rounds} rounds of ${seconds} s: without subscribers, and with ${STREAMS} of the one counter, or of a thousand counters. Each had the last value at the end, and none got an older state after a newer one.`,
      [
        '| | without | with | events/s each | last event after the end, at most |',
        '| --- | ---: | ---: | ---: | ---: |',
        ...lines,
      ].join('\n'),
      `${IDLE_STREAMS} idle subscribers: ${(each / 1000).toFixed(1)} kB each.`,
      '',
    ].join('\n\n')
  } finally {
    await generator.end()
    await nth.end()
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}

function namesOf(id: string): readonly string[] {
  const workload = workloads.find((one) => one.id === id)
  if (workload?.kind !== 'counter') throw new Error(`There are no counters in ${id}.`)
  return workload.names
}

async function openStreams(url: string, names: readonly string[], count: number): Promise<Subscriber[]> {
  const streams: Subscriber[] = []
  while (streams.length < count) {
    const some = Array.from({ length: Math.min(AT_ONCE, count - streams.length) }, (_, index) =>
      openStream(url, names[(streams.length + index) % names.length] ?? ''),
    )
    streams.push(...(await Promise.all(some)))
  }
  return streams
}

/** Opens a stream, and waits for its first event. */
function openStream(url: string, name: string): Promise<Subscriber> {
  const query = 'subscription($names: [String!]!) { counters(names: $names) { value revision } }'
  const parameters = new URLSearchParams({ query, variables: JSON.stringify({ names: [name] }) })
  return new Promise((resolve, reject) => {
    const headers = { accept: 'text/event-stream' }
    // A connection of its own.
    const agent = new Agent()
    const request = get(`${url}/graphql?${parameters}`, { agent, headers }, (response) => {
      if (response.statusCode === 200) readEvents(response, subscriber, () => resolve(subscriber))
      else reject(new Error(`A subscription was refused with ${response.statusCode}.`))
    })
    const close = () => void request.destroy()
    const subscriber = { name, events: 0, value: 0, revision: 0, isBack: false, lastAt: 0, close }
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
      subscriber.isBack ||= revision < subscriber.revision
      Object.assign(subscriber, { events: subscriber.events + 1, value, revision, lastAt: performance.now() })
      onEvent()
    }
  })
}

/** @throws {Error} if a stream doesn't have the value of its counter, or had older states after newer ones */
async function check(url: string, streams: readonly Subscriber[]): Promise<void> {
  const values = new Map<string, number>()
  const names = [...new Set(streams.map(({ name }) => name))]
  for (let start = 0; start < names.length; start += 500) {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        query: 'query($names: [String!]!) { counters(names: $names) { name value } }',
        variables: { names: names.slice(start, start + 500) },
      }),
    })
    const { data } = (await response.json()) as { data: { counters: { name: string; value: number }[] } }
    for (const { name, value } of data.counters) values.set(name, value)
  }
  for (const { name, value, isBack } of streams) {
    if (isBack) throw new Error(`A subscriber of ${name} got an older state after a newer one.`)
    if (value !== values.get(name))
      throw new Error(`A subscriber of ${name} has ${value}, not ${values.get(name)}.`)
  }
}
