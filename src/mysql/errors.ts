/** The error numbers of MySQL and MariaDB that Nth reacts to, by their names in the servers' manuals. */
export const ER = {
  CHECKREAD: 1020,
  DISK_FULL: 1021,
  CON_COUNT_ERROR: 1040,
  UNKNOWN_COM: 1047,
  BAD_NULL_ERROR: 1048,
  BAD_DB: 1049,
  SERVER_SHUTDOWN: 1053,
  DUP_FIELDNAME: 1060,
  CANT_DROP_FIELD_OR_KEY: 1091,
  DUP_ENTRY: 1062,
  NO_SUCH_THREAD: 1094,
  RECORD_FILE_FULL: 1114,
  ERROR_DURING_COMMIT: 1180,
  LOCK_WAIT_TIMEOUT: 1205,
  LOCK_DEADLOCK: 1213,
  SUBQUERY_NO_1_ROW: 1242,
  OPTION_PREVENTS_STATEMENT: 1290,
  QUERY_INTERRUPTED: 1317,
  READ_ONLY_TRANSACTION: 1792,
  READ_ONLY_MODE: 1836,
  CONNECTION_KILLED: 1927,
  STATEMENT_TIMEOUT: 1969,
  TRANSACTION_ROLLBACK_DURING_COMMIT: 3101,
  LOCK_NOWAIT: 3572,
  CLIENT_INTERACTION_TIMEOUT: 4031,
} as const

/** What an error from the database or its driver means for the work that met it. */
export type Failure =
  /** Rolled back in favour of somebody else, or never sent: try again. */
  | 'conflict'
  /** The server can't do it now; nothing was done. */
  | 'refused'
  /** The connection ended, so the answer will never come: it may have been done. */
  | 'lost'
  /** None of these: a fault of ours, or of the tables. */
  | 'fault'

const CONFLICTS = new Set<number>([
  ER.CHECKREAD,
  ER.LOCK_WAIT_TIMEOUT,
  ER.LOCK_DEADLOCK,
  ER.LOCK_NOWAIT,
  ER.TRANSACTION_ROLLBACK_DURING_COMMIT,
])

const REFUSALS = new Set<number>([
  ER.DISK_FULL,
  ER.CON_COUNT_ERROR,
  ER.UNKNOWN_COM,
  ER.SERVER_SHUTDOWN,
  ER.RECORD_FILE_FULL,
  ER.OPTION_PREVENTS_STATEMENT,
  ER.QUERY_INTERRUPTED,
  ER.READ_ONLY_TRANSACTION,
  ER.READ_ONLY_MODE,
  ER.STATEMENT_TIMEOUT,
])

const LOSSES = new Set<number>([ER.ERROR_DURING_COMMIT, ER.CONNECTION_KILLED, ER.CLIENT_INTERACTION_TIMEOUT])

interface DriverError extends Error {
  errno?: number
  code?: string
  fatal?: boolean
}

/** The answer to something that was sent will not come: it was not there in time, or could not be read. */
export class LostAnswerError extends Error {
  override readonly name = 'LostAnswerError'
}

/** What an error means, be it the server's, the driver's or a socket's. */
export function failureOf(error: unknown): Failure {
  if (error instanceof LostAnswerError) return 'lost'
  if (isServersWord(error)) {
    if (CONFLICTS.has(error.errno)) return 'conflict'
    if (REFUSALS.has(error.errno)) return 'refused'
    return LOSSES.has(error.errno) ? 'lost' : 'fault'
  }
  if (!(error instanceof Error)) return 'fault'
  const { errno, code, fatal }: DriverError = error
  // mysql2 refuses a statement on a connection that is known to be closed, without a code: it was never sent.
  if (fatal && code === undefined) return 'conflict'
  return fatal || errno !== undefined || code !== undefined ? 'lost' : 'fault'
}

/** Whether the connection can be used after an error: the server refused something, and goes on listening. */
export function leavesConnection(error: unknown): boolean {
  return isServersWord(error) && failureOf(error) !== 'lost'
}

/** Whether it is an exception of our own, which neither the server nor the connection has caused. */
export function isOwnFault(error: unknown): boolean {
  return failureOf(error) === 'fault' && !isServersWord(error)
}

/** A packet of the server carries its error number, which is positive; errors of sockets have negative ones. */
function isServersWord(error: unknown): error is DriverError & { errno: number } {
  return error instanceof Error && ((error as DriverError).errno ?? 0) > 0
}

export function hasErrorNumber(error: unknown, errno: number): boolean {
  return error instanceof Error && (error as DriverError).errno === errno
}

/** Why, in a few words for an operator. Some errors of sockets have no message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, code }: DriverError = error
  return message || code || error.name
}
