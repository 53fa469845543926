import { NthError, unavailable } from '../errors.ts'
import { waitMeasure } from '../measures.ts'
import { isOf } from '../rows.ts'
import type { Applied, Request, RowOperation } from './request.ts'

/**
 * Where a call is.
 *
 *   resolving   its rows are looked up, or created
 *   waiting     its rows are resolved; a writer will take it from its queue
 *   flushing    it is part of a flush whose COMMIT was not sent
 *   committing  COMMIT may have been sent: it can't be reported as not applied
 *   answered    its caller has the result or an error
 */
type CallState =
  | { readonly name: 'resolving' }
  | { readonly name: 'waiting'; readonly queue: Set<Call> }
  | { readonly name: 'flushing' | 'committing'; readonly flight: Flight }
  | { readonly name: 'answered' }

const RESOLVING: CallState = { name: 'resolving' }
const ANSWERED: CallState = { name: 'answered' }

/** A request, from arrival to answer. Only its methods change its state. */
export class Call {
  readonly request: Request
  /** On the clock of `performance.now()`, in milliseconds. */
  readonly deadline: number
  readonly #arrivedAt = performance.now()
  /** Settles when it is answered. */
  readonly answer: Promise<Applied>
  /** Its operations and their rows; empty while they are resolved for the first time. */
  operations: readonly RowOperation[] = []
  /** The latest reason why it has not been applied yet. */
  obstacle: unknown
  /** How often its rows were resolved to keys under which the writer had found nothing. */
  fruitless = 0
  #state: CallState = RESOLVING
  #resolve: (applied: Applied) => void = () => undefined
  #reject: (error: Error) => void = () => undefined
  readonly #onAnswered: (call: Call) => void

  constructor(request: Request, deadline: number, onAnswered: (call: Call) => void) {
    this.request = request
    this.deadline = deadline
    this.#onAnswered = onAnswered
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get isAnswered(): boolean {
    return this.#state.name === 'answered'
  }

  get isCommitting(): boolean {
    return this.#state.name === 'committing'
  }

  /** flushing → resolving: one of its rows is gone, or was read from another database. */
  resolveAgain(): void {
    this.#enter(RESOLVING)
  }

  /** resolving, flushing → waiting: last in a queue, from which `flushIn` and `settle` remove it. */
  waitIn(queue: Set<Call>): void {
    this.#enter({ name: 'waiting', queue })
    if (!this.isAnswered) queue.add(this)
  }

  /** waiting → flushing; committing → flushing: COMMIT had no effect. */
  flushIn(flight: Flight): void {
    this.#enter({ name: 'flushing', flight })
  }

  /** flushing → committing: COMMIT is sent now. */
  commit(): void {
    const state = this.#state
    if (state.name === 'flushing') this.#enter({ name: 'committing', flight: state.flight })
  }

  /** Any state → answered. Later answers are ignored. */
  settle(answer: Applied | Error): void {
    const state = this.#state
    if (state.name === 'answered') return
    this.#enter(ANSWERED)
    if (state.name === 'flushing' || state.name === 'committing') state.flight.land()
    this.#onAnswered(this)
    if (waitMeasure.hasSubscribers) waitMeasure.publish(performance.now() - this.#arrivedAt)
    if (answer instanceof Error) this.#reject(answer)
    else this.#resolve(answer)
  }

  /** Whether it touches the row, sequence or claim of a key. */
  touches(key: string): boolean {
    return this.operations.some(({ row }) => isOf(row, key)) || this.request.claim?.key === key
  }

  #enter(state: CallState): void {
    const before = this.#state
    if (before.name === 'answered') return
    if (before.name === 'waiting') before.queue.delete(this)
    this.#state = state
  }
}

/** Why a flight is no longer awaited. Without a reason, `abort` makes an exception with a stack, for every flush. */
const ALL_ANSWERED = 'all answered'

type Flight = ReturnType<typeof openFlight>

/** Counts the calls of a flush that are not answered. */
export function openFlight(count: number) {
  const controller = new AbortController()
  let open = count
  return {
    /** Aborted when all of them are answered. */
    awaited: controller.signal,
    /** Called for each that is answered. */
    land() {
      open -= 1
      if (open === 0) controller.abort(ALL_ANSWERED)
    },
  }
}

/** The error of a call at its deadline. */
export function expired(call: Call, timeoutMs: number): NthError {
  const { isCommitting, obstacle } = call
  const within = `within ${timeoutMs / 1000} seconds`
  if (isCommitting) return doubtful(call, `The database did not confirm this change ${within}`, obstacle)
  return unavailable(`The database could not make this change ${within}; nothing was done.`, obstacle)
}

/** The error of a call that may have been applied. With an idempotency key it is safe to retry. */
export function doubtful({ request }: Call, reason: string, cause: unknown): NthError {
  const [advice, details] = request.claim
    ? [' Send it again with the same idempotency key.', { retryable: true as const }]
    : ['', {}]
  return new NthError('OUTCOME_UNKNOWN', `${reason}: it may have counted.${advice}`, details, { cause })
}
