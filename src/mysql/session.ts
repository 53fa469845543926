import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2'
import { tripMeasure } from '../operations/measures.ts'
import { isRefusal, leavesConnection, withTimeout } from './errors.ts'
import type { FailoverDetector } from './health.ts'
import { isGaleraNode, isSurelySameRun, readStatus } from './hostStatus.ts'
import type { Host, Hosts } from './hosts.ts'
import { causalSettings, connectionOptions, maxStatementIn, sessionSettings } from './settings.ts'
import { assertFits, integer } from './sql.ts'

/** A server's answer to one statement. */
export type Answer = ResultSetHeader | RowDataPacket[]

export type Session = Awaited<ReturnType<typeof openSession>>

interface SessionOptions {
  /** Time limit for connecting, and for each answer, in milliseconds. */
  timeLimitMs: number
  /** How long the server keeps an idle session and its locks, in seconds. */
  idleLimitS: number
}

export class FailedStatement extends Error {
  override readonly name = 'FailedStatement'
  /** Index of the statement that failed; one too low if the statement before it returned rows, and it none. */
  readonly index: number

  constructor(index: number, cause: Error) {
    super(cause.message, { cause })
    this.index = index
  }
}

/** @throws the reason why it can't be opened */
export async function openSession(host: Host, { timeLimitMs, idleLimitS }: SessionOptions) {
  const options = { ...connectionOptions(host.target, timeLimitMs), multipleStatements: true }
  const connection = createConnection({ ...options, maxPreparedStatements: MAX_PREPARED })
  let isOpen = true
  let maxStatement = Number.POSITIVE_INFINITY
  const markClosed = () => {
    isOpen = false
  }
  // Not destroyed here: the driver still has to reject what is in flight.
  connection.on('error', markClosed)
  connection.on('end', markClosed)
  /** Closes it at once, even if an answer is outstanding. */
  const drop = () => {
    markClosed()
    connection.destroy()
  }

  /**
   * Sends statements as one text, and returns the answer to each.
   *
   * @throws {FailedStatement} if a statement fails: those before it were executed, those after it were not. The session
   *   is closed if the server accepts no more writes
   * @throws {NthError} REQUEST_ENTITY_TOO_LARGE: it was not sent
   * @throws {LostAnswerError} or a socket error: it is not known what was executed, and the session is closed
   */
  async function send(statements: readonly string[]): Promise<Answer[]> {
    const text = statements.join(';\n')
    assertFits(text, maxStatement)
    return answered(query(connection, text, statements.length))
  }

  /**
   * Sends one statement that returns no rows, with literals made of digits in the place of its question marks: to the server
   * they are texts. It parses the statement only the first time, which takes one trip more. It throws the errors of `send`.
   */
  function execute(statement: string, literals: string[]): Promise<Answer[]> {
    return answered(executePrepared(connection, statement, literals))
  }

  async function answered(sent: Promise<Answer[]>): Promise<Answer[]> {
    try {
      return await host.answer(timeLimitMs, sent)
    } catch (error) {
      if (!(error instanceof FailedStatement && leavesConnection(error.cause))) drop()
      throw error
    }
  }

  try {
    await send([...sessionSettings(1), `set session wait_timeout = ${integer(idleLimitS)}`])
    const identity = await readStatus(async (statement) => rowsOf((await send([statement]))[0]))
    host.check(identity)
    const { values } = identity
    maxStatement = maxStatementIn(values)
    const isGalera = isGaleraNode(values)
    // There a flush ends its transactions itself, and the server must not retry their statements.
    if (isGalera) await send(['set session autocommit = 0, wsrep_retry_autocommit = 0'])
    for (const statement of causalSettings(values)) await send([statement])
    return {
      host,
      identity,
      isGalera,
      /** Whether the server, or a proxy, prepares statements: false once it has refused to. */
      canPrepare: true,
      isOpen: () => isOpen,
      send,
      execute,
      drop,
      /** Closes it with a QUIT command. */
      close: () => withTimeout(timeLimitMs, connection.promise().end()).catch(drop),
    }
  } catch (error) {
    drop()
    throw error
  }
}

export function rowsOf<Row = RowDataPacket>(answer: Answer | undefined): Row[] {
  // The caller knows the columns of its statement; the driver doesn't.
  return Array.isArray(answer) ? (answer as Row[]) : []
}

export function firstRow<Row = RowDataPacket>(answer: Answer | undefined): Row | undefined {
  return rowsOf<Row>(answer)[0]
}

/** @param count of the statements in the text */
function query(connection: Connection, text: string, count: number): Promise<Answer[]> {
  if (tripMeasure.hasSubscribers) tripMeasure.publish(undefined)
  return new Promise((resolve, reject) => {
    let begun = 0
    let hasRows = false
    const sent = connection.query(text, (error, answers) => {
      // The driver returns a list of answers for several statements, and the answer itself for one.
      if (!error) return resolve((count === 1 ? [answers] : answers) as Answer[])
      // A statement that returns rows may fail after its answer has begun; others fail without an answer.
      reject(isRefusal(error) ? new FailedStatement(hasRows ? begun - 1 : begun, error) : error)
    })
    sent.on('fields', (fields: unknown) => {
      begun++
      hasRows = fields !== undefined
    })
  })
}

/**
 * Maximum statements that a session has prepared: also statements that contain an hour, one for each of the world's time
 * zones. The least recently used statements are closed.
 */
const MAX_PREPARED = 64

function executePrepared(connection: Connection, statement: string, literals: string[]): Promise<Answer[]> {
  if (tripMeasure.hasSubscribers) tripMeasure.publish(undefined)
  return new Promise((resolve, reject) => {
    connection.execute<ResultSetHeader>(statement, literals, (error, answer) => {
      if (error) reject(isRefusal(error) ? new FailedStatement(0, error) : error)
      else resolve([answer])
    })
  })
}

export interface ReconnectingSessionOptions extends SessionOptions {
  failover: FailoverDetector
  /** Opens a session: with a server, or a simulated one. */
  openSession: (host: Host, options: SessionOptions) => Promise<Session>
}

/** Opens a session when it is needed, and again whenever it is lost. */
export function openReconnectingSession(hosts: Hosts, options: ReconnectingSessionOptions) {
  const { failover } = options
  let latest: Session | undefined
  /** What it was opened with. */
  let incarnation = failover.incarnation

  return {
    /** @throws the reason why it can't be opened */
    async session(): Promise<Session> {
      // A connection of an earlier incarnation may lead to a server that was replaced.
      if (incarnation !== failover.incarnation || latest?.host.isLeft()) latest?.drop()
      failover.assertWhole()
      if (latest?.isOpen()) return latest
      let host: Host | undefined
      try {
        host = await hosts.current()
        const session = await options.openSession(host, options)
        // The server may not have noticed the loss of the last session, and would keep its locks. Each run of a server
        // numbers its connections from the start, so it must be certain that it is the same run.
        if (latest && isSurelySameRun(latest.identity, session.identity)) {
          // It may be gone already, or this user may not end it: then the server ends it at its idle limit.
          await session.send([`kill ${integer(latest.identity.connectionId)}`]).catch((error) => {
            if (!(error instanceof FailedStatement)) throw error
          })
        }
        failover.reached(session.identity)
        incarnation = failover.incarnation
        latest = session
        return session
      } catch (error) {
        host?.failed()
        throw error
      }
    },

    current: () => (latest?.isOpen() ? latest : undefined),

    async close() {
      if (latest?.isOpen()) await latest.close()
    },
  }
}
