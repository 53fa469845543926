import { type CounterWork, isCoalesced } from '../../core/groupCommit/batch.ts'
import type { CounterReading, CounterWrite, Writes } from '../../core/groupCommit/writer.ts'
import { type Answer, firstRow } from '../connections/session.ts'
import { byId, type Clock, type Form, joined, resultOf, type Section } from '../flush/statements.ts'
import { groupBy } from '../groupBy.ts'
import { integer } from '../literals.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { redefine, remove } from './define.ts'
import { addToHistory, historyIn, lockHistory } from './historyRows.ts'
import { areRoomy, areRunning, type PeriodsRow, periodsIn, writingColumns } from './periods.ts'
import { addToSlot, setSlots, slotOf } from './slots.ts'
import { add, addReturningOld, change, lock, read } from './update.ts'

/** What the first answers show of a counter. */
interface CounterAnswer {
  work: CounterWork
  isAdded: boolean
  /** Undefined: there is no such row, or it must be read again. */
  reading: CounterReading | undefined
  /** Whether it must be read again: the answer doesn't show the value, or it may not have the running periods. */
  isUnclear: boolean
}

/**
 * Maximum counters for which one statement each is faster than locking all, then changing all. Measured on MariaDB
 * 10.11, median time of the round trip with one, two, three and eight: 0.31, 0.40, 0.48 and 0.91 ms; locked first, 0.41,
 * 0.45, 0.45 and 0.54 ms.
 */
const NARROW = 2

/** Makes the coalesced additions to counters without slots, which are in lock order, and locks the others. */
export function changeCounters(works: readonly CounterWork[], form: Form): Section<readonly CounterAnswer[]> {
  const isWide = works.length > NARROW
  const changes = isWide ? lockAndAdd(works, form) : joined(works.map((work) => changeOne(work, form)))
  const wanted = works.filter(isCoalesced).filter((work) => work.wantsRevision || work.wantsPeriodValues)
  return wanted.length === 0 ? changes : readAfter(changes, wanted)
}

function changeOne(work: CounterWork, form: Form): Section<readonly CounterAnswer[]> {
  if (!isCoalesced(work) || form.isTriggered) return lockAndAdd([work], form)
  return {
    statements: [addReturningOld(work, form.at)],
    read([answer]) {
      const { affectedRows, insertId } = resultOf(answer)
      const isAdded = affectedRows === 1
      const isUnclear = !isAdded || insertId === 0
      return [{ work, isAdded, isUnclear, reading: isUnclear ? undefined : added(Number(insertId)) }]
    },
  }
}

/** Locks rows, and makes the additions to those that have one: with one statement for all that are alike. */
function lockAndAdd(works: readonly CounterWork[], { at }: Form): Section<readonly CounterAnswer[]> {
  // Counters with the same running periods have the same array.
  const alike = [...groupBy(works.filter(isCoalesced), ({ running }) => running).values()].flatMap(
    (group) => [...groupBy(group, ({ path }) => `${path.sum} ${path.raise}`).values()],
  )
  return {
    statements: [lock(works), ...alike.map((group) => add(group, at))],
    read([locked], clock) {
      const rows = byId<LockedRow>(locked)
      return works.map((work): CounterAnswer => {
        const row = rowOf(work, rows)
        if (!row) return { work, isAdded: false, isUnclear: false, reading: undefined }
        const reading = readingIn(row, work, false, clock)
        const { periods = [] } = reading
        const isUnclear = !(isCoalesced(work) ? areRoomy(periods) : areRunning(periods))
        const isAdded = isCoalesced(work) && !isUnclear
        if (isUnclear) return { work, isAdded, isUnclear, reading: undefined }
        return { work, isAdded, isUnclear, reading: isAdded ? added(reading.value) : reading }
      })
    },
  }
}

/** Reads rows after their additions, where their revisions or the totals of their periods are wanted. */
function readAfter(
  changes: Section<readonly CounterAnswer[]>,
  wanted: readonly CounterWork[],
): Section<readonly CounterAnswer[]> {
  return {
    statements: [...changes.statements, read(wanted)],
    read(answers, clock) {
      const rows = byId<LockedRow>(answers.at(-1))
      const isWanted = new Set(wanted)
      return changes.read(answers, clock).map((answer) => {
        const row = isWanted.has(answer.work) ? rows.get(answer.work.row.id) : undefined
        const isRead = row && answer.isAdded && answer.reading
        return isRead ? { ...answer, reading: readingIn(row, answer.work, true, clock) } : answer
      })
    },
  }
}

/**
 * Locks rows whose value the answer did not show, or that did not have the running periods, and reads them with the
 * history of these periods.
 *
 * A statement that matched nothing holds no lock, so here rows are locked after later ones. When a period begins, two
 * processes may therefore deadlock, rarely: one of them is rolled back, and tries again.
 */
export function readAgain(
  unclear: readonly CounterAnswer[],
): Section<readonly (readonly [CounterWork, CounterReading])[]> {
  const works = unclear.map(({ work }) => work)
  return {
    statements: [lock(works), ...lockHistory(works)],
    read([locked, history], clock) {
      const rows = byId<LockedRow>(locked)
      const historyOf = historyIn(history)
      return unclear.flatMap(({ work, isAdded }) => {
        const row = rowOf(work, rows)
        if (!row) return []
        const reading = readingIn(row, work, isAdded, clock)
        const periods = reading.periods?.map((each) => ({
          ...each,
          inHistory: historyOf(work.row.id, each.period),
        }))
        return [[work, { ...reading, periods }] as const]
      })
    },
  }
}

/** Reads the database's clock: also as the initial revision of rows, as results need it before they are written. */
export const READ_CLOCK = `select unix_timestamp() as now, ${REVISION_OF_NOW} as first`

export function clockIn(answer: Answer | undefined): Clock {
  const row = firstRow<Record<'now' | 'first', number>>(answer)
  return { now: 1000 * (row?.now ?? 0), first: row?.first }
}

/** A counter's row, with the columns of periods. */
type ValueRow = PeriodsRow & Record<'value' | 'revision', number | string | null>
type LockedRow = ValueRow & Record<'id' | 'version', number>

/** The row of a counter, unless it was redefined. */
function rowOf({ row }: CounterWork, rows: ReadonlyMap<number, LockedRow>): LockedRow | undefined {
  const locked = rows.get(row.id)
  return locked?.version === row.version ? locked : undefined
}

/** A counter before its operations, as its row shows it, which may include their sum. */
export function readingIn(
  row: ValueRow,
  { path, running }: CounterWork,
  isAdded: boolean,
  { now, first }: Clock,
): CounterReading {
  const { sum, raise } = isAdded && path.kind === 'coalesced' ? path : { sum: 0, raise: 0 }
  const revision = row.revision ?? first
  return {
    isAdded,
    value: Number(row.value) - sum,
    revision: revision === undefined ? undefined : Number(revision) - raise,
    periods: periodsIn(row, running, sum),
    now,
  }
}

/** A counter whose sum was added, with the value before. */
function added(value: number): CounterReading {
  return { value, revision: undefined, isAdded: true, periods: undefined, now: 0 }
}

type Change = Exclude<CounterWrite, 'deleted'>
/** A counter that changes. `periods`: assignments of its columns, each followed by a comma. */
type ChangedCounter = { work: CounterWork; write: Change; periods: string }

/** The statements that write counters on the locked path. `first`: initial revision, if known. */
export function writeCounters(
  counters: Writes['counters'],
  first: number | undefined,
  { at }: Form,
): string[] {
  const changed: ChangedCounter[] = []
  const statements: string[] = []
  for (const { work, write } of counters) {
    const { row } = work
    if (write === 'deleted') {
      statements.push(...remove(row))
      continue
    }
    const noted = { at, raise: write.raised, first }
    const periods = writingColumns(write.columns)
    if (write.isCounted && row.definition.slots > 1) statements.push(...writeSlots(work, write, periods, at))
    else if (write.isCounted) changed.push({ work, write, periods })
    if (write.definition) statements.push(...redefine(row, write.definition, noted))
  }
  return [...statements, ...writeValues(changed, first, at)]
}

function writeSlots(work: CounterWork, { previousValue, value, raised }: Change, periods: string, at: Date) {
  const slot = slotOf(work)
  if (slot === undefined) return setSlots(work.row, value, periods, { at, raise: raised })
  return [addToSlot(work.row, slot, value - previousValue, periods, { at, raise: raised })]
}

/** Changes locked rows, with one statement for all that are changed alike. */
function writeValues(changed: readonly ChangedCounter[], first: number | undefined, at: Date): string[] {
  const isSame = changed.every(({ write }) => write.value === changed[0]?.write.value)
  const assignments = ({ write: { previousValue, value }, periods }: ChangedCounter) =>
    isSame || !Number.isSafeInteger(value - previousValue)
      ? `${periods}value = ${integer(value)}`
      : `${periods}value = value + ${integer(value - previousValue)}`
  const groups = groupBy(changed, (counter) => `${counter.write.raised} ${assignments(counter)}`)
  return [...groups.values()].map((group) => {
    const [counter] = group
    const works = group.map(({ work }) => work)
    return change(works, assignments(counter), { at, raise: counter.write.raised, first })
  })
}

/** The statement that adds to the history of counters, if there is anything to add. */
export function writeHistory(counters: Writes['counters']): string[] {
  const additions = counters.flatMap(({ work, write }) =>
    write === 'deleted' ? [] : write.history.map((each) => ({ id: work.row.id, ...each })),
  )
  return additions.length > 0 ? [addToHistory(additions)] : []
}
