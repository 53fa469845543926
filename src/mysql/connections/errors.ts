import { isTooLarge } from '../../core/errors.ts'
import { CLASSES } from './errorNumbers.ts'

export { ER } from './errorNumbers.ts'

type ErrorClass = keyof typeof CLASSES

/** What an error of the database or its driver means for the work that got it. */
const FAILURES = {
  /** Rolled back in favour of another transaction, or never sent: retry. */
  CONFLICTS: 'conflict',
  /** The server can't do it now; nothing was done. */
  SWITCHOVERS: 'refused',
  FULL_DISKS: 'refused',
  SHORTAGES: 'refused',
  LOCKOUTS: 'refused',
  /** The connection was lost before the answer: it may have been done. */
  LOSSES: 'lost',
  /** None of these: a fault of Nth, or of the tables. */
  OTHERS: 'fault',
} as const satisfies Record<ErrorClass, string>

type DriverError = NodeJS.ErrnoException & { fatal?: boolean }

/** An answer did not arrive in time, or could not be read. */
export class LostAnswerError extends Error {
  override readonly name = 'LostAnswerError'
}

/** A server, or all of them, must not be used now: asked again, it may. */
export class UnusableDatabaseError extends Error {
  override readonly name = 'UnusableDatabaseError'
  /** Whether only the operator can change that. */
  readonly isFinal: boolean

  constructor(message: string, { isFinal = false }: { isFinal?: boolean } = {}) {
    super(message)
    this.isFinal = isFinal
  }
}

/** Classifies an error of the server, the driver or a socket. */
export function failureOf(error: unknown) {
  if (error instanceof LostAnswerError) return 'lost'
  if (error instanceof UnusableDatabaseError) return 'refused'
  if (isServerError(error)) return FAILURES[classOf(error) ?? 'OTHERS']
  if (!(error instanceof Error)) return 'fault'
  const { errno, code, fatal }: DriverError = error
  // On a connection known to be closed, mysql2 rejects a statement without an error code: it was never sent.
  if (fatal && code === undefined) return 'conflict'
  return fatal || errno !== undefined || code !== undefined ? 'lost' : 'fault'
}

/** Whether the server rejected a statement, without executing any of it. */
export function isRefusal(error: unknown): boolean {
  return isServerError(error) && failureOf(error) !== 'lost'
}

/** Whether it is an exception of our own, not caused by the server or the connection: also a statement that is too long. */
export function isOwnFault(error: unknown): boolean {
  return isTooLarge(error) || (failureOf(error) === 'fault' && !isServerError(error))
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
  return classOf(error) === 'SWITCHOVERS'
}

/** Whether nobody can write now, though the database may answer reads. */
export function isUnwritable(error: unknown): boolean {
  return isSwitchover(error) || isFullDisk(error)
}

export function isFullDisk(error: unknown): boolean {
  return classOf(error) === 'FULL_DISKS'
}

/** Whether the server denies access. At startup, waiting doesn't change that. */
export function isLockout(error: unknown): boolean {
  return classOf(error) === 'LOCKOUTS'
}

export function hasErrorNumber(error: unknown, ...errnos: readonly number[]): boolean {
  return error instanceof Error && errnos.includes((error as DriverError).errno ?? 0)
}

/** A short reason for an operator. Some socket errors have no message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, code }: DriverError = error
  return message || code || error.name
}

function classOf(error: unknown): ErrorClass | undefined {
  if (!isServerError(error)) return undefined
  // `FAILURES` has no other keys.
  const names = Object.keys(FAILURES) as ErrorClass[]
  return names.find((name) => Object.values<number>(CLASSES[name]).includes(error.errno))
}

/** Error numbers from the server are positive; those of sockets are negative. */
function isServerError(error: unknown): error is DriverError & { errno: number } {
  return error instanceof Error && ((error as DriverError).errno ?? 0) > 0
}
