import { groupBy, integer } from '../mysql/sql.ts'
import {
  type CounterReading,
  type CounterWork,
  type CounterWrite,
  isCoalesced,
  type Writes,
} from './batch.ts'
import { redefine, remove } from './counterDefinition.ts'
import {
  add,
  addReturningOld,
  addToSlot,
  change,
  lock,
  lockSlots,
  read,
  setSlots,
  slotOf,
} from './counterUpdate.ts'
import {
  addToHistory,
  areRoomy,
  areRunning,
  lockHistory,
  type PeriodsRow,
  periodsIn,
  writingColumns,
} from './periodStatements.ts'
import { byId, type Clock, type FlushText, type Reader, resultOf } from './statements.ts'

/** What the first answers show of a counter. */
interface CounterAnswer {
  work: CounterWork
  /** Undefined: there is no such row, or it must be read again. */
  reading: CounterReading | undefined
  /** Whether it must be read again: the answer doesn't show the value, or it may not have the running periods. */
  isUnclear: boolean
  isAdded: boolean
}

/**
 * Maximum counters for which one statement each is faster than locking all, then changing all. Measured on MariaDB
 * 10.11, median time of the round trip with one, two, three and eight: 0.31, 0.40, 0.48 and 0.91 ms; locked first, 0.41,
 * 0.45, 0.45 and 0.54 ms.
 */
const NARROW = 2

/** Makes the coalesced additions to counters, which are in lock order, and locks the others. */
export function changeCounters(
  works: readonly CounterWork[],
  text: FlushText,
): Reader<readonly CounterAnswer[]> {
  const readers: Reader<readonly CounterAnswer[]>[] = []
  const single = works.filter(({ row }) => row.definition.slots === 1)
  if (single.length > NARROW) readers.push(lockAndAdd(single, text))
  else for (const work of single) readers.push(changeOne(work, text))
  const wanted = single.filter(isCoalesced).filter((work) => work.wantsRevision || work.wantsPeriodValues)
  // Reads rows after their additions, where their revisions or the totals of their periods are wanted.
  const readAt = wanted.length > 0 ? text.add(read(wanted)) : -1
  for (const work of works) {
    if (work.row.definition.slots === 1) continue
    const readSlots = lockSlots(work, text)
    readers.push((answers, clock) => [answerOf(work, readSlots(answers, clock))])
  }
  return (answers, clock) => {
    const changes = readers.flatMap((readChanges) => readChanges(answers, clock))
    if (readAt < 0) return changes
    const rows = byId<LockedCounterRow>(answers[readAt])
    return changes.map((change) => {
      const { work, reading } = change
      const row = reading?.isAdded ? rows.get(work.row.id) : undefined
      return row ? answerOf(work, readingIn(row, work, true, clock)) : change
    })
  }
}

function changeOne(work: CounterWork, text: FlushText): Reader<readonly CounterAnswer[]> {
  if (!isCoalesced(work)) return lockAndAdd([work], text)
  const changedAt = text.add(addReturningOld(work, text.at))
  return (answers) => {
    const { affectedRows, insertId } = resultOf(answers[changedAt])
    if (affectedRows === 1 && insertId !== 0) return [answerOf(work, added(Number(insertId)))]
    return [{ work, reading: undefined, isUnclear: true, isAdded: affectedRows === 1 }]
  }
}

/** Locks rows, and makes the additions to those that have one: with one statement for all that are alike. */
function lockAndAdd(works: readonly CounterWork[], text: FlushText): Reader<readonly CounterAnswer[]> {
  const lockedAt = text.add(lock(works))
  // Counters with the same running periods have the same array.
  for (const group of groupBy(works.filter(isCoalesced), ({ running }) => running).values())
    for (const alike of groupBy(group, ({ path }) => `${path.sum} ${path.raise}`).values())
      text.add(add(alike, text.at))
  return (answers, clock) => {
    const rows = byId<LockedCounterRow>(answers[lockedAt])
    return works.map((work) => {
      const row = rowOf(work, rows)
      if (!row) return answerOf(work, undefined)
      const reading = readingIn(row, work, false, clock)
      const { periods = [] } = reading
      if (isCoalesced(work) ? areRoomy(periods) : areRunning(periods))
        return answerOf(work, isCoalesced(work) ? added(reading.value) : reading)
      return { work, reading: undefined, isUnclear: true, isAdded: false }
    })
  }
}

function answerOf(work: CounterWork, reading: CounterReading | undefined): CounterAnswer {
  return { work, reading, isUnclear: false, isAdded: reading?.isAdded === true }
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
  text: FlushText,
): Reader<readonly (readonly [CounterWork, CounterReading])[]> {
  const works = unclear.map(({ work }) => work)
  const lockedAt = text.add(lock(works))
  const readHistory = lockHistory(works, text)
  return (answers, clock) => {
    const rows = byId<LockedCounterRow>(answers[lockedAt])
    const historyOf = readHistory(answers, clock)
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
  }
}

/** A counter's row, with the columns of periods. */
type ValueRow = PeriodsRow & Record<'value' | 'revision', number | string | null>
type LockedCounterRow = ValueRow & Record<'id' | 'version', number>

/** The row of a counter, unless it was redefined. */
function rowOf(
  { row }: CounterWork,
  rows: ReadonlyMap<number, LockedCounterRow>,
): LockedCounterRow | undefined {
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

type ValueWrite = Exclude<CounterWrite, 'deleted'>
/** A counter that changes. `periods`: assignments of its columns, each followed by a comma. */
type ChangedCounter = { work: CounterWork; write: ValueWrite; periods: string }

/** The statements that write counters on the locked path. `first`: initial revision, if known. */
export function writeCounters(counters: Writes['counters'], first: number | undefined, at: Date): string[] {
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

function writeSlots(
  work: CounterWork,
  { previousValue, value, raised }: ValueWrite,
  periods: string,
  at: Date,
) {
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
