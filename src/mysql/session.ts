import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2'
import { isRefusal, leavesConnection } from './errors.ts'
import { integer } from './literals.ts'
import { ASK_PLACE, type Place, placeIn } from './place.ts'
import { connectionOptions, sessionSettings } from './settings.ts'
import type { Target } from './target.ts'
import { within } from './within.ts'

/** What a server answers to one statement. */
export type Answer = ResultSetHeader | RowDataPacket[]

/** A connection of which nobody else makes use. */
export interface Session {
  place: Place
  /** Whether the server is one node of a Galera cluster. */
  isClustered: boolean
  isOpen(): boolean
  /**
   * Sends statements as one text, and returns the answer to each.
   *
   * @throws {FailedStatement} what the server says; the statements before that one were done, none after it. The
   *   session is closed if the server takes no more writes
   * @throws {LostAnswerError} or an error of the socket: nobody knows what was done, and the session is closed
   */
  send(statements: readonly string[]): Promise<Answer[]>
  /** Takes leave of the server. */
  close(): Promise<void>
  /** Closes it at once, answered or not. */
  drop(): void
}

export interface SessionOptions {
  /** How long connecting, or an answer, may take, in milliseconds. */
  timeLimitMs: number
  /** For how long the server keeps an idle session, and what it has locked, in seconds. */
  idleLimitS: number
}

/** The server's refusal of one of several statements. */
export class FailedStatement extends Error {
  override readonly name = 'FailedStatement'
  /** Which one. */
  readonly index: number
  override readonly cause: Error

  constructor(index: number, cause: Error) {
    super(cause.message)
    this.index = index
    this.cause = cause
  }
}

const LOCK_WAIT_S = 1

/** @throws the reason why there is none */
export async function openSession(target: Target, options: SessionOptions): Promise<Session> {
  const { timeLimitMs, idleLimitS } = options
  const connection = createConnection({
    ...connectionOptions(target, timeLimitMs),
    multipleStatements: true,
  })
  let isOpen = true
  const note = () => {
    isOpen = false
  }
  // Not destroyed here: the driver has yet to fail what was sent.
  connection.on('error', note)
  connection.on('end', note)
  const drop = () => {
    note()
    connection.destroy()
  }

  async function send(statements: readonly string[]): Promise<Answer[]> {
    try {
      return await within(timeLimitMs, query(connection, statements))
    } catch (error) {
      if (!(error instanceof FailedStatement && leavesConnection(error.cause))) drop()
      throw error
    }
  }

  try {
    const answers = await send([
      ...sessionSettings({ lockWaitS: LOCK_WAIT_S }),
      `set session wait_timeout = ${integer(idleLimitS)}`,
      ...ASK_PLACE,
    ])
    const place = placeIn(answers.slice(-ASK_PLACE.length).map(rowsOf))
    const isClustered = place.cluster !== ''
    // There a flush ends its transactions itself, and the server repeats nothing of them.
    if (isClustered) await send(['set session autocommit = 0, wsrep_retry_autocommit = 0'])
    return {
      place,
      isClustered,
      isOpen: () => isOpen,
      send,
      drop,
      async close() {
        const ended = new Promise<void>((resolve) => connection.end(() => resolve()))
        await within(timeLimitMs, ended).catch(drop)
      },
    }
  } catch (error) {
    drop()
    throw error
  }
}

/** The rows that a select found. */
export function rowsOf(answer: Answer | undefined): RowDataPacket[] {
  return Array.isArray(answer) ? answer : []
}

/** The first row that a select found. */
export function firstRow(answer: Answer | undefined): RowDataPacket | undefined {
  return rowsOf(answer)[0]
}

function query(connection: Connection, statements: readonly string[]): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    let begun = 0
    const sent = connection.query(statements.join(';\n'), (error, answers) => {
      if (error) return reject(isRefusal(error) ? new FailedStatement(failedIndex(), error) : error)
      // The driver gives a list of answers for several statements, and the answer itself for one.
      resolve((statements.length === 1 ? [answers] : answers) as Answer[])
    })
    sent.on('fields', () => begun++)

    /** A select can fail after its answer has begun; anything else fails instead of answering. */
    function failedIndex(): number {
      return /^select/.test(statements[begun - 1] ?? '') ? begun - 1 : begun
    }
  })
}
