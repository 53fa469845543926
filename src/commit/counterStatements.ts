import { firstRow, rowsOf } from '../mysql/session.ts'
import { groupBy, instant, integer, list, MARK, REVISION_OF_NOW, raiseMark } from '../mysql/sql.ts'
import { assertInvariant } from '../rules/errors.ts'
import type { RunningPeriod } from '../rules/periods.ts'
import type { CounterRow } from '../rules/rows.ts'
import {
  type CoalescedWork,
  type CoalescedWorks,
  type CounterReading,
  type CounterWork,
  type CounterWrite,
  isCoalesced,
  isRaise,
  mayRedefine,
  slotOf,
} from './batch.ts'
import { forgetSubjects, redefine, remove } from './counterDefinition.ts'
import type { Fence } from './fence.ts'
import { changesHolds, HELD_COLUMNS, type HeldRow, heldAssignments, heldIn } from './holdStatements.ts'
import {
  areRoomy,
  areRunning,
  COLUMNS,
  isRoomy,
  lockHistory,
  PERIOD_CODES,
  type PeriodsRow,
  partsOf,
  periodColumns,
  periodsIn,
  startSecond,
  writingColumns,
} from './periodStatements.ts'
import { byId, eachOf, type FlushText, idsOf, type Reader, slotsOf } from './statements.ts'

/** What the first answers show of a counter that exists. */
interface CounterAnswer {
  work: CounterWork
  /** Undefined: it must be read again, as it may not have the running periods. */
  reading: CounterReading | undefined
}

/**
 * Locks the definitions of counters, where work may change their versions, or delete them, or a flush found no row. Returns
 * the readings of those whose definition is there although a row is not: somebody has deleted it.
 */
export function lockDefinitions(
  works: readonly CounterWork[],
  text: FlushText,
): Reader<[CounterWork, CounterReading][]> {
  const missed: { work: CounterWork; at: number; rowsAt: number }[] = []
  for (const work of works) {
    if (work.path.kind === 'coalesced' || !(work.isMissed || mayRedefine(work))) continue
    const definition = `select version, ${NEXT_REVISION} as next from counter force index (primary)`
    const at = text.add(`${definition} where id = ${integer(work.row.id)} for update`)
    // Again: another process may have restored them while this one waited for its lock.
    if (work.isMissed) missed.push({ work, at, rowsAt: text.add(lock([work], [], slotsOf(work))) })
  }
  return (answers) =>
    missed.flatMap(({ work, at, rowsAt }) => {
      const row = firstRow<Record<'version' | 'next', number | string>>(answers[at])
      if (row?.version !== work.row.version) return []
      if (rowsOf(answers[rowsAt]).length === work.row.definition.slots) return []
      return [[work, { ...added(0), isAdded: false, revision: Number(row.next), isLost: true }]]
    })
}

/**
 * Makes the coalesced additions to counters, which are in lock order, and locks the others.
 *
 * @param mayCollect whether rows that don't have the running periods may be locked after the others
 */
export function changeCounters(
  works: readonly CounterWork[],
  text: FlushText,
  mayCollect: boolean,
): Reader<CounterAnswer[]> {
  const additions = mayCollect ? collectable(works) : undefined
  if (additions) return addAndCollect(additions, text)
  const single = works.filter(({ row }) => row.definition.slots === 1)
  const readers = single.length > 0 ? [lockAndAdd(single, text)] : []
  for (const work of works) if (work.row.definition.slots > 1) readers.push(lockSlots(work, text))
  return (answers) => readers.flatMap((readChanges) => readChanges(answers))
}

/** Beyond it, collecting takes longer: each row copies what was collected before. */
const MAX_COLLECTED = 256

/** Works that one statement can add to; undefined: it can't add to all. */
function collectable(works: readonly CounterWork[]): CoalescedWorks | undefined {
  const [first, ...others] = works
  if (!first || others.length === 0 || others.length >= MAX_COLLECTED) return undefined
  const isAlike = (work: CounterWork): work is CoalescedWork =>
    isCoalesced(work) && !wantsState(work) && work.running === first.running
  return isAlike(first) && others.every(isAlike) ? [first, ...others] : undefined
}

/**
 * Adds to rows that have the running periods, and collects their values before in a variable. Both servers have no other
 * statement that does both: MariaDB lacks `update … returning`, and MySQL `returning` (which warns that such variables may
 * go one day). Beside `lockAndAdd`, 10 000 counters took 0.77 of the database's time, at 1.18 times the rate (MariaDB
 * 10.11, two cores, `npm run bench -- --only nth,uniform@64`).
 */
function addAndCollect(works: CoalescedWorks, text: FlushText): Reader<CounterAnswer[]> {
  const [{ running }] = works
  const sum = eachOf(works, 'counter_id', ({ path }) => integer(path.sum))
  const raise = eachOf(works, 'counter_id', ({ path }) => integer(path.raise))
  text.add("set @found = ''")
  text.add(`update counter_value force index (primary)
   set revision = revision + ${raise},
       updated_at = ${instant(text.at)},
       ${addingInPeriods(running, sum)}value = value + if(length(@found := concat(@found, counter_id, ' ', version, ' ', value, ',')), ${sum}, 0)
 where counter_id in (${idsOf(works)}) and slot = 0 and created_at is not null${andRoomyPeriods(running)}`)
  const foundAt = text.add('select @found as found')
  return (answers) => {
    const found = firstRow<{ found: string }>(answers[foundAt])?.found ?? ''
    const rows = new Map(found.split(',').map((row) => [Number.parseInt(row, 10), row.split(' ')]))
    return works.flatMap((work): CounterAnswer[] => {
      const [, version, value] = rows.get(work.row.id) ?? []
      if (version === undefined) return [{ work, reading: undefined }]
      return Number(version) === work.row.version ? [{ work, reading: added(Number(value)) }] : []
    })
  }
}

/** Locks rows, and makes the additions to those that have one: with one statement for all that are alike. */
function lockAndAdd(works: readonly CounterWork[], text: FlushText): Reader<CounterAnswer[]> {
  const isPlain = works.every((work) => isCoalesced(work) && !wantsState(work))
  // Counters with the same running periods have the same array.
  const groups = groupBy(works.filter(isCoalesced), ({ running }) => running)
  const lockedAt = text.add(lock(works, isPlain ? [fitsColumn(groups)] : stateColumns(works)))
  for (const group of groups.values())
    for (const alike of groupBy(group, ({ path }) => `${path.sum} ${path.raise}`).values())
      text.add(add(alike, text.at))
  const readingOf = isPlain ? plainReading : stateReading
  return (answers) =>
    withRows(works, byId(answers[lockedAt])).map(([work, row]) => ({ work, reading: readingOf(row, work) }))
}

/** Where all that is wanted is the value. Undefined: nothing was added. */
function plainReading({ fits, value }: CounterRowRead): CounterReading | undefined {
  return fits === 1 ? added(Number(value)) : undefined
}

/** Undefined: the row does not have the running periods, or nothing was added. */
function stateReading(row: CounterRowRead, work: CounterWork): CounterReading | undefined {
  const isAdded = isCoalesced(work)
  const reading = readingIn(row, work, isAdded)
  const { periods = [], value } = reading
  if (!isAdded) return areRunning(periods) ? reading : undefined
  if (!areRoomy(periods)) return undefined
  return wantsState(work) ? reading : added(value)
}

function stateColumns(works: readonly CounterWork[]): string[] {
  const isNew = works.some(isRaise) ? ['created_at is null as is_new'] : []
  const held = works.some(({ row }) => row.definition.hasHolds) ? HELD_COLUMNS : []
  return [...periodColumns(works), 'revision', ...isNew, ...held]
}

/** The revision of a row that is restored: as that of a new one, but without a lock on the mark. */
const NEXT_REVISION = `cast(greatest(${REVISION_OF_NOW}, ${MARK} + 1) as unsigned)`

/** Whether a caller wants more than the value. */
export function wantsState({ wantsRevision, wantsPeriodValues }: CounterWork): boolean {
  return wantsRevision || wantsPeriodValues
}

/** Reads locked rows that did not have the running periods, with the history of these periods. */
export function readAgain(
  changes: readonly CounterAnswer[],
  text: FlushText,
): Reader<[CounterWork, CounterReading][]> {
  const works = changes.filter(({ reading }) => !reading).map(({ work }) => work)
  const lockedAt = text.add(lock(works, [...stateColumns(works), NOW]))
  const readHistory = lockHistory(works, text)
  return (answers) => {
    const historyOf = readHistory(answers)
    return withRows(works, byId(answers[lockedAt])).map(([work, row]) => {
      const reading = readingIn(row, work)
      const periods = reading.periods?.map((each) => ({
        ...each,
        inHistory: historyOf(work.row.id, each.period),
      }))
      return [work, { ...reading, periods }]
    })
  }
}

/** Whether it must be compared with the database's clock is known only once it is read. */
const NOW = 'unix_timestamp() as now'

type CounterRowRead = PeriodsRow & HeldRow & Record<'id' | 'version', number>

/** Counters with their rows, except for those that were deleted or redefined. */
function withRows(
  works: readonly CounterWork[],
  rows: ReadonlyMap<number, CounterRowRead>,
): (readonly [CounterWork, CounterRowRead])[] {
  return works.flatMap((work) => {
    const row = rows.get(work.row.id)
    return row?.version === work.row.version ? [[work, row] as const] : []
  })
}

/** A counter before its operations, as its row shows it. */
function readingIn(
  row: CounterRowRead,
  { running, row: { definition } }: CounterWork,
  isAdded = false,
): CounterReading {
  return {
    isAdded,
    value: Number(row.value),
    revision: row.revision == null ? undefined : Number(row.revision),
    periods: periodsIn(row, running),
    now: 1000 * Number(row.now ?? 0),
    isNew: row.is_new === 1,
    // Where the sum was added, nothing depends on it.
    held: definition.hasHolds && !isAdded ? heldIn(row) : undefined,
  }
}

/** A counter whose sum was added, with the value before. */
export function added(value: number): CounterReading {
  return { value, revision: undefined, isAdded: true, periods: undefined, now: 0 }
}

/**
 * Adds to a counter that was changed before, and increments the fence, which keeps the value before: both, or nothing.
 * Returns the statement, which is the same for all counters while these periods run, and what its question marks stand for.
 *
 * The value before is in the answer as well: MySQL Cookbook, "single-row sequence generators". If `insertId` is 0, it may
 * have been 0, or the table may have a trigger. (The function is unsigned, hence the cast.)
 */
export function addWithFence(fence: Fence, work: CoalescedWork, at: Date): [string, string[]] {
  const { row, path, running } = work
  let statement = additions.get(running)
  if (statement === undefined) {
    statement = `update fence straight_join counter_value
   set seq = ?,
       found = value,
       touched_at = utc_timestamp(),
       revision = revision + ?, updated_at = ?,
       ${addingInPeriods(running, '?')}value = cast(last_insert_id(value) as signed) + ?
 where id = cast(? as unsigned) and seq = ? and epoch = ?
   and counter_id = cast(? as unsigned) and slot = 0 and version = ? and created_at is not null
   and ${isRoomy('value')}${andRoomyPeriods(running)}`
    additions.set(running, statement)
  }
  const sum = integer(path.sum)
  const literals = [integer(fence.seq + 1), integer(path.raise), instant(at)]
  for (let index = 0; index <= running.length; index += 1) literals.push(sum)
  for (const value of [fence.id, fence.seq, fence.epoch, row.id, row.version]) literals.push(integer(value))
  return [statement, literals]
}

/** Cached, as all flushes until one of the periods ends have the same list. */
const additions = new WeakMap<readonly RunningPeriod[], string>()

/**
 * Adds the same to each of several locked rows, if it has the running periods: those of one definition. Without
 * `force index`, MariaDB 11 scans a small table, and waits for rows that others have locked.
 */
function add(works: CoalescedWorks, at: Date): string {
  const [{ path, running }] = works
  const sum = integer(path.sum)
  const assignments = `${addingInPeriods(running, sum)}value = value + ${sum}`
  return change(works, assignments, { at, raise: path.raise }) + andRoomyPeriods(running)
}

/** Assignments that add to all running periods, each followed by a comma. */
function addingInPeriods(running: readonly RunningPeriod[], sum: string): string {
  let assignments = ''
  for (const { period } of running) {
    const { added } = COLUMNS[period]
    assignments += `${added} = ${added} + ${sum}, `
  }
  return assignments
}

/** Cached, as `additions`. */
const conditions = new WeakMap<readonly RunningPeriod[], string>()

/** The end of a condition, which begins with `and`; empty if no period is tracked. */
function andRoomyPeriods(running: readonly RunningPeriod[]): string {
  const cached = conditions.get(running)
  if (cached !== undefined) return cached
  const condition = running
    .map(({ period, start }) => {
      const columns = COLUMNS[period]
      return ` and ${columns.start} = ${startSecond(start)} and ${isRoomy(columns.added)}`
    })
    .join('')
  conditions.set(running, condition)
  return condition
}

/**
 * The column that shows whether a row fits the addition of its counter. The driver parses it instead of two columns for
 * each period: with it, a call that adds to ten counters took 0.84 of the processor time.
 */
function fitsColumn(groups: ReadonlyMap<readonly RunningPeriod[], readonly CounterWork[]>): string {
  const conditions = [...groups].map(([running, works]) => {
    const which = groups.size === 1 ? 'true' : `counter_id in (${idsOf(works)})`
    return which + andRoomyPeriods(running)
  })
  return `${conditions.join(' or ')} as fits`
}

/** Locks rows in the order of their primary key, and reads their values and more columns. */
function lock(
  works: readonly CounterWork[],
  columns: readonly string[],
  rows = `counter_id in (${idsOf(works)}) and slot = 0`,
): string {
  // Without `force index`, a server may scan, and lock, all of a small table.
  return `select ${['counter_id as id, version, value', ...columns].join(', ')}
  from counter_value force index (primary)
 where ${rows}
 order by counter_id, slot
   for update`
}

/**
 * Applies the same assignments to each of several locked rows. Conditions may follow it.
 *
 * @param raise increase of the revision
 * @param at when the values are changed; undefined: they are not
 */
function change(
  works: readonly CounterWork[],
  assignments: string,
  { at, raise }: { at: Date | undefined; raise: number },
  slot = 0,
): string {
  const times = at
    ? `created_at = coalesce(created_at, ${instant(at)}),
       updated_at = ${instant(at)},
       `
    : ''
  return `update counter_value force index (primary)
   set revision = revision + ${raise},
       ${times}${assignments}
 where counter_id in (${idsOf(works)}) and slot = ${integer(slot)}`
}

type SumRow = PeriodsRow & Record<'value' | 'revision' | 'now', number | string>

/** Locks one or all slots of a counter, and reads one of them, and what there is elsewhere. */
function lockSlots(work: CounterWork, text: FlushText): Reader<CounterAnswer[]> {
  const { row, running } = work
  const slot = slotOf(work)
  const lockedAt = text.add(lock([work], [...periodColumns([work]), 'revision'], slotsOf(work)))
  const sumAt = text.add(sumRest(work, slot))
  return (answers) => {
    const slots = rowsOf<SumRow & { version: number }>(answers[lockedAt])
    const [changed] = slots
    const rest = firstRow<SumRow>(answers[sumAt])
    if (!changed || !rest || slots.some(({ version }) => version !== row.version)) return []
    if (slot === undefined && slots.length < row.definition.slots) return []
    const periods = periodsIn(changed, running).map((each) => ({
      ...each,
      elsewhere: BigInt(rest[COLUMNS[each.period].added] ?? 0),
    }))
    // A slot may be beyond the safe range although the sum is not.
    const value = Number(BigInt(changed.value) + BigInt(rest.value))
    const revision = Number(changed.revision) + Number(rest.revision)
    const now = 1000 * Number(rest.now)
    return [{ work, reading: { value, revision, isAdded: false, periods, now } }]
  }
}

/**
 * Sums the other slots, and their running periods with the history: as far as other sessions have committed them, or
 * under lock. In one statement: between two, a period could move.
 */
function sumRest({ row, running }: CounterWork, slot: number | undefined): string {
  const id = integer(row.id)
  const totals = running.map(({ period, start }) => {
    const { start: startColumn, added } = COLUMNS[period]
    const second = startSecond(start)
    return `,
       cast(coalesce(sum(if(${startColumn} = ${second}, ${added}, 0)), 0) + coalesce((
         select h.value
           from counter_history h
          where h.counter_id = ${id} and h.period = ${PERIOD_CODES[period]} and h.start = ${second}), 0) as signed) as ${added}`
  })
  return `select cast(coalesce(sum(value), 0) as signed) as value,
       cast(coalesce(sum(revision), 0) as unsigned) as revision, ${NOW}${totals.join('')}
  from counter_value
 where counter_id = ${id} and slot <> ${integer(slot ?? 0)}${slot === undefined ? ' for update' : ''}`
}

/** The statements that write counters on the locked path. */
export function writeCounters(counters: readonly CounterWrite[], at: Date): string[] {
  const changed: CounterWrite[] = []
  const statements: string[] = []
  let deletedRevision = 0
  for (const write of counters) {
    const { work, before, after } = write
    if (before.isLost && !after.isDeleted) statements.push(restore(work.row, before))
    if (after.newSalt !== undefined) statements.push(...forgetSubjects(work.row, after.newSalt, at))
    if (after.isDeleted) {
      assertInvariant(before.revision !== undefined, 'the revision of a locked counter was read')
      deletedRevision = Math.max(deletedRevision, before.revision)
      statements.push(...remove(work.row))
      continue
    }
    if (after.isDefined) statements.push(...redefine(work.row, after.definition, at))
    // With a definition, only that of a new counter, which has one slot.
    if (after.counted === 0 && !changesHolds(write)) {
      // Its new bounds may take the room of holds that have expired: no clock may open those again.
      if (before.held?.isSettled)
        statements.push(
          `update counter_value
   set ${heldAssignments(write)}value = value
 where counter_id = ${integer(work.row.id)} and slot = 0`,
        )
      continue
    }
    if (work.row.definition.slots > 1) statements.push(...writeSlots(write, at))
    else changed.push(write)
  }
  statements.push(...writeValues(changed, at))
  if (deletedRevision > 0) statements.push(raiseMark(integer(deletedRevision + 1)))
  return statements
}

/** Restores the rows of a counter, before its value is set.  */
function restore({ id, version, definition }: CounterRow, { revision = 0 }: CounterReading): string {
  const slots = Array.from({ length: definition.slots }, (_, slot) => slot)
  const rowOf = (slot: number) => [id, slot, version, 0, slot === 0 ? revision : 0].map(integer).join(', ')
  return `insert into counter_value (counter_id, slot, version, value, revision)
values ${list(slots, (slot) => `(${rowOf(slot)})`)}
on duplicate key update version = values(version), value = values(value), revision = values(revision)`
}

function writeSlots(write: CounterWrite, at: Date): string[] {
  const { work, before, after } = write
  const slot = slotOf(work)
  const columns = writingColumns(partsOf(write))
  const noted = { at, raise: after.raised }
  if (slot !== undefined)
    return [change([work], `${columns}value = value + ${integer(after.value - before.value)}`, noted, slot)]
  return [
    `update counter_value set value = 0 where counter_id = ${integer(work.row.id)} and slot > 0`,
    change([work], `${columns}value = ${integer(after.value)}`, noted),
  ]
}

/** Changes locked rows, with one statement for all that are changed alike. */
function writeValues(changed: readonly CounterWrite[], at: Date): string[] {
  const isSame = changed.every(({ after }) => after.value === changed[0]?.after.value)
  const assignments = (write: CounterWrite) => {
    const [value, delta] = [write.after.value, write.after.value - write.before.value]
    const isSet = isSame || !Number.isSafeInteger(delta)
    return `${heldAssignments(write)}${writingColumns(partsOf(write))}value = ${isSet ? integer(value) : `value + ${integer(delta)}`}`
  }
  const isCounted = ({ after }: CounterWrite) => after.counted > 0
  const groups = groupBy(
    changed,
    (write) => `${write.after.raised} ${isCounted(write)} ${assignments(write)}`,
  )
  return [...groups.values()].map((group) => {
    const [first] = group
    const works = group.map(({ work }) => work)
    // A hold that counts nothing does not change when the value was last changed.
    return change(works, assignments(first), {
      at: isCounted(first) ? at : undefined,
      raise: first.after.raised,
    })
  })
}
