import type { SystemId } from './systems.ts'

/** What clients do, over and over: change one of some names, or read all of them. */
export interface Workload {
  id: string
  title: string
  connections: number
  /** Counters, or with `nextInSequence` groups of the one sequence. */
  names: readonly string[]
  /**
   * How they are changed: `incrementMany` changes all in one request; `withKey` sends a new idempotency key on each call,
   * `withSubject` a new subject, and `again` a subject that has counted; `inText` has name and key in the document;
   * `withMonth` asks for the counter's value in this month.
   */
  change:
    | 'increment'
    | 'incrementMany'
    | 'withKey'
    | 'withSubject'
    | 'again'
    | 'inText'
    | 'withMonth'
    | 'nextInSequence'
  /** How many of the requests read, from 0 to 1. */
  readShare?: number
  /** A mutation that is sent once, before anything is counted. */
  preparation?: string
  /** Whether numbers may be issued twice, as those of slots are. */
  mayRepeat?: boolean
  /** The systems that it is measured on. */
  systems: readonly SystemId[]
  /** Whether it is only measured if `--only` names it. */
  isOnlyNamed?: boolean
}

/** The sequence whose groups are numbered. */
export const SEQUENCE = 'ticket'

const hot = ['hot']
const tenThousand = numbered('counter', 10_000)
const hundred = numbered('shown', 100)
const boards = ['MYBOARD', 'YOURBOARD']

/** One database server, and clusters. */
export const clusters: readonly SystemId[] = [
  'mariadb',
  'galera',
  'galera-2',
  'mysql',
  'group',
  'group-eventual',
]
const durable: readonly SystemId[] = ['nth', 'textbook', 'recipe', 'drizzle', 'redis']
/** What is measured at a distance from the database. */
const distant: readonly SystemId[] = ['nth', 'recipe']
const several: readonly SystemId[] = ['pair', 'far']

export const workloads: readonly Workload[] = [
  changes('hot@1', 'One hot counter', hot, [...durable, ...clusters]),
  changes('hot@64', 'One hot counter', hot, ['ceiling', ...durable, ...clusters]),
  changes('hot@256', 'One hot counter', hot, ['ceiling', ...durable]),
  changes('uniform@64', '10 000 counters', tenThousand, ['ceiling', ...durable]),
  changes('uniform@256', '10 000 counters', tenThousand, distant),
  changes('boards@20', 'The next number of one of two boards', boards, durable, { change: 'nextInSequence' }),
  changes('sequence@64', 'The next number of one of two boards', boards, ['ceiling', ...durable], {
    change: 'nextInSequence',
  }),
  changes('reads@1', 'Reads of 100 counters', hundred, clusters, { readShare: 1 }),
  changes('reads@64', 'Reads of 100 counters', hundred, ['nth', 'ceiling', ...clusters], { readShare: 1 }),
  changes('hundred@64', '100 counters', hundred, ['nth', ...clusters]),
  changes('many@64', '`incrementMany` of 100 counters a request', hundred, ['nth'], {
    change: 'incrementMany',
  }),
  changes('keyed@64', 'One hot counter, each call with a new idempotency key', hot, ['nth'], {
    change: 'withKey',
  }),
  changes('subject@64', 'One hot counter, each call with a new subject', ['subjects'], ['nth'], {
    change: 'withSubject',
  }),
  changes('again@64', 'One hot counter, each call with a subject that has counted', ['counted'], ['nth'], {
    change: 'again',
    preparation: 'mutation { increment(name: "counted", subject: "again") { value } }',
  }),
  changes('bare@64', 'One hot counter that keeps no periods', ['bare'], ['nth'], {
    preparation: 'mutation { defineCounter(name: "bare", definition: { periods: [] }) { id } }',
  }),
  changes('month@64', 'One hot counter, each call with its number in this month', ['month'], ['nth'], {
    change: 'withMonth',
  }),
  changes('exact@256', 'One hot counter, exact, through several processes', ['exact'], several),
  changes('slots@256', 'One hot counter with 16 slots, through several processes', ['slotted'], several, {
    preparation: 'mutation { defineCounter(name: "slotted", definition: { slots: 16 }) { id } }',
    mayRepeat: true,
  }),
  changes('thousand@64', '1 000 counters', numbered('watched', 1000), ['nth'], { isOnlyNamed: true }),
  changes('million', '1 000 000 counters', numbered('one', 1_000_000), ['nth'], { isOnlyNamed: true }),
]

/** Every name that the peers of Nth need: of counters, or of groups. */
export function peerNames(kind: 'counter' | 'group'): string[] {
  const names = workloads
    .filter(
      ({ change, systems }) =>
        systems.includes('recipe') && (change === 'nextInSequence') === (kind === 'group'),
    )
    .flatMap(({ names }) => names)
  return [...new Set(names)]
}

/** @param id ends with the number of connections, if it is not 64 */
function changes(
  id: string,
  title: string,
  names: readonly string[],
  systems: readonly SystemId[],
  more: Partial<Workload> = {},
): Workload {
  const connections = Number(id.split('@')[1] ?? 64)
  const suffix = `${connections} connection${connections === 1 ? '' : 's'}`
  return { id, title: `${title}, ${suffix}`, connections, names, systems, change: 'increment', ...more }
}

export function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`)
}
