import { countingFault, isCounting } from './counting.ts'
import type { CallRecord } from './history.ts'
import { applyPart, EMPTY, isPast, type Part, type State, textOf } from './model.ts'
import { componentsOf, forgettingOf, isRising, type Judgement, partsOf } from './parts.ts'
import { type Step, search } from './search.ts'

export interface CheckResult {
  calls: number
  components: number
  faults: Fault[]
  givenUp: GivenUp[]
}

/** Calls that no order explains. */
export interface Fault {
  /** Counters and sequence groups, as JSON lists of namespace, name and group. */
  rows: readonly string[]
  message: string
  /** The call whose answer doesn't fit. */
  call: CallRecord
  /** All calls on these rows, in the order in which they were sent. */
  calls: readonly CallRecord[]
}

/** A component of which nobody knows. */
export interface GivenUp {
  rows: readonly string[]
  reason: string
}

export interface CheckOptions {
  /** How much earlier than by the clock of the callers a reservation may expire, in milliseconds. */
  toleranceMs?: number
  /** How many steps a search may try. */
  limit?: number
}

/** A reservation expires by the clock of the database. */
const TOLERANCE_MS = 1000

/**
 * Decides whether a history is linearizable: counter by counter and sequence group by sequence group. Carts and repeated
 * idempotency keys join what they touch; such a component is strictly serializable. `counters` promises each name by
 * itself, and `resetAll`, `defineSequence` and `deleteSequence` change each row by itself.
 */
export function checkHistory(history: readonly CallRecord[], options: CheckOptions = {}): CheckResult {
  const components = componentsOf(partsOf(history))
  const result: CheckResult = {
    calls: history.length,
    components: components.length,
    faults: [],
    givenUp: [],
  }
  for (const parts of components) {
    const rows = [...new Set(parts.flatMap((part) => part.rows))].toSorted()
    const calls = [...new Set(parts.map(({ record }) => record))].toSorted((a, b) => a.sentAt - b.sentAt)
    const verdict = unknowableIn(parts) ?? revisionFault(parts) ?? judge(parts, options)
    if (verdict.kind === 'fault') result.faults.push({ ...verdict, rows, calls })
    if (verdict.kind === 'given up') result.givenUp.push({ ...verdict, rows })
  }
  return result
}

/** Why the model does not say what is answered. */
function unknowableIn(parts: readonly Part[]): Judgement | undefined {
  const dated = parts.find(({ operation }) => {
    if (operation.kind === 'defineCounter') return operation.definition.oncePer != null
    return operation.kind === 'defineSequence' && operation.definition.restartEvery != null
  })
  if (dated) return { kind: 'given up', reason: `${dated.operation.kind} makes answers depend on the date` }
  const kinds = new Set(parts.map(({ operation }) => operation.kind))
  if (!kinds.has('hold') || !kinds.has('deleteCounter')) return undefined
  return { kind: 'given up', reason: 'a counter with holds is deleted' }
}

/**
 * Whoever reads a row after another has read it finds no other state with a lower revision. A counter that was never
 * changed has the time of the reading as its revision, until its row is there.
 */
function revisionFault(parts: readonly Part[]): Judgement | undefined {
  const reads = parts.flatMap(({ record, rows: [row = ''], outcome }) => {
    if (outcome.kind !== 'answered') return []
    const [{ revision, ...state } = {}] = [outcome.answer ?? {}].flat()
    return revision === undefined ? [] : [{ record, row, revision, state: JSON.stringify(state) }]
  })
  const newest = new Map<string, (typeof reads)[number]>()
  const answered = reads.toSorted((a, b) => answerOf(a.record) - answerOf(b.record)).values()
  let before = answered.next().value
  for (const { record, row, revision, state } of reads.toSorted(
    (a, b) => a.record.sentAt - b.record.sentAt,
  )) {
    for (; before && answerOf(before.record) < record.sentAt; before = answered.next().value)
      if (before.revision > (newest.get(before.row)?.revision ?? 0)) newest.set(before.row, before)
    const known = newest.get(row)
    if (known && revision < known.revision && state !== known.state)
      return {
        kind: 'fault',
        message: `revision ${revision} after ${known.revision} had been read`,
        call: record,
      }
  }
  return undefined
}

function answerOf({ answeredAt }: CallRecord): number {
  return answeredAt ?? Infinity
}

function judge(parts: readonly Part[], { toleranceMs = TOLERANCE_MS, limit }: CheckOptions): Judgement {
  if (isCounting(parts)) return countingFault(parts) ?? { kind: 'linearizable' }
  const forgets = forgettingOf(parts)
  const rises = isRising(parts)
  const steps = parts.map(
    (part): Step<State> => ({
      sentAt: part.record.sentAt,
      answeredAt: part.until,
      uncertain:
        part.outcome.kind === 'unknown' ? JSON.stringify([part.operation, part.rows, part.key]) : undefined,
      apply: (state) => applyPart(state, part, toleranceMs),
      // Its number was reserved for it: nobody else can take it meanwhile.
      isHarmless: part.operation.kind === 'confirmReservation' && part.outcome.kind === 'answered',
      isPast: rises ? (state) => isPast(state, part) : undefined,
      forget: forgets.get(part),
    }),
  )
  const verdict = search(steps, EMPTY, textOf, limit)
  if (verdict.kind === 'linearizable') return verdict
  const call = parts[verdict.step]?.record
  if (!call) throw new Error(`There is no part ${verdict.step}`)
  if (verdict.kind === 'gave up')
    return { kind: 'given up', reason: `no order was found up to ${JSON.stringify(call)}` }
  const before = verdict.before
    .slice(0, 3)
    .map(({ counters, groups }) => JSON.stringify({ ...counters, ...groups }))
  return {
    kind: 'fault',
    message: `no order explains the answer, before which there is ${before.join(' or ')}`,
    call,
  }
}
