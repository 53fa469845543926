import type { Leaderboard } from './leaderboard.ts'
import type { SystemId } from './systems.ts'

/** What clients do, over and over. */
export type Workload = Counting | Leading

interface Measured {
  id: string
  title: string
  connections: number
  /** The systems that it is measured on. */
  systems: readonly SystemId[]
}

/** Clients change some numbers, or read all of them. */
export interface Counting extends Measured {
  /** What carries a number: a counter, or a group of the one sequence. */
  kind: 'counter' | 'group'
  names: readonly string[]
  /** How many of the requests read, from 0 to 1. */
  readShare: number
  /**
   * How counters are changed: one by a request; the same, each with a new idempotency key, or asking for its number
   * in this month; all by a request.
   */
  change?: 'one' | 'keyed' | 'told' | 'all'
  /** Number of API keys, one of which is sent with each change; undefined: none is. */
  apiKeys?: number
  /** Where counters live, if not in the default namespace. */
  namespace?: string
  /** A mutation that is sent once, before anything is counted. */
  preparation?: string
  /** Whether numbers may be told twice, as those of slots are. */
  mayRepeat?: boolean
}

/** Clients read pages of a leaderboard. */
export interface Leading extends Measured {
  kind: 'leaderboard'
  board: Leaderboard
}

/** The sequence whose groups are numbered. */
export const SEQUENCE = 'ticket'

/** The workload of all counters of a large installation. */
export const MILLION = 'million'

const hot = ['hot']
const many = numbered('counter', 10_000)
const shown = numbered('shown', 100)
const thousand = numbered('watched', 1000)
const boards = ['MYBOARD', 'YOURBOARD']

const durable: SystemId[] = ['nth', 'textbook', 'recipe', 'drizzle', 'redis']
const all: SystemId[] = ['nth', 'ceiling', 'textbook', 'recipe', 'drizzle', 'redis', 'mercurius']
const inMemory: SystemId[] = ['nth', 'ceiling', 'mercurius']
/** What the others don't have. */
const nthOnly: SystemId[] = ['nth']
/** Those that are measured at a distance from their database. */
const distant: SystemId[] = ['nth', 'recipe']
/** Several processes of Nth. */
const several: SystemId[] = ['pair', 'far']

/** A namespace whose counters keep no periods. */
const bare = {
  namespace: 'bare',
  preparation: 'mutation { defineNamespace(name: "bare", definition: { periods: [] }) { id } }',
}

export const workloads: readonly Workload[] = [
  {
    id: 'hot@1',
    title: 'One hot counter, 1 connection',
    connections: 1,
    kind: 'counter',
    names: hot,
    readShare: 0,
    systems: durable,
  },
  {
    id: 'hot@64',
    title: 'One hot counter, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    systems: all,
  },
  {
    id: 'thousand@64',
    title: 'A thousand counters, 64 connections',
    connections: 64,
    kind: 'counter',
    names: thousand,
    readShare: 0,
    systems: nthOnly,
  },
  {
    id: 'keyed@64',
    title: 'One hot counter, each call with a new idempotency key, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    change: 'keyed',
    systems: nthOnly,
  },
  {
    id: 'apikeys@64/1',
    title: 'One hot counter, each call with an API key, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    apiKeys: 1,
    systems: nthOnly,
  },
  {
    id: 'apikeys@64/10',
    title: 'One hot counter, each call with one of 10 API keys, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    apiKeys: 10,
    systems: nthOnly,
  },
  {
    id: 'apikeys@64/10000',
    title: 'One hot counter, each call with one of 10 000 API keys, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    apiKeys: 10_000,
    systems: nthOnly,
  },
  {
    id: 'hot@256',
    title: 'One hot counter, 256 connections',
    connections: 256,
    kind: 'counter',
    names: hot,
    readShare: 0,
    systems: all,
  },
  {
    id: 'bare@64',
    title: 'One hot counter that keeps no periods, 64 connections',
    connections: 64,
    kind: 'counter',
    names: hot,
    readShare: 0,
    ...bare,
    systems: nthOnly,
  },
  {
    id: 'told@64',
    title: 'One hot counter, each call told its number in this month, 64 connections',
    connections: 64,
    kind: 'counter',
    names: ['told'],
    readShare: 0,
    change: 'told',
    systems: nthOnly,
  },
  {
    id: 'exact@256',
    title: 'One hot counter, exact, through several processes, 256 connections',
    connections: 256,
    kind: 'counter',
    names: ['exact'],
    readShare: 0,
    systems: several,
  },
  {
    id: 'slots@256',
    title: 'One hot counter with 16 slots, through several processes, 256 connections',
    connections: 256,
    kind: 'counter',
    names: ['slotted'],
    readShare: 0,
    preparation: 'mutation { defineCounter(name: "slotted", definition: { slots: 16 }) { id } }',
    mayRepeat: true,
    systems: several,
  },
  {
    id: 'uniform@64',
    title: '10 000 counters, uniform, 64 connections',
    connections: 64,
    kind: 'counter',
    names: many,
    readShare: 0,
    systems: ['ceiling', ...durable],
  },
  {
    id: 'uniform@1',
    title: '1 000 counters, uniform, 1 connection',
    connections: 1,
    kind: 'counter',
    names: many.slice(0, 1000),
    readShare: 0,
    systems: distant,
  },
  {
    id: 'uniform@256',
    title: '10 000 counters, uniform, 256 connections',
    connections: 256,
    kind: 'counter',
    names: many,
    readShare: 0,
    systems: distant,
  },
  {
    id: MILLION,
    title: '1 000 000 counters, uniform, 64 connections',
    connections: 64,
    kind: 'counter',
    names: numbered('one', 1_000_000),
    readShare: 0,
    // Measured apart: see `million.ts`.
    systems: [],
  },
  {
    id: 'uniform-bare@64',
    title: '10 000 counters that keep no periods, uniform, 64 connections',
    connections: 64,
    kind: 'counter',
    names: many,
    readShare: 0,
    ...bare,
    systems: nthOnly,
  },
  {
    id: 'hundred@64',
    title: '100 counters, uniform, 64 connections',
    connections: 64,
    kind: 'counter',
    names: shown,
    readShare: 0,
    systems: nthOnly,
  },
  {
    id: 'many@64',
    title: '`incrementMany` of 100 counters a request, 64 connections',
    connections: 64,
    kind: 'counter',
    names: shown,
    readShare: 0,
    change: 'all',
    systems: nthOnly,
  },
  {
    id: 'boards@20',
    title: 'The next number of one of two boards, 20 connections',
    connections: 20,
    kind: 'group',
    names: boards,
    readShare: 0,
    systems: durable,
  },
  {
    id: 'sequence@64',
    title: 'The next number of one of two boards, 64 connections',

    connections: 64,
    kind: 'group',
    names: boards,
    readShare: 0,
    systems: ['ceiling', ...durable],
  },
  {
    id: 'mixed@64',
    title: '90 % reads of 100 counters, 10 % increments of one of them, 64 connections',
    connections: 64,
    kind: 'counter',
    names: shown,
    readShare: 0.9,
    systems: [...inMemory, 'recipe', 'redis'],
  },
  {
    id: 'reads@64',
    title: 'Reads of 100 counters, 64 connections',
    connections: 64,
    kind: 'counter',
    names: shown,
    readShare: 1,
    systems: inMemory,
  },
  {
    id: 'leaders@64/1k',
    title: 'Pages of 10 of 1 000 ranked counters, the first or one in the middle, 64 connections',
    connections: 64,
    kind: 'leaderboard',
    board: { namespace: 'thousand', size: 1_000 },
    systems: nthOnly,
  },
  {
    id: 'leaders@64/1m',
    title: 'Pages of 10 of 1 000 000 ranked counters, the first or one in the middle, 64 connections',
    connections: 64,
    kind: 'leaderboard',
    board: { namespace: 'million', size: 1_000_000 },
    systems: nthOnly,
  },
]

/** Every name of a kind that any workload of several systems uses. */
export function namesOf(kind: Counting['kind']): string[] {
  const compared = workloads.filter(({ systems }) => systems.length > 1)
  return [...new Set(compared.flatMap((workload) => (workload.kind === kind ? workload.names : [])))]
}

/** Whether a request changes many numbers, so that those are to be told beside the requests. */
export function changesMany(workload: Workload): boolean {
  return workload.kind !== 'leaderboard' && workload.change === 'all'
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`)
}
