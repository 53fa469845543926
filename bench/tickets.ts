// The tickets of two boards without HTTP: how the core numbers them, beside a transaction for each.
import { createPool, type RowDataPacket } from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'
import type { Options } from './options.ts'
import { built } from './processes.ts'
import { medianOf, tableOf } from './report.ts'
import { type Progress, withResources } from './resources.ts'

const BOARDS = ['NINJA', 'ROCK']
const CALLERS = 10
const TICKETS = 1000
const DAY_MS = 86_400_000

interface Way {
  title: string
  /** Takes the next number of a board. */
  take(board: string): Promise<number>
  close(): Promise<void>
}

/**
 * Has 10 callers of each of two boards take 1 000 tickets each, in both ways in turn.
 *
 * @returns Markdown
 * @throws {Error} if a board's numbers of a round are not each of the next 10 000, once
 */
export function tickets({ rounds, ...options }: Options & Progress): Promise<string> {
  const { say, signal } = options
  return withResources(options, async (resources) => {
    const target = await resources.database()
    const ways = [await openNthWay(target), await openSerializableWay(target)]
    const speeds = ways.map((): number[] => [])
    for (let round = 1; round <= rounds; round++) {
      for (const [index, way] of ways.entries()) {
        signal.throwIfAborted()
        const speed = await measure(way)
        speeds[index]?.push(speed)
        say(`round ${round} of ${rounds}, ${way.title}: ${Math.round(speed)} tickets/s`)
      }
    }
    for (const way of ways) await way.close()
    const medians = speeds.map(medianOf)
    const rows = ways.map(({ title }, index) => {
      const speed = medians[index] ?? Number.NaN
      return [title, speed.toFixed(0), ((medians[0] ?? Number.NaN) / speed).toFixed(2)]
    })
    return [
      `## 2 boards x ${CALLERS} callers x ${TICKETS} tickets, each number of a board once and without a gap`,
      tableOf(['Way', 'Tickets/s', 'Nth / this'], rows),
      '',
    ].join('\n\n')
  })
}

/** @returns tickets per second */
async function measure({ take }: Way): Promise<number> {
  // In the first round this creates the rows, which is not measured.
  const firsts = await Promise.all(BOARDS.map(take))
  const from = performance.now()
  const boards = await Promise.all(
    BOARDS.map(async (board) => {
      const callers = Array.from({ length: CALLERS }, async () => {
        const numbers: number[] = []
        while (numbers.length < TICKETS) numbers.push(await take(board))
        return numbers
      })
      return (await Promise.all(callers)).flat()
    }),
  )
  const seconds = (performance.now() - from) / 1000
  for (const [index, numbers] of boards.entries()) {
    const first = firsts[index] ?? Number.NaN
    const isExact = numbers.toSorted((a, b) => a - b).every((number, place) => number === first + place + 1)
    if (!isExact) throw new Error(`${BOARDS[index]} has numbers other than the next ones after ${first}`)
  }
  return (BOARDS.length * CALLERS * TICKETS) / seconds
}

async function openNthWay(target: Target): Promise<Way> {
  const { migrate } = await built<typeof import('../src/repository/migrate.ts')>('repository/migrate.js')
  const { openNth } = await built<typeof import('../src/repository/nth.ts')>('repository/nth.js')
  const options = {
    timeoutMs: 10_000,
    maxPending: 10_000,
    keyTtlMs: DAY_MS,
    random: Math.random,
    notices: { info: () => undefined, warn: () => undefined, fault: console.error },
  }
  await migrate(target)
  const { sequences, close } = openNth([target], options)
  return {
    title: 'Nth, without HTTP',
    take: async (group) =>
      (await sequences.next({ namespace: 'bench', sequence: 'ticket', group }, 1)).issued.value,
    close,
  }
}

async function openSerializableWay(target: Target): Promise<Way> {
  const pool = createPool({ ...target, connectionLimit: BOARDS.length * CALLERS })
  pool.on('connection', (connection) => {
    connection.query('set session transaction isolation level serializable')
  })
  await pool.query(
    'create table board (name varchar(191) not null, value bigint not null, primary key (name)) engine = InnoDB',
  )
  await pool.query('insert into board (name, value) values ?', [BOARDS.map((board) => [board, 0])])
  return {
    title: 'SERIALIZABLE update and select, a connection for each caller',
    async take(board) {
      const connection = await pool.getConnection()
      try {
        await connection.query('start transaction')
        await connection.query('update board set value = value + 1 where name = ?', [board])
        const [[row]] = await connection.query<RowDataPacket[]>('select value from board where name = ?', [
          board,
        ])
        await connection.query('commit')
        return row?.value
      } finally {
        connection.release()
      }
    },
    close: () => pool.end(),
  }
}
