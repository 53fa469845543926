export type SystemId =
  | 'nth'
  | 'pair'
  | 'far'
  | 'ceiling'
  | PeerId
  | 'mariadb'
  | 'galera'
  | 'galera-2'
  | 'mysql'
  | 'group'
  | 'group-eventual'

/** Other ways to count, see `peer.ts`. */
export type PeerId = 'textbook' | 'recipe' | 'drizzle' | 'mercurius' | 'redis'

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
  /** How many random names a request reads. By default, each reads all. */
  readCount?: number
  /** What is read of each name: the value, the hours of a day, or the place among the others. The default is the value. */
  read?: 'value' | 'history' | 'place'
  /** A mutation that is sent to Nth before anything is counted. */
  preparation?: string
  /** Statements that change a system's own database once all names exist. Names that are read are changed again then. */
  statements?: Partial<Record<SystemId, readonly string[]>>
  /** The workload whose cost the report compares this one's with. */
  beside?: string
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
const hourly = numbered('hourly', 100)
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
const readers: readonly SystemId[] = ['nth', 'mercurius']

/** Statements that give each of the hourly counters a total of 1 for each hour of two years, day by day. */
function twoYears(table: string, columns: string, values: string): string[] {
  const hours = Array.from({ length: 24 }, (_, hour) => `select ${hour + 1} as hour`).join(' union all ')
  return Array.from(
    { length: 730 },
    (_, day) =>
      `insert into ${table} (${columns}, start, value)
       select ${values}, 3600 * (floor(unix_timestamp() / 3600) - ${24 * day} - hour), 1
         from counter, (${hours}) hours
        where name like 'hourly-%'`,
  )
}

/** Gives each of the 10 000 counters a value of its own. */
const spread = (table: string, name: string) =>
  `update ${table}
      set value = value + substring_index(${name}, '-', -1)
    where ${name} like 'counter-%'`

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
  reads('read-1@64', 'Reads of 1 of 10 000 counters', tenThousand, 1),
  reads('read-100@16', 'Reads of 100 of 10 000 counters', tenThousand, 100),
  reads('read-500@16', 'Reads of 500 of 10 000 counters', tenThousand, 500),
  reads('history@16', 'Reads of the last 24 hours of 100 counters with two years of hours', hourly, 100, {
    read: 'history',
    preparation: `mutation {
      ${hourly.map((name, index) => `c${index}: defineCounter(name: "${name}", definition: { periods: [{ period: HOUR, keepDays: 731 }] }) { id }`).join(' ')}
    }`,
    statements: {
      nth: twoYears('counter_history', 'counter_id, period', 'id, 1'),
      mercurius: twoYears('counter_hour', 'name', 'name'),
    },
  }),
  reads('place@16', 'Reads of the place of 1 of 10 000 counters', tenThousand, 1, {
    read: 'place',
    statements: {
      nth: [spread('counter_value join counter on id = counter_id', 'name')],
      mercurius: ['alter table counter add key counter_value (value)', spread('counter', 'name')],
    },
  }),
  changes('hundred@64', '100 counters', hundred, ['nth', ...clusters]),
  changes('many@64', '`incrementMany` of 100 counters a request', hundred, ['nth'], {
    change: 'incrementMany',
  }),
  changes('keyed@64', 'One hot counter, each call with a new idempotency key', hot, ['nth'], {
    change: 'withKey',
    beside: 'hot@64',
  }),
  changes('subject@64', 'One hot counter, each call with a new subject', ['subjects'], ['nth'], {
    change: 'withSubject',
    beside: 'hot@64',
  }),
  changes('again@64', 'One hot counter, each call with a subject that has counted', ['counted'], ['nth'], {
    change: 'again',
    beside: 'hot@64',
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
  changes('million', '1 000 000 counters', numbered('one', 1_000_000), ['nth'], {
    statements: { nth: [`set global innodb_buffer_pool_size = ${2 ** 30}`] },
    beside: 'uniform@64',
    isOnlyNamed: true,
  }),
]

/** What `--ratios` measures: Nth beside what a team would write by hand. */
export const ratios: readonly string[] = [
  ...[
    'nth',
    'mercurius',
    'redis',
    'hot@1',
    'hot@64',
    'uniform@64',
    'read-1@64',
    'read-100@16',
    'read-500@16',
  ],
  ...['history@16', 'place@16', 'keyed@64', 'subject@64'],
]

/** Every name that the peers of Nth need: of counters, or of groups. */
export function peerNames(kind: 'counter' | 'group'): string[] {
  const names = workloads
    .filter(
      ({ change, systems }) =>
        systems.some((id) => id === 'recipe' || id === 'mercurius') &&
        (change === 'nextInSequence') === (kind === 'group'),
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

/** @param count how many of the names a request reads */
function reads(
  id: string,
  title: string,
  names: readonly string[],
  count: number,
  more: Partial<Workload> = {},
): Workload {
  return changes(id, title, names, readers, { readShare: 1, readCount: count, ...more })
}

export function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`)
}
