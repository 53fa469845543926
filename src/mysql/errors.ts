import { CONFLICTS, FULL_DISKS, LOCKOUTS, LOSSES, SHORTAGES, SWITCHOVERS } from './errorNumbers.ts'

export { ER } from './errorNumbers.ts'

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

/** The answer to something that was sent will not come: it was not there in time, or could not be read. */
export class LostAnswerError extends Error {
  override readonly name = 'LostAnswerError'
}

/** What an error means, be it the server's, the driver's or a socket's. */
export function failureOf(error: unknown): Failure {
  if (error instanceof LostAnswerError) return 'lost'
  if (isServersWord(error)) return failures.get(error.errno) ?? 'fault'
  if (!(error instanceof Error)) return 'fault'
  const { errno, code, fatal }: DriverError = error
  // mysql2 refuses a statement on a connection that is known to be closed, without a code: it was never sent.
  if (fatal && code === undefined) return 'conflict'
  return fatal || errno !== undefined || code !== undefined ? 'lost' : 'fault'
}

/** Whether the server said no, and did nothing of the statement that it said it to. */
export function isRefusal(error: unknown): boolean {
  return isServersWord(error) && failureOf(error) !== 'lost'
}

/** Whether it is an exception of our own, which neither the server nor the connection has caused. */
export function isOwnFault(error: unknown): boolean {
  return failureOf(error) === 'fault' && !isServersWord(error)
}

/**
 * Whether the connection is to be used after an error: the server refused something, and goes on listening. Not one
 * to a server that no longer takes writes: it would never learn that another has taken over.
 */
export function leavesConnection(error: unknown): boolean {
  return isRefusal(error) && !isSwitchover(error) && !isLockout(error)
}

/** Whether the server is not, or no longer, one to write to: the next connection may lead to another. */
export function isSwitchover(error: unknown): boolean {
  return isOf(switchovers, error)
}

/** Whether nothing can be written now, by anybody, though the database may answer reads. */
export function isUnwritable(error: unknown): boolean {
  return isSwitchover(error) || isOf(fullDisks, error)
}

/** Whether the server doesn't let this user in, which waiting doesn't change when a service is just started. */
export function isLockout(error: unknown): boolean {
  return isOf(lockouts, error)
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

function failing(failure: Failure, numbers: Record<string, number>): [number, Failure][] {
  return Object.values(numbers).map((errno) => [errno, failure])
}

function numbersIn(numbers: Record<string, number>): Set<number> {
  return new Set(Object.values(numbers))
}

function isOf(numbers: Set<number>, error: unknown): boolean {
  return isServersWord(error) && numbers.has(error.errno)
}
