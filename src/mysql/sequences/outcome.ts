import { NthError } from '../../core/errors.ts'
import type { SequenceState } from '../../core/sequences/store.ts'

/** An attempt at a change that is not repeated blindly. */
export interface Attempt {
  /** Whether a COMMIT may have been sent without an answer. */
  isCommitting: boolean
  /** The new state, if it may have been applied. */
  state?: SequenceState
}

/** @throws {NthError} OUTCOME_UNKNOWN if a COMMIT may have been sent without an answer */
export async function withKnownOutcome<T>(work: (attempt: Attempt) => Promise<T>): Promise<T> {
  const attempt: Attempt = { isCommitting: false }
  try {
    return await work(attempt)
  } catch (cause) {
    const isOpen = attempt.isCommitting && cause instanceof NthError && cause.code === 'UNAVAILABLE'
    if (!isOpen) throw cause
    const message =
      'The database did not confirm this change in time: it may have been applied. Send it again; that is safe.'
    throw new NthError('OUTCOME_UNKNOWN', message, { retryable: true }, { cause })
  }
}
