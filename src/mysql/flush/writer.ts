import { isTooLarge } from '../../core/errors.ts'
import { type Batch, mayRedefine } from '../../core/groupCommit/batch.ts'
import type {
  NotApplied,
  Outcome,
  Reading,
  Transaction,
  Writer,
  Writes,
} from '../../core/groupCommit/writer.ts'
import { ER, failureOf, hasErrorNumber, isOwnFault, isUnwritable } from '../connections/errors.ts'
import { afterSwitchover } from '../connections/health.ts'
import type { Hosts } from '../connections/hosts/hosts.ts'
import type { ReconnectingSessionOptions } from '../connections/reconnecting.ts'
import { type Answer, FailedStatement, firstRow } from '../connections/session.ts'
import { lockDefinitions } from '../counters/define.ts'
import {
  changeCounters,
  clockIn,
  READ_CLOCK,
  readAgain,
  writeCounters,
  writeHistory,
} from '../counters/flush.ts'
import type { CounterRecord, CounterRecordWork } from '../counters/record.ts'
import { lockSlots } from '../counters/slots.ts'
import { lockSequenceGroups, mayAdvance, noteIssued, writeSequenceGroups } from '../sequences/flush.ts'
import { inLockOrder, type SequenceGroupRecordWork } from '../sequences/record.ts'
import {
  begin,
  end,
  type Fenced,
  hasBegun,
  hasLeftGroup,
  openFencedConnection,
  ROLLED_BACK,
  rollBack,
} from './fence.ts'
import { claimKeys, releaseKey, storeResults } from './idempotencyKeys.ts'
import { addInOneTrip, type OneTrip, oneTripOf, readKept } from './oneTrip.ts'
import { type Clock, type Form, joined, NO_CLOCK, type Statement, send, withMarks } from './statements.ts'
import { splitMissing, tryLocks } from './tryLocks.ts'

interface WriterOptions extends ReconnectingSessionOptions {
  /** Called with the rows that a flush changed, or may have changed. */
  onChanged: (rows: readonly CounterRecord[]) => void
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** What a writer keeps from one flush to the next. */
interface WriterState extends WriterOptions, Pick<Form, 'hidden'> {
  readonly connection: ReturnType<typeof openFencedConnection>
  readonly reportWriting: ReturnType<typeof afterSwitchover>
  isTriggered: boolean
  /** Whether a transaction is open. Then nothing else may be sent: its COMMIT would also commit a part of that one. */
  isBusy: boolean
}

/** Another session holds the lock. MySQL has an error of its own for NOWAIT. */
const LOCKED = [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT]

const NONE: readonly Statement[] = []

/** Opens a connection that flushes. */
export function openWriter(hosts: Hosts, options: WriterOptions): Writer {
  const connection = openFencedConnection(hosts, options, () => state.isBusy)
  const state: WriterState = {
    ...options,
    connection,
    reportWriting: afterSwitchover(options.health.writing),
    hidden: new Set(),
    isTriggered: false,
    isBusy: false,
  }
  return {
    async begin(batch) {
      state.isBusy = true
      const transaction = await open(state, batch)
      if (transaction.kind !== 'transaction') state.isBusy = false
      return transaction
    },
    close: connection.close,
  }
}

async function open(state: WriterState, batch: Batch): Promise<FlushTransaction | NotApplied> {
  const { connection, reportWriting, failover } = state
  let fenced: Fenced
  try {
    fenced = await connection.open()
  } catch (cause) {
    if (isUnwritable(causeOf(cause))) reportWriting(false, causeOf(cause))
    return { kind: 'lost', cause }
  }
  let transaction: FlushTransaction
  try {
    transaction = new FlushTransaction(state, fenced, batch)
  } catch (cause) {
    return { kind: 'broken', cause }
  }
  const { counters, sequenceGroups } = transaction
  for (const { row } of counters) if (row.incarnation !== failover.incarnation) return { kind: 'stale' }
  for (const { row } of sequenceGroups) if (row.incarnation !== failover.incarnation) return { kind: 'stale' }
  return transaction
}

/**
 * The transaction of a flush, in two round trips: first all statements that lock, change and read; then, once the
 * operations are applied to what was read, the writes that result from them, and COMMIT.
 *
 * Only the answers OK and "deadlock" decide the outcome of a COMMIT. After any other, the fence is read on a new
 * connection. A connection lost before COMMIT was sent means that nothing was applied: nobody else can send it.
 */
class FlushTransaction implements Transaction {
  readonly kind = 'transaction'
  /** In lock order. */
  readonly counters: readonly CounterRecordWork[]
  /** In lock order. */
  readonly sequenceGroups: readonly SequenceGroupRecordWork[]
  readonly #state: WriterState
  readonly #fenced: Fenced
  readonly #batch: Batch
  readonly #form: Form
  /** The counters, where one trip is enough and worth it. */
  readonly #oneTrip: OneTrip | undefined
  /** The latest statements, to find the one that failed. */
  #sent: readonly Statement[] = NONE
  #clock: Clock = NO_CLOCK
  #prepared: readonly Statement[] = NONE
  #writes: Writes | undefined
  #isCommitSent = false

  constructor(state: WriterState, fenced: Fenced, batch: Batch) {
    const { at, precautions, claims } = batch
    const { isGalera, isFar } = fenced.session
    this.#state = state
    this.#fenced = fenced
    this.#batch = batch
    // All rows come from this store.
    const counters = batch.counters as readonly CounterRecordWork[]
    const sequenceGroups = batch.sequenceGroups as readonly SequenceGroupRecordWork[]
    this.counters = counters.length > 1 ? counters.toSorted((a, b) => a.row.id - b.row.id) : counters
    this.sequenceGroups = sequenceGroups.length > 1 ? sequenceGroups.toSorted(inLockOrder) : sequenceGroups
    const { isTriggered, hidden } = state
    this.#form = { at, onePerStatement: precautions.onePerStatement, isTriggered, hidden, isGalera }
    const mayFit = isFar && precautions.mayCommitAtOnce && claims.length === 0 && sequenceGroups.length === 0
    this.#oneTrip = mayFit ? oneTripOf(this.counters) : undefined
    if (this.#oneTrip) this.#prepared = addInOneTrip(fenced, this.#oneTrip, at)
  }

  get fitsOneTrip(): boolean {
    return this.#oneTrip !== undefined
  }

  get isCommitSent(): boolean {
    return this.#isCommitSent
  }

  async read(): Promise<Reading | NotApplied> {
    try {
      const reading = await this.#lockAndRead()
      if (reading.kind !== 'read') this.#state.isBusy = false
      return reading
    } catch (error) {
      return this.#failed(error)
    }
  }

  /**
   * Every process touches keys and rows in this one order, so that flushes don't deadlock. After COMMIT is sent, an error
   * would leave the outcome unknown.
   */
  async #lockAndRead(): Promise<Reading | NotApplied> {
    const { counters, sequenceGroups } = this
    const { claims, precautions } = this.#batch
    const form = this.#form
    if (precautions.triesLocks) {
      const obstacle = await this.#tryLocks()
      if (obstacle) return obstacle
    }
    const fence = precautions.triesLocks ? NONE : begin(this.#fenced)
    const keys = claims.length > 0 ? claimKeys(claims, form) : undefined
    const single = counters.filter(({ row }) => row.definition.slots === 1)
    const slotted = counters.filter(({ row }) => row.definition.slots > 1)
    const changes = single.length > 0 ? changeCounters(single, form) : undefined
    const slots = slotted.length > 0 ? joined(slotted.map(lockSlots)) : undefined
    const groups = sequenceGroups.length > 0 ? lockSequenceGroups(sequenceGroups, form) : undefined
    const [begun, claimed, time, changed, summed, locked] = await this.#send([
      fence,
      keys?.statements ?? NONE,
      slots || this.#isFirstRevisionWanted() ? [READ_CLOCK] : NONE,
      changes?.statements ?? NONE,
      slots?.statements ?? NONE,
      groups?.statements ?? NONE,
      lockDefinitions(counters),
    ])
    if (!precautions.triesLocks && !hasBegun(begun)) return this.#lose()
    if (time.length > 0) this.#clock = clockIn(time[0])
    const clock = this.#clock
    const earlier = keys ? keys.read(claimed, clock) : []
    if (!earlier) {
      await rollBack(this.#fenced.session)
      return { kind: 'lost', cause: new Error('An idempotency key is neither claimed nor found') }
    }
    const readings = new Map(slots?.read(summed, clock))
    const answers = changes?.read(changed, clock) ?? []
    for (const { work, reading } of answers) if (reading) readings.set(work, reading)
    const unclear = answers.filter(({ isUnclear }) => isUnclear)
    if (unclear.length > 0) {
      const again = readAgain(unclear, form)
      const [time, read] = await this.#send([[READ_CLOCK], again.statements])
      this.#clock = { ...clockIn(time[0]), first: clock.first ?? clockIn(time[0]).first }
      for (const [work, reading] of again.read(read, this.#clock)) {
        readings.set(work, reading)
        // A trigger hid the value: 0 gives the same answer.
        if (reading.isAdded && reading.value !== 0) this.#state.isTriggered = true
      }
    }
    return { kind: 'read', counters: readings, sequenceGroups: new Map(groups?.read(locked, clock)), earlier }
  }

  /** Tries all locks at once. Returns why that is not possible. */
  async #tryLocks(): Promise<NotApplied | undefined> {
    const { session } = this.#fenced
    const locks = tryLocks(this.counters, this.sequenceGroups, this.#batch.claims)
    const [begun, locked] = await this.#send([begin(this.#fenced), locks.statements])
    if (!hasBegun(begun)) return this.#lose()
    const missing = locks.read(locked, NO_CLOCK)
    if (missing.length === 0) return undefined
    const keys = await splitMissing(session, missing)
    await rollBack(session)
    return { kind: 'notLocked', ...keys }
  }

  /** Whether initial revisions are wanted of rows that only the second round trip writes. */
  #isFirstRevisionWanted(): boolean {
    for (const { path, wantsRevision } of this.counters)
      if (wantsRevision && path.kind === 'locked') return true
    for (const work of this.sequenceGroups)
      if (work.wantsRevision && !mayAdvance(work, this.#form)) return true
    return false
  }

  write(writes: Writes): void {
    this.#writes = writes
    const { counters, sequenceGroups, toStore, toRelease } = writes
    const form = this.#form
    const { first } = this.#clock
    const prepared: Statement[] = []
    if (counters.length > 0) prepared.push(...writeCounters(counters, first, form))
    if (sequenceGroups.length > 0) prepared.push(...writeSequenceGroups(sequenceGroups, first, form))
    if (counters.length > 0) prepared.push(...writeHistory(counters, form))
    if (toStore.length > 0) prepared.push({ text: storeResults(toStore) })
    for (const claim of toRelease) prepared.push({ text: releaseKey(claim), owner: claim.key })
    this.#prepared = prepared
  }

  async commit(): Promise<Outcome> {
    const outcome = await this.#commit()
    this.#noteChanges(outcome)
    return outcome
  }

  async commitAtOnce(): ReturnType<Transaction['commitAtOnce']> {
    const outcome = await this.#commit()
    this.#noteChanges(outcome)
    if (outcome.kind !== 'committed') return outcome
    try {
      return { kind: 'committed', reading: readKept(this.#oneTrip ?? [], outcome.kept ?? '') }
    } catch (cause) {
      this.#state.onFault(cause)
      return { kind: 'unknown', cause }
    }
  }

  async rollBack(): Promise<void> {
    await rollBack(this.#fenced.session)
    this.#state.isBusy = false
  }

  /** Sends what is prepared, and COMMIT. */
  async #commit(): Promise<Ended> {
    const state = this.#state
    const { session, fence } = this.#fenced
    const prepared = this.#prepared
    let kept: string | undefined
    try {
      const sending = this.#send([prepared, end(this.#fenced)])
      this.#isCommitSent = true
      const [written] = await sending
      if (this.#oneTrip) kept = keptIn(written.at(-1))
    } catch (error) {
      // After a statement that failed, the server runs no other. A text that is too large was not sent.
      const isBeforeCommit = error instanceof FailedStatement && error.index < withMarks([prepared]).length
      if (isBeforeCommit || isTooLarge(error)) return this.#failed(error)
      const cause = causeOf(error)
      if (hasErrorNumber(cause, ...ROLLED_BACK)) {
        // The next START TRANSACTION would commit what may still be open.
        await rollBack(session)
        if (hasLeftGroup(session, cause)) session.drop()
        return this.#ended({ kind: 'conflict', cause })
      }
      session.drop()
      if (isUnwritable(cause)) state.reportWriting(false, cause)
      else state.health.unanswered()
      const last = await state.connection.lastCommit(this.#fenced, this.#batch.calls)
      // Whatever that transaction does, it no longer belongs to this writer.
      if (!last) state.connection.leaveFence()
      if (!last) return this.#ended({ kind: 'unknown', cause })
      if (!last.isCommitted) return this.#ended({ kind: 'lost', cause })
      kept = last.kept
    }
    fence.seq += 1
    state.reportWriting(true)
    return this.#ended({ kind: 'committed', kept })
  }

  #noteChanges({ kind }: Ended): void {
    if (kind !== 'committed' && kind !== 'unknown') return
    const rows: CounterRecord[] = []
    for (const { row } of this.counters) {
      row.changedAt = this.#batch.at.getTime()
      rows.push(row)
    }
    try {
      this.#state.onChanged(rows)
      const { sequenceGroups = [] } = this.#writes ?? {}
      if (kind === 'committed' && sequenceGroups.length > 0) noteIssued(sequenceGroups)
    } catch (error) {
      // Committed results are returned whatever happens here.
      this.#state.onFault(error)
    }
  }

  async #send<Lists extends readonly (readonly Statement[])[]>(lists: readonly [...Lists]) {
    this.#sent = withMarks(lists)
    return send(this.#fenced.session, this.#sent, lists)
  }

  #ended<Outcome>(outcome: Outcome): Outcome {
    this.#state.isBusy = false
    return outcome
  }

  /** The fence is not as this writer left it. */
  async #lose(): Promise<NotApplied> {
    await rollBack(this.#fenced.session)
    await this.#state.connection.replaceFence(this.#fenced)
    return { kind: 'stale' }
  }

  /** The outcome of an error before COMMIT: nothing was applied, and one row or claim may be the cause. */
  async #failed(error: unknown): Promise<NotApplied> {
    const { session } = this.#fenced
    const { precautions, counters } = this.#batch
    const { health, reportWriting } = this.#state
    if (!(error instanceof FailedStatement) && !isOwnFault(error)) {
      session.drop()
      health.unanswered()
      return this.#ended({ kind: 'lost', cause: error })
    }
    await rollBack(session)
    this.#state.isBusy = false
    if (!(error instanceof FailedStatement)) return { kind: 'broken', cause: error }
    const { cause } = error
    const failed = this.#sent[error.index]
    // Not a locked row: this writer's own, or a node that did not catch up with its cluster in time.
    if (failed?.isFence) return { kind: 'lost', cause }
    // From `keep`.
    if (hasErrorNumber(cause, ER.SUBQUERY_NO_1_ROW)) return { kind: 'unfit' }
    // NULL means a sum that is too large. Without a definition, it comes from a trigger.
    if (hasErrorNumber(cause, ER.BAD_NULL_ERROR) && counters.some(mayRedefine)) return { kind: 'full', cause }
    const key = failed?.owner
    if (hasErrorNumber(cause, ...LOCKED)) return { kind: 'locked', cause, key }
    const failure = failureOf(cause)
    const isRepeated = failure === 'fault' && key === undefined && precautions.onePerStatement
    if (isRepeated || failure === 'refused') reportWriting(false, cause)
    if (failure === 'fault') return { kind: 'fault', cause, key }
    return { kind: failure === 'conflict' ? 'conflict' : 'lost', cause }
  }
}

/** `kept`: what a committed transaction kept with its fence. */
type Ended = Exclude<Outcome, { kind: 'committed' }> | { kind: 'committed'; kept: string | undefined }

function keptIn(answer: Answer | undefined): string | undefined {
  return firstRow<{ found?: string | null }>(answer)?.found ?? undefined
}

function causeOf(error: unknown): unknown {
  return error instanceof FailedStatement ? error.cause : error
}
