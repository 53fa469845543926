/** All error codes of the API, with their descriptions for callers: the schema's enum is generated from this table. */
export const errorCodes = {
  BAD_USER_INPUT:
    'An argument is invalid. `argument` is its path, such as `changes.3.delta`. `limit` is the limit that it exceeds, and `position` the place of a fault in a format.',
  NOT_FOUND:
    'There is no reservation, hold, API key or trusted document with this ID, or a counter of the hold was deleted.',
  LIMIT_REACHED:
    'The change would exceed a bound. `limit` is the bound, and `value` the current value. If it is a limit of `maxIn`, `period` is its period, `used` the total of the current one, and `resetsAt` the end of it. If open holds take some of it, `held` is how much. In `incrementMany`, `index` is the position of the change, starting at 0.',
  OUT_OF_RANGE: 'A number would leave the range of SafeInt. `value` is the current value.',
  CONFLICT:
    'The counter is not as the caller expected. `value` is its current value, and `revision` its current revision. Nothing was changed. Or what is stored of a counter or sequence group was deleted from the database by hand: the message names the mutation to call.',
  SEQUENCE_EXHAUSTED:
    'The sequence has too few numbers left. `limit` is where it ends, and `lastValue` is the last number issued.',
  RESERVATION_CLOSED:
    'The reservation or hold is no longer open. `state` says why. If an expired hold finds too little room, `left` is what is left.',
  IDEMPOTENCY_KEY_REUSED: 'The idempotency key was used with another mutation or other arguments.',
  DOCUMENT_NOT_TRUSTED: 'This server, or this key, runs trusted documents only.',
  UNAUTHENTICATED: 'The credentials are missing or invalid.',
  FORBIDDEN: 'The credentials do not allow this.',
  RATE_LIMITED: 'There are too many changes, connections or subscriptions. Retry after `retryAfterMs`.',
  UNAVAILABLE: 'Not applied. Retry after `retryAfterMs`.',
  OUTCOME_UNKNOWN:
    'The change may have been applied. If it had an idempotency key, send it again with the same key.',
  INTERNAL_SERVER_ERROR: 'Internal error. The server log has the cause.',
  BAD_REQUEST: 'The HTTP request is malformed.',
  REQUEST_ENTITY_TOO_LARGE: 'The request is too large. `limit` is the limit in bytes.',
  GRAPHQL_PARSE_FAILED: 'The document is not valid GraphQL.',
  PERSISTED_QUERY_NOT_FOUND:
    'The server does not know this ID or hash. With a hash, send the document as well.',
  PERSISTED_QUERY_MISMATCH: 'The hash is not the SHA-256 of the document.',
  GRAPHQL_VALIDATION_FAILED: 'The document does not fit the schema, or exceeds a limit.',
  OPERATION_RESOLUTION_FAILURE: 'The operation was not found, or this HTTP method does not allow it.',
}

export type ErrorCode = keyof typeof errorCodes

/** Codes with which the same request can always safely be retried. */
const RETRYABLE: readonly ErrorCode[] = ['RATE_LIMITED', 'UNAVAILABLE']

/** Details for programs, sent beside the code in `extensions`. */
export interface ErrorDetails {
  /** Path of the invalid argument: `name`, `changes.3.delta`. */
  argument?: string
  limit?: number
  /** Position of the invalid character in the argument, from 1. */
  position?: number
  /** The current value, which the refused call did not change. */
  value?: number
  revision?: number | undefined
  lastValue?: number
  /** What open holds take of a bound or a limit. */
  held?: number
  /** What an expired hold could still count. */
  left?: number
  /** State of the reservation or hold. */
  state?: string
  /** Period of the limit, and the total and the end of the current one. */
  period?: string
  used?: number
  resetsAt?: string
  /** Index of the refused change, from 0. */
  index?: number
  /** Pause before a retry, in milliseconds. */
  retryAfterMs?: number
  /** Set if this request can safely be retried, unlike others with its code. */
  retryable?: true
}

/** An expected failure: its message and details are meant for the caller. */
export class NthError extends Error {
  override readonly name = 'NthError'
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    // Nobody needs the stack of an expected failure, and capturing it took most of the time of many refusals.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, options)
    Error.stackTraceLimit = stackTraceLimit
    this.code = code
    this.details = details
  }

  get extensions(): Record<string, unknown> {
    return { code: this.code, ...this.details, ...(RETRYABLE.includes(this.code) && { retryable: true }) }
  }
}

/** The error of a request that was certainly not applied. */
export function unavailable(message: string, cause?: unknown): NthError {
  return new NthError('UNAVAILABLE', message, { retryAfterMs: 1000 }, { cause })
}

/** The error of a row that this version can't use. What needs other rows goes on. */
export class UnusableRowError extends NthError {}

/** Whether storage can't take so much at once, and did nothing. A part of it may fit. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof NthError && error.code === 'REQUEST_ENTITY_TOO_LARGE'
}

export function errorOf(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause))
}

/**
 * States what must always hold. A violation is our fault: it is logged, and answered as an internal error.
 *
 * @throws {Error} if it doesn't hold
 */
export function assertInvariant(holds: boolean, invariant: string): asserts holds {
  if (!holds) throw new Error(`Internal error: it does not hold that ${invariant}`)
}

/** Between attempts at a statement or a transaction. Multiply by a random number: those that collided must part. */
export const RETRY = { shortestMs: 20, longestMs: 200 }

/**
 * After a conflict with another process. The other one won and doesn't pause, so who pauses for longer loses to it again
 * and again: on Galera, one of two servers at two nodes got nothing done for 10 s. In `npm run faults -- --engine
 * galera-10.11 --faults none --seconds 75` on two busy cores, 64 callers, one run each: with 200 ms 823 of 222 000 calls
 * took more than a second, the longest 5.2 s; with 40 ms 175 of 315 000, the longest 1.6 s.
 */
export const CONFLICT = { shortestMs: 20, longestMs: 40 }

/** Before a process that ended is started again. */
export const RESTART = { shortestMs: 200, longestMs: 5_000 }

/** The pause after a number of failures in a row, doubled after each: the shortest after the first. 0 for none. */
export function backoffMs({ shortestMs, longestMs }: typeof RETRY, failures: number): number {
  return failures === 0 ? 0 : Math.min(shortestMs * 2 ** (failures - 1), longestMs)
}
