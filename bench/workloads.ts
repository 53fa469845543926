import type { SystemId } from './systems.ts'

/** What clients do, over and over: change one of some numbers, or read all of them. */
export interface Workload {
  id: string
  title: string
  connections: number
  /** What carries a number: a counter, or a group of the one sequence. */
  kind: 'counter' | 'group'
  names: readonly string[]
  /** How many of the requests read, from 0 to 1. */
  readShare: number
  /** The systems that it is measured on. */
  systems: readonly SystemId[]
}

/** The sequence whose groups are numbered. */
export const SEQUENCE = 'ticket'

const hot = ['hot']
const many = numbered('counter', 10_000)
const shown = numbered('shown', 100)
const boards = ['MYBOARD', 'YOURBOARD']

const durable: SystemId[] = ['nth', 'textbook', 'recipe', 'drizzle', 'redis']
const all: SystemId[] = ['nth', 'ceiling', 'textbook', 'recipe', 'drizzle', 'redis', 'mercurius']
const inMemory: SystemId[] = ['nth', 'ceiling', 'mercurius']

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
    id: 'hot@256',
    title: 'One hot counter, 256 connections',
    connections: 256,
    kind: 'counter',
    names: hot,
    readShare: 0,
    systems: all,
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
]

/** Every name of a kind that any workload uses. */
export function namesOf(kind: Workload['kind']): string[] {
  return [...new Set(workloads.filter((workload) => workload.kind === kind).flatMap(({ names }) => names))]
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`)
}
