import { isCoalesced } from '../../core/groupCommit/batch.ts'
import type { CounterReading, CounterWrite, Writes } from '../../core/groupCommit/writer.ts'
import { type Answer, firstRow } from '../connections/session.ts'
import {
  byId,
  type Clock,
  type Form,
  joined,
  ownerOf,
  resultOf,
  type Section,
  type Statement,
  select,
  together,
} from '../flush/statements.ts'
import { groupBy } from '../groupBy.ts'
import { integer } from '../literals.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { redefine, remove } from './define.ts'
import { addToHistory, historyIn, lockHistory } from './historyRows.ts'
import { areRoomy, areRunning, type PeriodsRow, periodsIn, writingColumns } from './periods.ts'
import type { CounterRecord, CounterRecordWork } from './record.ts'
import { addToSlot, setSlots, slotOf } from './slots.ts'
import { add, addReturningOld, change, lock, read } from './update.ts'

/** What the first answers show of a counter. */
interface CounterAnswer {
  work: CounterRecordWork
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
export function changeCounters(
  works: readonly CounterRecordWork[],
  form: Form,
): Section<readonly CounterAnswer[]> {
  const isWide = works.length > NARROW && !form.onePerStatement
  const changes = isWide ? lockAndAdd(works, form) : joined(works.map((work) => changeOne(work, form)))
  const wanted = works.filter(isCoalesced).filter((work) => work.wantsRevision || work.wantsPeriodValues)
  return wanted.length === 0 ? changes : readAfter(changes, wanted)
}

function changeOne(work: CounterRecordWork, form: Form): Section<readonly CounterAnswer[]> {
  if (!isCoalesced(work) || form.isTriggered) return lockAndAdd([work], form)
  return {
    statements: [{ text: addReturningOld(work, form.at), owner: work.row.key }],
    read([answer]) {
      const { affectedRows, insertId } = resultOf(answer)
      const isAdded = affectedRows === 1
      const isUnclear = !isAdded || insertId === 0
      return [{ work, isAdded, isUnclear, reading: isUnclear ? undefined : added(Number(insertId)) }]
    },
  }
}

/** Locks rows, and makes the additions to those that have one: with one statement for all that are alike. */
function lockAndAdd(works: readonly CounterRecordWork[], { at }: Form): Section<readonly CounterAnswer[]> {
  // Counters with the same running periods have the same array.
  const alike = [...groupBy(works.filter(isCoalesced), ({ running }) => running).values()].flatMap(
    (group) => [...groupBy(group, ({ path }) => `${path.sum} ${path.raise}`).values()],
  )
  const owner = ownerOf(works)
  return {
    statements: [select(lock(works), owner), ...alike.map((group) => ({ text: add(group, at), owner }))],
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
  wanted: readonly CounterRecordWork[],
): Section<readonly CounterAnswer[]> {
  return {
    statements: [...changes.statements, select(read(wanted), ownerOf(wanted))],
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
  form: Form,
): Section<readonly [CounterRecordWork, CounterReading][]> {
  return joined(
    together(unclear, form).map((group): Section<[CounterRecordWork, CounterReading][]> => {
      const works = group.map(({ work }) => work)
      return {
        statements: [select(lock(works), ownerOf(works)), ...lockHistory(works)],
        read([locked, history], clock) {
          const rows = byId<LockedRow>(locked)
          const historyOf = historyIn(history)
          return group.flatMap(({ work, isAdded }): [CounterRecordWork, CounterReading][] => {
            const row = rowOf(work, rows)
            if (!row) return []
            const reading = readingIn(row, work, isAdded, clock)
            const periods = reading.periods?.map((each) => ({
              ...each,
              inHistory: historyOf(work.row.id, each.period),
            }))
            return [[work, { ...reading, periods }]]
          })
        },
      }
    }),
  )
}

/** Reads the database's clock: also as the initial revision of rows, as results need it before they are written. */
export const READ_CLOCK = select(`select unix_timestamp() as now, ${REVISION_OF_NOW} as first`)

export function clockIn(answer: Answer | undefined): Clock {
  const row = firstRow<Record<'now' | 'first', number>>(answer)
  return { now: 1000 * (row?.now ?? 0), first: row?.first }
}

/** A counter's row, with the columns of periods. */
type ValueRow = PeriodsRow & Record<'value' | 'revision', number | string | null>
type LockedRow = ValueRow & Record<'id' | 'version', number>

/** The row of a counter, unless it was redefined. */
function rowOf({ row }: CounterRecordWork, rows: ReadonlyMap<number, LockedRow>): LockedRow | undefined {
  const locked = rows.get(row.id)
  return locked?.version === row.version ? locked : undefined
}

/** A counter before its operations, as its row shows it, which may include their sum. */
export function readingIn(
  row: ValueRow,
  { path, running }: CounterRecordWork,
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
type ChangedCounter = { work: CounterRecordWork; row: CounterRecord; write: Change; periods: string }

/** The statements that write counters on the locked path. `first`: initial revision, if known. */
export function writeCounters(
  counters: Writes['counters'],
  first: number | undefined,
  form: Form,
): Statement[] {
  const changed: ChangedCounter[] = []
  const statements: Statement[] = []
  for (const { work, write } of counters) {
    // All rows come from this store.
    const row = work.row as CounterRecord
    const add = (texts: string[]) => statements.push(...texts.map((text) => ({ text, owner: row.key })))
    if (write === 'deleted') {
      add(remove(row))
      continue
    }
    const counter = { work: { ...work, row }, row, write, periods: writingColumns(write.columns) }
    if (write.isCounted && row.definition.slots > 1) add([...writeSlots(counter, first, form)])
    else if (write.isCounted) changed.push(counter)
    if (write.definition) add(redefine(row, write.definition, { at: form.at, raise: write.raised, first }))
  }
  return [...statements, ...writeValues(changed, first, form)]
}

function writeSlots({ work, row, write, periods }: ChangedCounter, first: number | undefined, { at }: Form) {
  const { previousValue, value, raised: raise } = write
  const slot = slotOf(work)
  if (slot === undefined) return setSlots(row, value, periods, { at, raise, first })
  return [addToSlot(row, slot, value - previousValue, periods, { at, raise, first })]
}

/** Changes locked rows, with one statement for all that are changed alike. */
function writeValues(changed: readonly ChangedCounter[], first: number | undefined, form: Form): Statement[] {
  const isSame = changed.every(({ write }) => write.value === changed[0]?.write.value)
  const assignments = ({ write: { previousValue, value }, periods }: ChangedCounter) =>
    isSame || !Number.isSafeInteger(value - previousValue)
      ? `${periods}value = ${integer(value)}`
      : `${periods}value = value + ${integer(value - previousValue)}`
  const groups = groupBy(changed, (counter) =>
    form.onePerStatement ? counter.row.key : `${counter.write.raised} ${assignments(counter)}`,
  )
  return [...groups.values()].map((group) => {
    const [counter] = group
    const noted = { at: form.at, raise: counter.write.raised, first }
    return { text: change(group, assignments(counter), noted), owner: ownerOf(group) }
  })
}

/** The statements that add to the history of counters. */
export function writeHistory(counters: Writes['counters'], form: Form): Statement[] {
  const moved = counters.flatMap(({ work, write }) =>
    // All rows come from this store.
    write === 'deleted' || write.history.length === 0
      ? []
      : [{ row: work.row as CounterRecord, history: write.history }],
  )
  return together(moved, form).map((group) => ({
    text: addToHistory(group.flatMap(({ row, history }) => history.map((each) => ({ id: row.id, ...each })))),
    owner: ownerOf(group),
  }))
}
