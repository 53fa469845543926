import type { JudgedHeld, RowState } from '../rules/addition.ts'
import type { CounterOperation, FirstCount, HoldPart } from '../rules/counter.ts'
import { type NthError, unavailable } from '../rules/errors.ts'
import type { Claim, EarlierResults, StoredResults } from '../rules/idempotency.ts'
import {
  type PeriodReading,
  type RunningPeriod,
  type RunningPeriods,
  UNKNOWN_PERIODS,
} from '../rules/periods.ts'
import { Queue } from '../rules/queue.ts'
import { type CounterRow, isSameRow, type Row, type SequenceGroupRow } from '../rules/rows.ts'
import {
  type NumberState,
  periodKeyAt,
  type SequenceGroupReading,
  type SequenceOperation,
} from '../rules/sequence.ts'
import { subjectHash } from '../rules/subjects.ts'
import { NOBODY, Rounds } from '../rules/turns.ts'
import type { Call } from './call.ts'

/** What one attempt of a flush does: its calls in the order in which they are applied, and their operations by row. */
export interface Batch {
  readonly calls: readonly Call[]
  /** In the order in which all processes lock their rows. */
  readonly counters: readonly CounterWork[]
  /** `inLockOrder`. */
  readonly sequenceGroups: readonly SequenceGroupWork[]
  /** One for each idempotency key, in the order in which all processes claim them. */
  readonly claims: readonly Claim[]
  readonly at: Date
  readonly approach: Approach
}

/** The operations of a batch on one row, in the order of its calls. */
interface RowWork<Row, Operation> {
  readonly row: Row
  readonly operations: Operation[]
  /** Whether a caller has an idempotency key. */
  hasClaim: boolean
  /** Whether a caller wants the revision after its operation. */
  wantsRevision: boolean
  /** Whether a caller wants the totals of the running periods. */
  wantsPeriodValues: boolean
  /** Whether flushes found no row of a call, although its key is right. */
  isMissed: boolean
}

type CounterRowWork = RowWork<CounterRow, CounterOperation>
type SequenceGroupRowWork = RowWork<SequenceGroupRow, SequenceOperation>

export interface CounterWork extends Readonly<CounterRowWork> {
  readonly path: CounterPath
  /** The tracked periods that contain the instant of the flush: the same array for all counters with the same. */
  readonly running: readonly RunningPeriod[]
  /** The subjects of its operations with their hashes; undefined: they have none. */
  readonly subjects: ReadonlyMap<string, string> | undefined
  /** The holds of its operations; undefined: they have none. */
  readonly tokens: ReadonlySet<string> | undefined
}

export interface SequenceGroupWork
  extends Pick<Readonly<SequenceGroupRowWork>, 'row' | 'operations' | 'wantsRevision'> {
  /** Key of its current period, or of that in which it is raised. */
  readonly periodKey: number
  /** As those of a counter. */
  readonly subjects: ReadonlyMap<string, string> | undefined
}

/**
 * Coalesced: all operations are additions. One statement adds their sum, and raises the revision; it changes nothing
 * unless the row has the running periods.
 */
type CoalescedCounter = { readonly kind: 'coalesced'; readonly sum: number; readonly raise: number }

type CounterPath =
  | CoalescedCounter
  /**
   * Locked: the row is read under lock, the operations are applied to it one by one, and it is written. `slot`: the one
   * that is changed, or all of them.
   */
  | { readonly kind: 'locked'; readonly slot: number | 'all' }

/** Work on a counter that takes the coalesced path. */
export type CoalescedWork = CounterWork & { readonly path: CoalescedCounter }
export type CoalescedWorks = readonly [CoalescedWork, ...CoalescedWork[]]

export function isCoalesced(work: CounterWork): work is CoalescedWork {
  return work.path.kind === 'coalesced'
}

/** The slot of a counter that its operations change; undefined: all of them, under lock. */
export function slotOf({ path }: CounterWork): number | undefined {
  return path.kind === 'locked' && path.slot !== 'all' ? path.slot : undefined
}

/**
 * How an attempt of a flush takes its locks.
 *
 *   quick    an addition may commit by itself, before it is known to be possible, and before its lock is free; and rows that
 *            need more than an addition may be locked after the others
 *   ordered  all locks are taken in order, and waited for
 *   trying   a row is locked by another session, or may be: all locks are tried first, and none is waited for
 *
 * `lockedPath`: the ids of counters whose operations may be refused, as an attempt before has shown.
 */
export type Approach =
  | { readonly kind: 'quick' }
  | { readonly kind: 'ordered'; readonly lockedPath: ReadonlySet<number> }
  | {
      readonly kind: 'trying'
      readonly lockedPath: ReadonlySet<number>
      /** The quarantined key of the calls, if any. If it is a counter's, that lock is tried before all others. */
      readonly quarantined: string | undefined
    }

/** Maximum sum of the absolute values of additions that are made without reading the totals that they change. */
export const SMALL_SUM = 2 ** 42

/** Maximum rows and keys of a transaction, unless a single call touches more. */
const MAX_TOUCHED = 1000

/** The first calls, as many as fit into one flush, and at most so many. */
export function firstOf(waiting: Iterable<Call>, maxCalls = Number.POSITIVE_INFINITY): Call[] {
  const calls: Call[] = []
  const touched = new Set<number | string>()
  const taken = new Set<number>()
  for (const call of waiting) {
    const { operations, request } = call
    if (taken.size > 0 && operations.some(({ row }) => taken.has(row.id))) break
    const takesRows = operations.some(({ operation }) => isAlone(operation))
    if (takesRows && operations.some(({ row }) => touched.has(row.id))) break
    for (const { row } of operations) touched.add(row.id)
    if (request.claim) touched.add(request.claim.hash)
    if (calls.length === maxCalls || (calls.length > 0 && touched.size > MAX_TOUCHED)) break
    calls.push(call)
    if (takesRows) for (const { row } of operations) taken.add(row.id)
  }
  return calls
}

/** Calls that wait for a flush. While more wait than it takes, their owners have turns. */
export class WaitingCalls {
  /** In order of arrival. */
  readonly calls = new Queue<Call>()
  /** All that wait, while those are too many. Calls that no longer wait may still be there, or be there twice. */
  #rounds: Rounds<Call> | undefined
  /** The one that did not fit into the flush before. */
  #next: Call | undefined

  add(call: Call): void {
    call.waitIn(this.calls)
    this.#rounds?.add(call.request.owner ?? NOBODY, call)
  }

  /** The calls of the next flush. They wait until it begins. */
  next(): Call[] {
    const calls = firstOf(this.calls)
    if (calls.length === this.calls.size) {
      this.#rounds = undefined
      this.#next = undefined
      return calls
    }
    if (!this.#rounds) {
      this.#rounds = new Rounds()
      for (const call of this.calls) this.#rounds.add(call.request.owner ?? NOBODY, call)
    }
    return firstOf(this.#inTurns(this.#rounds))
  }

  *#inTurns(rounds: Rounds<Call>): Generator<Call> {
    const taken = new Set<Call>()
    for (let call = this.#next ?? rounds.take(); call; call = rounds.take()) {
      if (!call.isWaitingIn(this.calls) || taken.has(call)) continue
      taken.add(call)
      this.#next = call
      yield call
    }
    this.#next = undefined
  }
}

/**
 * Whether it is the only one on its row: calls after a change of a counter's version, or its deletion, change another row; and
 * a sequence group is raised in any of its periods.
 */
function isAlone(operation: CounterOperation | SequenceOperation): boolean {
  const { kind } = operation
  if (kind === 'set') return operation.newSalt !== undefined
  return kind === 'define' || kind === 'delete' || kind === 'raise'
}

export interface BatchContext {
  runningPeriods: RunningPeriods
  /** A random number from 0 to below 1. */
  random: () => number
}

interface BatchOptions extends Pick<Batch, 'at' | 'approach'> {
  readonly context: BatchContext
}

/**
 * Groups the operations of calls by row, and chooses the path of each row. Undefined: two of them have different rows of
 * one id, as it was read again in between.
 */
export function batchOf(calls: readonly Call[], options: BatchOptions): Batch | undefined {
  // By their ids, which are numbers: keys are texts elsewhere in memory.
  const counters = new Map<number, CounterRowWork>()
  const sequenceGroups = new Map<number, SequenceGroupRowWork>()
  const claims = new Map<string, Claim>()
  const carts: Call[] = []
  for (const call of calls) {
    const { request, operations } = call
    if (request.claim) claims.set(request.claim.hash, request.claim)
    if (request.mode === 'all') carts.push(call)
    for (const each of operations) {
      const { row } =
        each.kind === 'counter'
          ? include(counters, each.row, each.operation, call)
          : include(sequenceGroups, each.row, each.operation, call)
      if (row !== each.row && !isSameRow(row, each.row)) return undefined
    }
  }
  const onCounters = [...counters.values()]
    .map((work) => workOnCounter(work, options))
    .sort((a, b) => a.row.id - b.row.id)
  return {
    calls,
    counters:
      carts.length === 0 || onCounters.every(isCoalesced) ? onCounters : withSharedLocks(carts, onCounters),
    sequenceGroups: [...sequenceGroups.values()]
      .map((work) => workOnSequenceGroup(work, options.at))
      .sort(inLockOrder),
    claims: [...claims.values()].sort((a, b) => (a.hash < b.hash ? -1 : 1)),
    at: options.at,
    approach: options.approach,
  }
}

function include<Row extends { id: number }, Operation>(
  rows: Map<number, RowWork<Row, Operation>>,
  row: Row,
  operation: Operation,
  { fruitless, request: { claim, withRevision, wantsPeriodValues } }: Call,
): RowWork<Row, Operation> {
  let work = rows.get(row.id)
  if (!work) {
    work = {
      row,
      operations: [],
      hasClaim: false,
      wantsRevision: false,
      wantsPeriodValues: false,
      isMissed: false,
    }
    rows.set(row.id, work)
  }
  work.operations.push(operation)
  if (claim) work.hasClaim = true
  if (withRevision) work.wantsRevision = true
  if (wantsPeriodValues) work.wantsPeriodValues = true
  if (fruitless > 1) work.isMissed = true
  return work
}

function workOnCounter(work: CounterRowWork, { approach, at, context }: BatchOptions): CounterWork {
  const { row, operations, hasClaim, wantsRevision, wantsPeriodValues, isMissed } = work
  const { slots, minValue, maxValue, maxIn } = row.definition
  let sum = 0
  let raise = 0
  let volume = 0
  let subjects: Map<string, string> | undefined
  let tokens: Set<string> | undefined
  for (const operation of operations) {
    let delta = Number.POSITIVE_INFINITY
    if (operation.kind === 'add') delta = operation.delta
    else if (operation.kind === 'countOnce' || operation.kind === 'uncount') {
      delta = 1
      subjects = withSubject(subjects, row, operation.subject)
    } else if ('token' in operation) {
      tokens ??= new Set()
      tokens.add(operation.token)
    }
    sum += delta
    volume += Math.abs(delta)
    if (delta !== 0) raise += 1
  }
  // The locked path also reads the totals, which a large addition may overflow.
  const isSmall = volume <= SMALL_SUM
  const running = context.runningPeriods(row.definition, at.getTime())
  const isFaulty = isMissed || running === UNKNOWN_PERIODS
  const wasRefused = approach.kind !== 'quick' && approach.lockedPath.has(row.id)
  const mayRefuse = isFaulty || minValue !== null || maxValue !== null || maxIn.length > 0 || wasRefused
  let path: CounterPath = LOCKED
  // One slot alone doesn't show whether the sum has room for more. The lock on the first one also protects the subjects.
  if (slots > 1 && isSmall && !mayRefuse) {
    const slot = subjects ? 0 : Math.floor(context.random() * slots)
    path = { kind: 'locked', slot }
  } else if (slots > 1) path = { kind: 'locked', slot: 'all' }
  else if (isSmall && !mayRefuse && !hasClaim && !subjects) path = { kind: 'coalesced', sum, raise }
  // No spread: it is slow in code that every call runs.
  return {
    row,
    operations,
    hasClaim,
    wantsRevision,
    wantsPeriodValues,
    isMissed,
    path,
    running,
    subjects,
    tokens,
  }
}

/** The subjects of a row's operations, with another. `ensureSalt` has seen to it that there is a salt. */
function withSubject(subjects = new Map<string, string>(), { salt }: Row, subject: string) {
  if (salt === undefined) throw unavailable('An older server has just created this counter or sequence.')
  return subjects.set(subject, subjectHash(salt, subject))
}

/** The locked path of a counter without slots. */
const LOCKED: CounterPath = { kind: 'locked', slot: 0 }

function workOnSequenceGroup(
  { row, operations, wantsRevision }: SequenceGroupRowWork,
  at: Date,
): SequenceGroupWork {
  let subjects: Map<string, string> | undefined
  let periodKey = periodKeyAt(row.definition, at)
  for (const operation of operations) {
    if (operation.kind === 'nextOnce') subjects = withSubject(subjects, row, operation.subject)
    else if (operation.kind === 'raise') periodKey = operation.period
  }
  return { row, operations, wantsRevision, periodKey, subjects }
}

/** If one row of an all-or-nothing call may refuse, its other rows take the locked path as well. */
function withSharedLocks(carts: readonly Call[], counters: readonly CounterWork[]): CounterWork[] {
  const works = new Map(counters.map((work) => [work.row.id, work]))
  for (const { operations } of carts) {
    const touched = operations.flatMap(({ row }) => works.get(row.id) ?? [])
    if (touched.every(isCoalesced)) continue
    for (const work of touched) if (isCoalesced(work)) works.set(work.row.id, { ...work, path: LOCKED })
  }
  return [...works.values()]
}

/** Whether work raises a counter: then that is all it does. */
export function isRaise({ operations }: CounterWork): boolean {
  return operations[0]?.kind === 'raise'
}

/** Whether the work on a counter may change its version, or delete it. */
export function mayRedefine({ operations }: CounterWork): boolean {
  return operations.some((each) => isAlone(each) && (each.kind !== 'raise' || each.change !== undefined))
}

/** Lock order of the rows of sequence groups: by period, then by id. */
function inLockOrder(a: SequenceGroupWork, b: SequenceGroupWork): number {
  return a.periodKey - b.periodKey || a.row.id - b.row.id
}

/** A connection that flushes, one flush at a time. The methods of its transactions never reject. */
export interface Writer {
  /** Prepares the transaction of a batch, without a round trip. Rejects only for an exception of our own. */
  begin(batch: Batch): Promise<Transaction | NotApplied>
  close(): Promise<void>
}

/**
 * A transaction: `read`, `write`, `commit`; only `commit` where `fitsOneTrip`. Or `rollBack` instead of `commit`. What is
 * not applied is rolled back.
 */
export interface Transaction {
  readonly kind: 'transaction'
  /**
   * Whether one round trip makes the only addition and commits, as nothing has to be decided before. It changes nothing
   * unless the addition is possible.
   */
  readonly fitsOneTrip: boolean
  /** Whether COMMIT was sent, or its text found too large. Then the outcome is that of `commit`. */
  readonly isCommitSent: boolean
  /** The first round trip: begins, makes the coalesced additions, locks and reads. */
  read(): Promise<Reading | NotApplied>
  /** Prepares what `commit` sends. May throw. */
  write(writes: Writes): void
  /** The second round trip: sends writes and COMMIT, before it returns. */
  commit(): Promise<Outcome>
  rollBack(): Promise<void>
}

/** What a flush reads in the database. Rows that don't exist are missing. */
export interface Reading {
  readonly kind: 'read'
  readonly counters: ReadonlyMap<CounterWork, CounterReading>
  readonly sequenceGroups: ReadonlyMap<SequenceGroupWork, SequenceGroupReading>
  /** Results under used keys. */
  readonly earlier: readonly EarlierResults[]
}

/** A counter before its operations. */
export interface CounterReading {
  /** Whether the sum of its operations was added. If it was not, they are applied one by one. */
  readonly isAdded: boolean
  readonly value: number
  /** Where wanted; of some also where not. */
  readonly revision: number | undefined
  /** Its running periods; undefined: not read. */
  readonly periods: readonly PeriodReading[] | undefined
  /** Those that have counted, of the subjects of its operations; undefined: they have none. */
  readonly subjects?: ReadonlyMap<string, FirstCount> | undefined
  /** The database's clock, in milliseconds since 1970, if a period is not the running one. */
  readonly now: number
  /** What is held, of a counter that was ever held. */
  readonly held?: HeldReading | undefined
  /** The parts of the holds that its operations are about, by token; undefined: they are about none. */
  readonly parts?: ReadonlyMap<string, HoldPart> | undefined
  /** Whether its value was deleted by hand, of one of its slots at least. */
  readonly isLost?: true
  /** Whether it was never written or defined, where an operation needs it. */
  readonly isNew?: boolean
}

/** What is held of a counter. Times are in milliseconds since 1970, by the database's clock. */
export interface HeldReading extends JudgedHeld {
  /** The instant by which its holds were last judged. */
  readonly storedAt: number
  /** An instant before which none expires; null: none is open. */
  readonly firstExpiry: number | null
  /** Whether it differs from the row, without what has expired. */
  readonly isSettled: boolean
}

/** What a flush writes after its operations are applied. */
export interface Writes {
  readonly counters: readonly CounterWrite[]
  /** In lock order. */
  readonly sequenceGroups: readonly SequenceGroupWrite[]
  /** Results to store under new idempotency keys. */
  readonly toStore: readonly StoredResults[]
  /** Claims without a result, to be removed. */
  readonly toRelease: readonly Claim[]
}

/** A counter before and after its operations. */
export interface CounterWrite {
  readonly work: CounterWork
  readonly before: CounterReading
  readonly after: RowState
}

export interface SequenceGroupWrite {
  readonly work: SequenceGroupWork
  readonly before: SequenceGroupReading
  readonly after: NumberState
}

export type Outcome =
  /** In one trip: with what was read. */
  | { kind: 'committed'; reading?: Reading }
  | NotApplied
  /** Not known whether it was applied. */
  | { kind: 'unknown'; cause: unknown }

/** Why a transaction was not applied. */
export type NotApplied =
  /** Rolled back in favour of another transaction. */
  | { kind: 'conflict'; cause: unknown }
  /** Another session holds a lock. */
  | { kind: 'locked'; cause: unknown }
  /** The locks of these keys could not be taken at once; other rows are gone. */
  | { kind: 'notLocked'; locked: readonly string[]; gone: readonly string[]; cause?: unknown }
  /** The database refuses it for good. */
  | { kind: 'fault'; cause: unknown }
  /** The database has lost commits. Nothing is flushed until an operator accepts that. */
  | { kind: 'lossy'; cause: NthError }
  /** Its rows were read from an earlier incarnation of the database. */
  | { kind: 'stale' }
  /** In one trip: the addition was not possible. */
  | { kind: 'unfit' }
  /** An exception of our own, a text that is too large, or the error of a caller. */
  | { kind: 'broken'; cause: unknown }
  /** The connection was lost or can't be opened, or the server doesn't accept changes now. */
  | { kind: 'lost'; cause: unknown }
