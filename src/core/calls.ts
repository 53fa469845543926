import type { Answer, Operation } from './dealing.ts'
import { NthError, unavailable } from './errors.ts'
import type { Claim } from './idempotency.ts'
import type { Row } from './lane.ts'

/** What a caller is told when its operations are durable. */
export interface Applied {
  /** What each operation did, in their order: of a kind with it. */
  answers: readonly Answer[]
  /** The instant of the flush that they were part of. */
  at: Date
  /** Whether an earlier call did them. */
  isReplayed: boolean
}

/** What one caller asks. */
export interface Request {
  readonly operations: readonly Operation[]
  /** There is one operation; or all are done, or none of them, and a refusal says which one it was. */
  readonly mode: 'one' | 'all'
  readonly claim: Claim | undefined
  /** Whether it returns the totals of the current periods. */
  readonly wantsPeriodValues: boolean
  /** Whether it asks for the revision that each operation leaves. */
  readonly withRevision?: boolean | undefined
  /** Until when it can wait, if it has waited before: on the clock of `performance.now()`, in milliseconds. */
  readonly deadline?: number | undefined
}

/** A request, from its arrival to its answer. */
export interface Call<R extends Row> extends Request {
  /** Looks for its rows: called once at first, and again each time that one turns out to be gone. */
  readonly seek: (call: Call<R>) => void
  /** The row of each operation, once they are found. */
  rows: readonly R[]
  /** Whether a COMMIT that holds it may be under way: then nobody can say "not done". */
  isCommitting: boolean
  isAnswered: boolean
  /** What it would be told if its flush were committed now. */
  dealt: Applied | NthError | undefined
  /** The latest reason why it is not done yet. */
  obstacle: unknown
  /** Where it waits; undefined while it is in a flush, or its rows are looked for. */
  place: Place<R> | undefined
  /** On the clock of `performance.now()`, in milliseconds. */
  readonly deadline: number
  readonly resolve: (applied: Applied) => void
  readonly reject: (error: unknown) => void
}

/** Something that calls wait in. */
export interface Place<R extends Row> {
  leave(call: Call<R>): void
}

/** Every call that waits for its answer: how many there may be, and until when. */
export interface Calls<R extends Row> {
  /** @throws {NthError} UNAVAILABLE if too many wait */
  checkRoom(): void
  /**
   * Takes a request in and has `seek` look for its rows.
   *
   * @throws {NthError} UNAVAILABLE at its deadline, if it certainly was not done by then; OUTCOME_UNKNOWN at its
   *   deadline, if nobody can say
   */
  admit(request: Request, seek: (call: Call<R>) => void): Promise<Applied>
  answer(call: Call<R>, answer: Applied | Error): void
  /** The calls that can still be sent. One whose time is over is answered, also if the timer is late. */
  open(calls: readonly Call<R>[]): readonly Call<R>[]
}

export interface CallsOptions {
  /** How long a call may wait for its answer, in milliseconds. */
  timeoutMs: number
  /** How many operations may wait at a time. Who finds room is taken with all that is asked. */
  maxPending: number
}

export function openCalls<R extends Row>({ timeoutMs, maxPending }: CallsOptions): Calls<R> {
  // In order of arrival and so, as most have the same time, of their deadlines. Those that have less have a timer each.
  const pending = new Set<Call<R>>()
  let operations = 0
  let timer: NodeJS.Timeout | undefined

  function answer(call: Call<R>, answer: Applied | Error): void {
    if (call.isAnswered) return
    call.isAnswered = true
    pending.delete(call)
    operations -= call.operations.length
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

  function watchAlone(call: Call<R>): void {
    const leftMs = Math.max(0, call.deadline - performance.now())
    setTimeout(() => setImmediate(() => answer(call, expired(call, timeoutMs))), leftMs).unref()
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

    checkRoom() {
      if (operations < maxPending) return
      throw unavailable(`More than ${maxPending} changes wait for the database; this one was not done.`)
    },

    admit({ operations: asked, mode, claim, wantsPeriodValues, withRevision, deadline }, seek) {
      return new Promise((resolve, reject) => {
        const call: Call<R> = {
          operations: asked,
          mode,
          claim,
          wantsPeriodValues,
          withRevision,
          seek,
          rows: [],
          isCommitting: false,
          isAnswered: false,
          dealt: undefined,
          obstacle: undefined,
          place: undefined,
          deadline: deadline ?? performance.now() + timeoutMs,
          resolve,
          reject,
        }
        pending.add(call)
        operations += asked.length
        watch()
        if (deadline !== undefined) watchAlone(call)
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

function expired<R extends Row>(call: Call<R>, timeoutMs: number): NthError {
  const seconds = timeoutMs / 1000
  if (!call.isCommitting) {
    return unavailable(
      `The database could not make this change within ${seconds} seconds; nothing was done.`,
      call.obstacle,
    )
  }
  const reason = `The database did not say within ${seconds} seconds whether it made this change`
  return doubtful(call, reason, call.obstacle)
}

/** The error for a call that may have been done. With an idempotency key it can be sent again without harm. */
export function doubtful<R extends Row>({ claim }: Call<R>, reason: string, cause: unknown): NthError {
  const [advice, details] = claim
    ? [' Send it again with the same idempotency key.', { retryable: true as const }]
    : ['', {}]
  return new NthError('OUTCOME_UNKNOWN', `${reason}: it may have counted.${advice}`, details, { cause })
}
