import { refusalMeasure, waitMeasure } from '../operations/measures.ts'
import type { CounterOperation } from '../rules/counter.ts'
import { assertInvariant, NthError, unavailable } from '../rules/errors.ts'
import type { Claim, OperationResult } from '../rules/idempotency.ts'
import { Queue, type QueuePlace } from '../rules/queue.ts'
import { type CounterRow, type Row, type Rows, rowKey, type SequenceGroupRow } from '../rules/rows.ts'
import type { SequenceOperation } from '../rules/sequence.ts'
import { type Owner, ownerText } from '../rules/turns.ts'
import type { Clock } from './clock.ts'

/** What a caller requests. */
export interface Request {
  readonly operations: readonly NamedOperation[]
  /** One operation; or several on counters, of which all are applied or none. */
  readonly mode: 'one' | 'all'
  /** Whose turn it has where more waits than a flush takes; undefined: that of all without one. */
  readonly owner?: Owner | undefined
  /** What happens to rows that don't exist. Default: `create`. `fail`: the call fails with `MissingRow`. */
  readonly missingRows?: 'create' | 'fail'
  readonly claim?: Claim | undefined
  /** Whether it returns the totals of the current periods. */
  readonly wantsPeriodValues?: boolean | undefined
  /** Whether it returns the revision after each operation. */
  readonly withRevision?: boolean | undefined
  /** Whether it is rolled back after its results are known. All calls of a process are, or none. */
  readonly isTrial?: boolean | undefined
  /** Its deadline on the clock of `performance.now()`, in milliseconds; undefined: the default timeout from now. */
  readonly deadline?: number | undefined
}

export type RowOperation =
  | { readonly kind: 'counter'; readonly row: CounterRow; readonly operation: CounterOperation }
  | { readonly kind: 'sequenceGroup'; readonly row: SequenceGroupRow; readonly operation: SequenceOperation }

/** The row does not exist, and must not be created. */
export class MissingRow extends Error {}

/** An operation whose row is still to be looked up, as in `Rows`. */
export interface NamedOperation {
  readonly kind: RowOperation['kind']
  readonly rows: Rows<unknown, Row>
  readonly name: unknown
  readonly operation: CounterOperation | SequenceOperation
}

export function onCounter<Name>(
  rows: Rows<Name, CounterRow>,
  name: Name,
  operation: CounterOperation,
): NamedOperation {
  return { kind: 'counter', rows, name, operation }
}

export function onSequenceGroup<Name>(
  rows: Rows<Name, SequenceGroupRow>,
  name: Name,
  operation: SequenceOperation,
): NamedOperation {
  return { kind: 'sequenceGroup', rows, name, operation }
}

/** The rows of a request, if all are cached. */
export function cachedRows({ operations }: Request): RowOperation[] | undefined {
  const cached: RowOperation[] = []
  for (const named of operations) {
    const row = named.rows.cached(named.name)
    if (!row) return undefined
    cached.push(onRow(named, row))
  }
  return cached
}

/**
 * The rows of a request: from the cache, or else from the database, where missing ones may be created.
 *
 * @throws {MissingRow} if a row doesn't exist and must not be created
 */
export function loadRows({ operations, missingRows }: Request, now: () => Date): Promise<RowOperation[]> {
  return Promise.all(
    operations.map(async (named) => {
      const { rows, name } = named
      const load = () => (missingRows === 'fail' ? rows.load(name) : rows.loadOrCreate(name, now()))
      const row = rows.cached(name) ?? (await load())
      if (!row) throw new MissingRow()
      return onRow(named, row)
    }),
  )
}

function onRow({ kind, operation }: NamedOperation, row: Row): RowOperation {
  // `onCounter` and `onSequenceGroup` took rows and an operation of one kind.
  return { kind, row, operation } as RowOperation
}

/** The result of a call, once its operations are durable. */
export interface Applied {
  /** The result of each operation, in order. */
  results: readonly OperationResult[]
  /** The instant of their flush. */
  at: Date
  /** Whether an earlier call with this key applied them. */
  isReplayed: boolean
}

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
  | { readonly name: 'resolving' | 'flushing' | 'committing' | 'answered' }
  | { readonly name: 'waiting'; readonly queue: Queue<Call>; readonly place: QueuePlace<Call> }

const RESOLVING: CallState = { name: 'resolving' }
const FLUSHING: CallState = { name: 'flushing' }
const COMMITTING: CallState = { name: 'committing' }
const ANSWERED: CallState = { name: 'answered' }

/** A request, from arrival to answer. Only its methods change its state. */
export class Call {
  readonly request: Request
  /** On the pipeline's clock, in milliseconds, as when it arrived. */
  readonly deadline: number
  /** Settles when it is answered. */
  readonly answer: Promise<Applied>
  /** Its operations and their rows; empty while they are resolved for the first time. */
  operations: readonly RowOperation[] = []
  /** The latest reason why it has not been applied yet. */
  obstacle: unknown
  /** How often its rows were resolved to keys under which the writer had found nothing. */
  fruitless = 0
  #state = RESOLVING
  #resolve: (applied: Applied) => void = () => undefined
  #reject: (error: Error) => void = () => undefined
  readonly arrivedAt: number
  readonly #onAnswered: () => void

  constructor(request: Request, arrivedAt: number, deadline: number, onAnswered: () => void) {
    this.request = request
    this.deadline = deadline
    this.arrivedAt = arrivedAt
    this.#onAnswered = onAnswered
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get isAnswered(): boolean {
    return this.#state === ANSWERED
  }

  get isCommitting(): boolean {
    return this.#state === COMMITTING
  }

  /** flushing → resolving: one of its rows is gone, or was read from another database. */
  resolveAgain(): void {
    this.#enter(RESOLVING)
  }

  /** resolving, waiting, flushing → waiting: last in a queue. Any other transition removes it from there. */
  waitIn(queue: Queue<Call>): void {
    if (!this.#enter(RESOLVING)) return
    this.#state = { name: 'waiting', queue, place: queue.add(this) }
  }

  isWaitingIn(queue: Queue<Call>): boolean {
    return this.#state.name === 'waiting' && this.#state.queue === queue
  }

  /** waiting, flushing → flushing. */
  flush(): void {
    const { name } = this.#state
    assertInvariant(name === 'waiting' || name === 'flushing', 'a call that is flushed has waited')
    this.#enter(FLUSHING)
  }

  /** flushing → committing: COMMIT is sent now. */
  commit(): void {
    assertInvariant(this.#state === FLUSHING, 'a call that is committed is in a flush, and not answered')
    this.#enter(COMMITTING)
  }

  /** committing → flushing: COMMIT had no effect. */
  rollBack(): void {
    if (this.#state === COMMITTING) this.#enter(FLUSHING)
  }

  /** Any state → answered. Later answers are ignored. */
  settle(answer: Applied | Error): void {
    if (!this.#enter(ANSWERED)) return
    this.#onAnswered()
    if (answer instanceof Error) this.#reject(answer)
    else this.#resolve(answer)
  }

  /** The key of its claim, if any, and those of its rows. */
  get keys(): string[] {
    const { claim } = this.request
    return claim ? [claim.hash, ...this.rowKeys] : this.rowKeys
  }

  /** Those of its rows, in the order of its operations. */
  get rowKeys(): string[] {
    return this.operations.map(({ row }) => rowKey(row))
  }

  touches(keys: readonly string[]): boolean {
    return this.keys.some((key) => keys.includes(key))
  }

  /** Returns false for a call that is answered, which it stays. */
  #enter(state: CallState): boolean {
    const before = this.#state
    if (before === ANSWERED) return false
    if (before.name === 'waiting') before.queue.remove(before.place)
    this.#state = state
    return true
  }
}

const CLOSING: readonly (CounterOperation | SequenceOperation)['kind'][] = ['confirm', 'release', 'extend']

/** The error of a call that may have been applied. With a key or a subject, or on an open hold or reservation, it is safe to retry. */
export function doubtful({ request }: Call, reason: string, cause: unknown): NthError {
  const { claim, operations } = request
  const countsOnce = operations.every(({ operation }) => 'subject' in operation)
  // What is confirmed or released is that once.
  const isClosing = operations.every(({ operation: { kind } }) => CLOSING.includes(kind))
  const same = claim ? ' with the same idempotency key' : countsOnce ? ' with the same subject' : ''
  const [advice, details] =
    claim || countsOnce || isClosing ? [` Send it again${same}.`, { retryable: true as const }] : ['', {}]
  return new NthError('OUTCOME_UNKNOWN', `${reason}: it may have counted.${advice}`, details, { cause })
}

/** All calls without an answer, with their limit and their deadlines. */
export type PendingCalls = ReturnType<typeof openPendingCalls>

export interface PendingCallsOptions {
  /** Default timeout of a call, in milliseconds. */
  timeoutMs: number
  /**
   * Maximum number of waiting operations. A call is admitted whole while there are fewer, or while its owner has less than
   * an equal share of them: so nobody can take the places of others.
   */
  maxPending: number
  clock: Clock
}

export function openPendingCalls({ timeoutMs, maxPending, clock }: PendingCallsOptions) {
  // In order of arrival, which for the default timeout is the order of deadlines. Others have a timer of their own.
  const pending = new Queue<Call>()
  let operations = 0
  /** The operations of each owner, counted since there have been too many. */
  let shares: Map<string, number> | undefined
  let isWatched = false

  function remove(place: QueuePlace<Call>): void {
    pending.remove(place)
    const { arrivedAt, request } = place.item
    const { owner, operations: removed } = request
    operations -= removed.length
    if (shares) addTo(shares, owner, -removed.length)
    if (waitMeasure.hasSubscribers) waitMeasure.publish(clock.elapsedMs() - arrivedAt)
  }

  /** Has one timer for the oldest call. */
  function watch(): void {
    const [oldest] = pending
    isWatched = oldest !== undefined
    if (!oldest) return
    clock.afterSockets(oldest.deadline - clock.elapsedMs(), () => {
      const now = clock.elapsedMs()
      for (const call of pending) {
        if (call.deadline > now) break
        call.settle(expired(call))
      }
      watch()
    })
  }

  function expired(call: Call): NthError {
    const { isCommitting, obstacle } = call
    const within = `within ${timeoutMs / 1000} seconds`
    if (isCommitting) return doubtful(call, `The database did not confirm this change ${within}`, obstacle)
    return unavailable(`The database could not make this change ${within}; nothing was done.`, obstacle)
  }

  return {
    /** @throws {NthError} UNAVAILABLE if as many operations wait as may, and the owner has its share of them */
    assertRoom(owner?: Owner): void {
      if (operations < maxPending) {
        shares = undefined
        return
      }
      shares ??= sharesOf(pending)
      const share = shares.get(ownerText(owner))
      if ((share ?? 0) < maxPending / (shares.size + (share ? 0 : 1))) return
      refusalMeasure.publish('pending changes')
      throw unavailable(`More than ${maxPending} changes wait for the database; this one was not done.`)
    },

    /** How many operations wait. */
    get operations() {
      return operations
    },

    /** Creates a call. At its deadline it is answered with UNAVAILABLE, or OUTCOME_UNKNOWN while it is committing. */
    admit(request: Request): Call {
      const now = clock.elapsedMs()
      const call = new Call(request, now, request.deadline ?? now + timeoutMs, () => remove(place))
      const place = pending.add(call)
      operations += request.operations.length
      if (shares) addTo(shares, request.owner, request.operations.length)
      if (!isWatched) watch()
      if (request.deadline !== undefined) {
        const cancel = clock.afterSockets(request.deadline - now, () => call.settle(expired(call)))
        call.answer.then(cancel, cancel)
      }
      return call
    },

    /** Those of some calls that are not answered. Answers those whose deadline has passed: the timer may be late. */
    unanswered(calls: readonly Call[]): readonly Call[] {
      const now = clock.elapsedMs()
      let answered = 0
      for (const call of calls) {
        if (call.deadline <= now) call.settle(expired(call))
        if (call.isAnswered) answered += 1
      }
      return answered === 0 ? calls : calls.filter(({ isAnswered }) => !isAnswered)
    },
  }
}

function sharesOf(calls: Iterable<Call>): Map<string, number> {
  const shares = new Map<string, number>()
  for (const { request } of calls) addTo(shares, request.owner, request.operations.length)
  return shares
}

function addTo(shares: Map<string, number>, owner: Owner | undefined, change: number): void {
  const text = ownerText(owner)
  const share = (shares.get(text) ?? 0) + change
  if (share > 0) shares.set(text, share)
  else shares.delete(text)
}
