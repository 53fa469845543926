// The tickets of two boards without HTTP: how the core numbers them, beside a transaction for each.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createPool, type PoolConnection, type RowDataPacket } from 'mysql2/promise'
import type { Target } from '../src/mysql/settings.ts'
import { built } from './built.ts'
import { openDatabase } from './database.ts'
import { middleOf } from './median.ts'

const BOARDS = ['NINJA', 'ROCK']
const CALLERS = 10
const TICKETS = 1000
const DAY_MS = 86_400_000

export interface TicketsOptions {
  rounds: number
  /** Told how far it is. */
  say: (message: string) => void
  signal: AbortSignal
}

/** Takes the next number of a board. */
type Take = (board: string) => Promise<number>

interface Way {
  title: string
  /** Makes boards that have no ticket yet. */
  begin(round: number): Promise<Take>
  close(): Promise<void>
}

/**
 * Has 10 callers of each of two boards write 1 000 tickets each, in both ways in turn.
 *
 * @returns Markdown
 * @throws {Error} if a board's numbers are not exactly 2 to 10 001, after the first, which makes its row
 */
export async function tickets({ rounds, say, signal }: TicketsOptions): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'nth-tickets-'))
  const database = await openDatabase(directory, { say, signal })
  try {
    const ways = [await openNthWay(database.target), await openSerializableWay(database.target)]
    const speeds = ways.map((): number[] => [])
    for (let round = 1; round <= rounds; round++) {
      for (const [index, way] of ways.entries()) {
        signal.throwIfAborted()
        const speed = await measure(await way.begin(round))
        speeds[index]?.push(speed)
        say(`round ${round} of ${rounds}, ${way.title}: ${Math.round(speed)} tickets/s`)
      }
    }
    for (const way of ways) await way.close()
    return tableOf(ways, speeds)
  } finally {
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** @returns tickets per second */
async function measure(take: Take): Promise<number> {
  // Makes the rows of each, which isn't what is measured.
  await Promise.all(BOARDS.map(take))
  const from = performance.now()
  const boards = await Promise.all(
    BOARDS.map(async (board) => {
      const callers = Array.from({ length: CALLERS }, async () => {
        const own: number[] = []
        while (own.length < TICKETS) own.push(await take(board))
        return own
      })
      return (await Promise.all(callers)).flat()
    }),
  )
  const seconds = (performance.now() - from) / 1000
  for (const numbers of boards) {
    const isExact = numbers.toSorted((a, b) => a - b).every((number, index) => number === index + 2)
    if (!isExact) throw new Error('A board has numbers other than 2 to 10 001')
  }
  return (BOARDS.length * CALLERS * TICKETS) / seconds
}

async function openNthWay(target: Target): Promise<Way> {
  const { migrate } = await built<typeof import('../src/repository/migrate.ts')>('repository/migrate.js')
  const { openStore } = await built<typeof import('../src/repository/nth.ts')>('repository/nth.js')
  const { openNth } = await built<typeof import('../src/repository/nth.ts')>('repository/nth.js')
  const options = {
    timeoutMs: 10_000,
    timeLimitMs: 10_000,
    maxPending: 10_000,
    keyTtlMs: DAY_MS,
    random: Math.random,
    notices: { info: () => undefined, warn: () => undefined, fault: console.error },
  }
  await migrate(target)
  const store = openStore([target], options)
  const { sequences, close } = openNth(store, options)
  return {
    title: 'Nth, without HTTP',
    begin: async (round) => async (group) =>
      (await sequences.next({ namespace: 'bench', sequence: `ticket ${round}`, group }, 1)).issued.value,
    async close() {
      await close()
      await store.close()
    },
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

  async function take(connection: PoolConnection, board: string): Promise<number> {
    await connection.query('start transaction')
    await connection.query('update board set value = value + 1 where name = ?', [board])
    const [[row]] = await connection.query<RowDataPacket[]>('select value from board where name = ?', [board])
    await connection.query('commit')
    return row?.value
  }

  return {
    title: 'SERIALIZABLE update and select, a connection for each caller',
    async begin() {
      await pool.query('delete from board')
      await pool.query('insert into board (name, value) values ?', [BOARDS.map((board) => [board, 0])])
      return async (board) => {
        const connection = await pool.getConnection()
        try {
          return await take(connection, board)
        } finally {
          connection.release()
        }
      }
    },
    close: () => pool.end(),
  }
}

function tableOf(ways: readonly Way[], speeds: readonly number[][]): string {
  const [own = 0] = speeds.map(middleOf)
  const rows = ways.map(({ title }, index) => {
    const speed = middleOf(speeds[index] ?? [])
    return `| ${title} | ${Math.round(speed)} | ${(own / speed).toFixed(2)} |`
  })
  return [
    `## 2 boards x ${CALLERS} callers x ${TICKETS} tickets, each board exactly 2 to ${CALLERS * TICKETS + 1}`,
    '',
    '| Way | Tickets/s | Nth / this |',
    '| --- | ---: | ---: |',
    ...rows,
    '',
  ].join('\n')
}
