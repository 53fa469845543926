import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import type { BenchOptions } from './bench.ts'
import type { Child } from './children.ts'
import { type Engine, startEngine } from './engine.ts'
import { drive, type Request } from './load/drive.ts'
import { bytesOf, changeAllOf, changeOf, readOf } from './load/requests.ts'
import { ask } from './load/values.ts'
import { middleOf } from './median.ts'
import { SERVES, startNthAt } from './systems.ts'
import type { Counting } from './workloads.ts'

/** Ports of engines: each gets so many, from the first on. */
const FIRST_PORT = 27_000
const PORTS = 100

/** One or two servers of Nth, on a node, or on two nodes of a cluster. */
interface Setup {
  id: string
  title: string
  engine: string
  /** For each server of Nth, the node that it uses. */
  nodes: readonly number[]
  environment?: Record<string, string>
}

const SETUPS: readonly Setup[] = [
  { id: 'one', title: 'MariaDB, one server', engine: 'mariadb-10.11', nodes: [0] },
  { id: 'galera', title: 'Galera, three nodes, one written to', engine: 'galera-10.11', nodes: [0] },
  {
    id: 'galera-2',
    title: 'Galera, two servers of Nth on two nodes',
    engine: 'galera-10.11',
    nodes: [0, 1],
  },
  {
    id: 'galera-eventual',
    title: 'Galera, one node, NTH_CLUSTER_READS=eventual',
    engine: 'galera-10.11',
    nodes: [0],
    environment: { NTH_CLUSTER_READS: 'eventual' },
  },
  { id: 'mysql', title: 'MySQL, one server', engine: 'mysql-9', nodes: [0] },
  { id: 'group', title: 'Group Replication, three members', engine: 'group-replication', nodes: [0] },
  {
    id: 'group-eventual',
    title: 'Group Replication, NTH_CLUSTER_READS=eventual',
    engine: 'group-replication',
    nodes: [0],
    environment: { NTH_CLUSTER_READS: 'eventual' },
  },
]

interface Kind {
  title: string
  connections: number
  names: readonly string[]
  isRead: boolean
}

const HUNDRED = Array.from({ length: 100 }, (_, index) => `shown-${index}`)

const KINDS: readonly Kind[] = [
  { title: 'One hot counter, 1 connection', connections: 1, names: ['hot'], isRead: false },
  { title: 'One hot counter, 64 connections', connections: 64, names: ['hot'], isRead: false },
  { title: '100 counters, uniform, 64 connections', connections: 64, names: HUNDRED, isRead: false },
  { title: 'Reads of 100 counters, 1 connection', connections: 1, names: HUNDRED, isRead: true },
  { title: 'Reads of 100 counters, 64 connections', connections: 64, names: HUNDRED, isRead: true },
]

interface Figures {
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
}

/**
 * Measures one database server beside clusters, all in turn. Checks that no number is issued twice, and that each counter
 * has as many as were issued.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export async function cluster(
  options: Pick<BenchOptions, 'rounds' | 'seconds' | 'warmupSeconds' | 'say' | 'signal'>,
): Promise<string> {
  const { rounds, say, signal } = options
  const directory = await mkdtemp(join(tmpdir(), 'nth-cluster-'))
  const engines = new Map<string, Engine>()
  const children: Child[] = []
  try {
    const served = new Map<Setup, URL[]>()
    for (const setup of SETUPS) {
      signal.throwIfAborted()
      let engine = engines.get(setup.engine)
      if (!engine) {
        say(`starting ${setup.engine}`)
        engine = await startEngine(setup.engine, directory, FIRST_PORT + PORTS * engines.size)
        engines.set(setup.engine, engine)
      }
      const urls = await serve(setup, engine, children)
      await createAll(urls[0] as URL)
      served.set(setup, urls)
    }
    const results = new Map(KINDS.map((kind) => [kind, new Map<Setup, Figures[]>()]))
    for (let round = 1; round <= rounds; round++) {
      for (const [kind, bySetup] of results) {
        for (const [setup, urls] of served) {
          signal.throwIfAborted()
          const figures = await measure(kind, urls, options)
          bySetup.set(setup, [...(bySetup.get(setup) ?? []), figures])
          say(`round ${round}, ${kind.title}, ${setup.title}: ${figures.requestsPerSecond.toFixed(0)}/s`)
        }
      }
    }
    const versions = [...engines].map(([name, { version }]) => `${name}: ${version}`).join(', ')
    return [
      '# One database server beside clusters, all on one machine',
      `${versions}. Medians of ${rounds} rounds of ${options.seconds} s, all in turn. Every number was issued once, and no other was stored.`,
      ...[...results].flatMap(([kind, bySetup]) => table(kind, bySetup)),
      '',
    ].join('\n\n')
  } finally {
    await Promise.allSettled(children.map(({ end }) => end()))
    await Promise.allSettled([...engines.values()].map(({ stop }) => stop()))
    await rm(directory, { recursive: true, force: true })
  }
}

/** Starts the servers of a setup, each with another node first. */
async function serve(setup: Setup, { hosts }: Engine, children: Child[]): Promise<URL[]> {
  const urls: URL[] = []
  for (const node of setup.nodes) {
    const ordered = [...hosts.slice(node), ...hosts.slice(0, node)]
    const child = startNthAt(`mysql://root@${ordered.join(',')}/${setup.id.replace('-', '_')}`, {
      NTH_WRITE_TIMEOUT_MS: '60000',
      ...setup.environment,
    })
    children.push(child)
    urls.push(new URL(await child.printed(SERVES)))
  }
  return urls
}

/** So that no setup is measured while it creates counters. */
async function createAll(url: URL): Promise<void> {
  const names = [...new Set(KINDS.flatMap(({ names }) => names))]
  await ask(url, changeAllOf(names))
}

async function measure(
  { connections, names, isRead }: Kind,
  urls: readonly URL[],
  { seconds, warmupSeconds }: Pick<BenchOptions, 'seconds' | 'warmupSeconds'>,
): Promise<Figures> {
  const issued = new Map(names.map((name) => [name, new Set<number>()]))
  const before = await valuesOf(urls[0] as URL, names)
  const latencies = createHistogram()
  const from = performance.now() + 1000 * warmupSeconds
  const until = from + 1000 * seconds
  await Promise.all(
    urls.map((url) => {
      const requests = isRead ? [reading(url, names)] : names.map((name) => changing(url, name, issued))
      return drive({
        url,
        connections: Math.ceil(connections / urls.length),
        next: (now) => (now < until ? requests[Math.floor(Math.random() * requests.length)] : undefined),
        onAnswer: (_, sentAt, now) => now >= from && now < until && record(latencies, now - sentAt),
      })
    }),
  )
  for (const url of urls) {
    const after = await valuesOf(url, names)
    for (const [index, name] of names.entries()) {
      const counted = (after[index] ?? 0) - (before[index] ?? 0)
      const size = issued.get(name)?.size
      if (counted !== size) throw new Error(`${name} has ${counted} more, of which ${size} were answered`)
    }
  }
  return {
    requestsPerSecond: latencies.count / seconds,
    p50Ms: latencies.percentile(50) / 1000,
    p99Ms: latencies.percentile(99) / 1000,
  }
}

/** A histogram takes whole numbers from 1 on: microseconds. */
function record(latencies: RecordableHistogram, ms: number): void {
  latencies.record(Math.max(1, Math.round(1000 * ms)))
}

const counting = (names: readonly string[]): Counting => ({
  id: '',
  title: '',
  connections: 1,
  systems: [],
  kind: 'counter',
  names,
  readShare: 0,
})

function changing(url: URL, name: string, issued: ReadonlyMap<string, Set<number>>): Request {
  const bytes = bytesOf(changeOf(counting([name]), name), url)
  return {
    bytes: () => bytes,
    changes: 1,
    take(body) {
      const value = JSON.parse(body).data?.increment?.value
      const numbers = issued.get(name)
      if (!Number.isSafeInteger(value) || numbers?.has(value)) throw new Error(`A change got ${body}`)
      numbers?.add(value)
    },
  }
}

function reading(url: URL, names: readonly string[]): Request {
  const bytes = bytesOf(readOf(names), url)
  return {
    bytes: () => bytes,
    changes: 0,
    take(body) {
      if (JSON.parse(body).data?.counters?.length !== names.length) throw new Error(`A read got ${body}`)
    },
  }
}

async function valuesOf(url: URL, names: readonly string[]): Promise<number[]> {
  const response = await fetch(new URL('/graphql', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(readOf(names)),
  })
  const { data } = (await response.json()) as { data: { counters: { value: number }[] } }
  return data.counters.map(({ value }) => value)
}

function table(kind: Kind, bySetup: ReadonlyMap<Setup, Figures[]>): string[] {
  const median = (figures: readonly Figures[], figure: keyof Figures) =>
    middleOf(figures.map((each) => each[figure]))
  const one = median(bySetup.get(SETUPS[0] as Setup) ?? [], 'requestsPerSecond')
  const lines = [...bySetup].map(([{ title }, figures]) => {
    const rate = median(figures, 'requestsPerSecond')
    const rest = [median(figures, 'p50Ms').toFixed(2), median(figures, 'p99Ms').toFixed(2)]
    return `| ${[title, rate.toFixed(0), ...rest, (rate / one).toFixed(2)].join(' | ')} |`
  })
  return [
    `## ${kind.title}`,
    [
      '| Database | Requests/s | p50 ms | p99 ms | beside the first |',
      '| --- | ---: | ---: | ---: | ---: |',
      ...lines,
    ].join('\n'),
  ]
}
