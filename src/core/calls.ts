import type { Dealt, Operation } from './dealing.ts'
import { NthError, unavailable } from './errors.ts'

/** What a caller is told when its operation is durable. */
export interface Applied extends Dealt {
  /** The instant of the flush that it was part of. */
  at: Date
}

/** One caller's operation, from its arrival to its answer. */
export interface Call {
  readonly operation: Operation
  /** Looks for its row: called once at first, and again each time that row turns out to be gone. */
  readonly seek: (call: Call) => void
  /** Whether a COMMIT that holds it may be under way: then nobody can say "not done". */
  isCommitting: boolean
  isAnswered: boolean
  /** What it would be told if its flush were committed now. */
  dealt: Dealt | NthError | undefined
  /** The latest reason why it is not done yet. */
  obstacle: unknown
  /** Where it waits; undefined while it is in a flush, or its row is looked for. */
  place: Place | undefined
  /** On the clock of `performance.now()`, in milliseconds. */
  readonly deadline: number
  readonly resolve: (applied: Applied) => void
  readonly reject: (error: unknown) => void
}

/** Something that calls wait in. */
export interface Place {
  leave(call: Call): void
}

/** Every call that waits for its answer: how many there may be, and until when. */
export interface Calls {
  /**
   * Takes a call in and has `seek` look for its row.
   *
   * @throws {NthError} UNAVAILABLE at once if too many wait; at its deadline, if it certainly was not done by
   *   then; OUTCOME_UNKNOWN at its deadline, if nobody can say
   */
  admit(operation: Operation, seek: (call: Call) => void): Promise<Applied>
  answer(call: Call, answer: Applied | Error): void
  /** The calls that can still be sent. One whose time is over is answered, also if the timer is late. */
  open(calls: readonly Call[]): readonly Call[]
}

export interface CallsOptions {
  /** How long a call may wait for its answer, in milliseconds. */
  timeoutMs: number
  /** How many calls may wait at a time. */
  maxPending: number
}

export function openCalls({ timeoutMs, maxPending }: CallsOptions): Calls {
  // In order of arrival and so, as all have the same time, of their deadlines.
  const pending = new Set<Call>()
  let timer: NodeJS.Timeout | undefined

  function answer(call: Call, answer: Applied | Error): void {
    if (call.isAnswered) return
    call.isAnswered = true
    pending.delete(call)
    call.place?.leave(call)
    if (answer instanceof Error) call.reject(answer)
    else call.resolve(answer)
  }

  function watch(): void {
    const [oldest] = pending
    if (timer || !oldest) return
    timer = setTimeout(onTime, Math.max(0, oldest.deadline - performance.now()))
    // Most often it finds everything answered: no reason for the process to wait for it.
    timer.unref()
  }

  function onTime(): void {
    // What has already arrived is read first: after a pause of the whole process it may hold the answers.
    setImmediate(() => {
      timer = undefined
      expireDue()
      watch()
    })
  }

  function expireDue(): void {
    const now = performance.now()
    for (const call of pending) {
      if (call.deadline > now) return
      answer(call, expired(call, timeoutMs))
    }
  }

  return {
    answer,

    admit(operation, seek) {
      if (pending.size >= maxPending) {
        return Promise.reject(
          unavailable(`More than ${maxPending} changes wait for the database; this one was not done.`),
        )
      }
      return new Promise((resolve, reject) => {
        const call: Call = {
          operation,
          seek,
          isCommitting: false,
          isAnswered: false,
          dealt: undefined,
          obstacle: undefined,
          place: undefined,
          deadline: performance.now() + timeoutMs,
          resolve,
          reject,
        }
        pending.add(call)
        watch()
        seek(call)
      })
    },

    open(asked) {
      const now = performance.now()
      for (const call of asked) {
        if (call.deadline <= now) answer(call, expired(call, timeoutMs))
      }
      return asked.some(({ isAnswered }) => isAnswered) ? asked.filter((call) => !call.isAnswered) : asked
    },
  }
}

function expired({ isCommitting, obstacle }: Call, timeoutMs: number): NthError {
  const seconds = timeoutMs / 1000
  if (!isCommitting) {
    return unavailable(
      `The database could not make this change within ${seconds} seconds; nothing was done.`,
      obstacle,
    )
  }
  return new NthError(
    'OUTCOME_UNKNOWN',
    `The database did not say within ${seconds} seconds whether it made this change: it may have counted.`,
    {},
    { cause: obstacle },
  )
}
