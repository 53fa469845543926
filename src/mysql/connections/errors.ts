import { CONFLICTS, FULL_DISKS, LOCKOUTS, LOSSES, SHORTAGES, SWITCHOVERS } from './errorNumbers.ts'

export { ER } from './errorNumbers.ts'

/** What an error of the database or its driver means for the work that got it. */
export type Failure =
  /** Rolled back in favour of another transaction, or never sent: retry. */
  | 'conflict'
  /** The server can't do it now; nothing was done. */
  | 'refused'
  /** The connection was lost before the answer: it may have been done. */
  | 'lost'
  /** None of these: a fault of Nth, or of the tables. */
  | 'fault'

const failures = new Map<number, Failure>([
  ...failing('conflict', CONFLICTS),
  ...failing('refused', SWITCHOVERS),
  ...failing('refused', FULL_DISKS),
  ...failing('refused', SHORTAGES),
  ...failing('refused', LOCKOUTS),
  ...failing('lost', LOSSES),
])
const switchovers = numbersIn(SWITCHOVERS)
const fullDisks = numbersIn(FULL_DISKS)
const lockouts = numbersIn(LOCKOUTS)

interface DriverError extends Error {
  errno?: number
  code?: string
  fatal?: boolean
}

/** An answer did not arrive in time, or could not be read. */
export class LostAnswerError extends Error {
  override readonly name = 'LostAnswerError'
}

/** Classifies an error of the server, the driver or a socket. */
export function failureOf(error: unknown): Failure {
  if (error instanceof LostAnswerError) return 'lost'
  if (isServersWord(error)) return failures.get(error.errno) ?? 'fault'
  if (!(error instanceof Error)) return 'fault'
  const { errno, code, fatal }: DriverError = error
  // On a connection known to be closed, mysql2 rejects a statement without an error code: it was never sent.
  if (fatal && code === undefined) return 'conflict'
  return fatal || errno !== undefined || code !== undefined ? 'lost' : 'fault'
}

/** Whether the server rejected a statement, without executing any of it. */
export function isRefusal(error: unknown): boolean {
  return isServersWord(error) && failureOf(error) !== 'lost'
}

/** Whether it is an exception of our own, not caused by the server or the connection. */
export function isOwnFault(error: unknown): boolean {
  return failureOf(error) === 'fault' && !isServersWord(error)
}

/**
 * Whether the connection is still usable after an error: the server rejected something, and keeps listening. Not if it
 * no longer accepts writes: the connection would stay with it after another server has taken over.
 */
export function leavesConnection(error: unknown): boolean {
  return isRefusal(error) && !isSwitchover(error) && !isLockout(error)
}

/** Whether the server doesn't accept writes (any more). The next connection may lead to another one. */
export function isSwitchover(error: unknown): boolean {
  return isOf(switchovers, error)
}

/** Whether nobody can write now, though the database may answer reads. */
export function isUnwritable(error: unknown): boolean {
  return isSwitchover(error) || isOf(fullDisks, error)
}

/** Whether the server denies access. At startup, waiting doesn't change that. */
export function isLockout(error: unknown): boolean {
  return isOf(lockouts, error)
}

/** Error numbers from the server are positive; those of sockets are negative. */
function isServersWord(error: unknown): error is DriverError & { errno: number } {
  return error instanceof Error && ((error as DriverError).errno ?? 0) > 0
}

export function hasErrorNumber(error: unknown, errno: number): boolean {
  return error instanceof Error && (error as DriverError).errno === errno
}

/** A short reason for an operator. Some socket errors have no message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, code }: DriverError = error
  return message || code || error.name
}

function failing(failure: Failure, numbers: Record<string, number>): [number, Failure][] {
  return Object.values(numbers).map((errno) => [errno, failure])
}

function numbersIn(numbers: Record<string, number>): Set<number> {
  return new Set(Object.values(numbers))
}

function isOf(numbers: Set<number>, error: unknown): boolean {
  return isServersWord(error) && numbers.has(error.errno)
}
