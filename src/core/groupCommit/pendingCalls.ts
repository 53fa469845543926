import { NthError, unavailable } from '../errors.ts'
import type { Claim } from '../idempotency.ts'
import type { Operation, OperationResult } from '../operations.ts'
import type { Row } from '../rows.ts'

/** The result of a call, once its operations are durable. */
export interface Applied {
  /** The result of each operation, in order. */
  results: readonly OperationResult[]
  /** The instant of their flush. */
  at: Date
  /** Whether an earlier call with this key applied them. */
  isReplayed: boolean
}

/** What a caller asks for. */
export interface Request {
  readonly operations: readonly Operation[]
  /** One operation; or several, of which all are applied or none. */
  readonly mode: 'one' | 'all'
  readonly claim: Claim | undefined
  /** Whether it returns the totals of the current periods. */
  readonly wantsPeriodValues: boolean
  /** Whether it returns the revision after each operation. */
  readonly withRevision?: boolean | undefined
  /** Its deadline on the clock of `performance.now()`, in milliseconds; undefined: the default timeout from now. */
  readonly deadline?: number | undefined
}

/** A request, from arrival to answer. */
export interface Call<R extends Row> extends Request {
  /** Looks up its rows: at first, and whenever one of them is gone. */
  readonly resolveRows: (call: Call<R>) => void
  /** The row of each operation, once resolved. */
  rows: readonly R[]
  /** Whether a COMMIT that contains it may be in flight: then it can't be reported as not applied. */
  isCommitting: boolean
  isAnswered: boolean
  /** Its result, if its flush commits. */
  result: Applied | NthError | undefined
  /** The latest reason why it has not been applied yet. */
  obstacle: unknown
  /** Where it waits; undefined while it is in a flush or resolves its rows. */
  queue: CallQueue<R> | undefined
  /** On the clock of `performance.now()`, in milliseconds. */
  readonly deadline: number
  readonly resolve: (applied: Applied) => void
  readonly reject: (error: unknown) => void
}

/** A queue of calls. */
export interface CallQueue<R extends Row> {
  leave(call: Call<R>): void
}

/** All calls without an answer, with their limit and their deadlines. */
export interface Calls<R extends Row> {
  /** @throws {NthError} UNAVAILABLE if too many wait */
  checkRoom(): void
  /**
   * Creates a call for a request and calls `resolveRows`.
   *
   * @throws {NthError} UNAVAILABLE at its deadline, if it was not applied; OUTCOME_UNKNOWN at its deadline, if that
   *   is not known
   */
  admit(request: Request, resolveRows: (call: Call<R>) => void): Promise<Applied>
  answer(call: Call<R>, answer: Applied | Error): void
  /** The calls without an answer. Calls past their deadline are answered first, even if the timer is late. */
  open(calls: readonly Call<R>[]): readonly Call<R>[]
}

export interface CallsOptions {
  /** Default timeout of a call, in milliseconds. */
  timeoutMs: number
  /** Maximum number of waiting operations. A call is admitted whole while there are fewer. */
  maxPending: number
}

export function openCalls<R extends Row>({ timeoutMs, maxPending }: CallsOptions): Calls<R> {
  // In order of arrival, which for the default timeout is the order of deadlines. Others have a timer of their own.
  const pending = new Set<Call<R>>()
  let operations = 0
  let timer: NodeJS.Timeout | undefined

  function answer(call: Call<R>, answer: Applied | Error): void {
    if (call.isAnswered) return
    call.isAnswered = true
    pending.delete(call)
    operations -= call.operations.length
    call.queue?.leave(call)
    if (answer instanceof Error) call.reject(answer)
    else call.resolve(answer)
  }

  function watch(): void {
    const [oldest] = pending
    if (timer || !oldest) return
    timer = setTimeout(onTime, Math.max(0, oldest.deadline - performance.now()))
    // Usually everything is answered by then, so the process need not wait for it.
    timer.unref()
  }

  function watchAlone(call: Call<R>): void {
    const leftMs = Math.max(0, call.deadline - performance.now())
    setTimeout(() => setImmediate(() => answer(call, expired(call, timeoutMs))), leftMs).unref()
  }

  function onTime(): void {
    // Sockets are read first: after a pause of the whole process they may hold the answers.
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

    admit({ operations: asked, mode, claim, wantsPeriodValues, withRevision, deadline }, resolveRows) {
      return new Promise((resolve, reject) => {
        const call: Call<R> = {
          operations: asked,
          mode,
          claim,
          wantsPeriodValues,
          withRevision,
          resolveRows,
          rows: [],
          isCommitting: false,
          isAnswered: false,
          result: undefined,
          obstacle: undefined,
          queue: undefined,
          deadline: deadline ?? performance.now() + timeoutMs,
          resolve,
          reject,
        }
        pending.add(call)
        operations += asked.length
        watch()
        if (deadline !== undefined) watchAlone(call)
        resolveRows(call)
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
  const reason = `The database did not confirm this change within ${seconds} seconds`
  return doubtful(call, reason, call.obstacle)
}

/** The error of a call that may have been applied. With an idempotency key it is safe to retry. */
export function doubtful<R extends Row>({ claim }: Call<R>, reason: string, cause: unknown): NthError {
  const [advice, details] = claim
    ? [' Send it again with the same idempotency key.', { retryable: true as const }]
    : ['', {}]
  return new NthError('OUTCOME_UNKNOWN', `${reason}: it may have counted.${advice}`, details, { cause })
}
