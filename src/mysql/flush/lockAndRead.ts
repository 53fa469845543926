import type { CounterFound } from '../../core/groupCommit/counterRun.ts'
import type { Flush } from '../../core/groupCommit/writer.ts'
import { lockDefinition } from '../counters/define.ts'
import { historySteps } from '../counters/historyRows.ts'
import { areRoomy, areRunning, periodColumns } from '../counters/periods.ts'
import { slotSteps } from '../counters/slots.ts'
import { add, addReturningOld, lock, read } from '../counters/update.ts'
import { groupBy } from '../groupBy.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { mayAdvance } from '../sequences/advance.ts'
import { lockSequenceGroups } from '../sequences/lockAndRead.ts'
import { claim, earlierIn, inOrder, readResults } from './idempotencyKeys.ts'
import { type CounterMember, counterFound, hasSlots, type Members, type ValueRow } from './members.ts'
import { type FlushForm, ownerOf, type Step, select, together } from './steps.ts'

/**
 * Maximum counters for which one statement each is faster than locking all, then changing all. Measured on MariaDB
 * 10.11, median time of the round trip with one, two, three and eight: 0.31, 0.40, 0.48 and 0.91 ms; locked first, 0.41,
 * 0.45, 0.45 and 0.54 ms.
 */
const NARROW = 2

/**
 * The statements of a flush's first round trip. Every process touches keys and rows in this one order, so that flushes
 * don't deadlock. After COMMIT is sent, an error would leave the outcome unknown.
 */
export function lockAndRead(members: Members, flush: Flush, form: FlushForm): Step[] {
  const { counters } = members
  const { at } = flush
  const [spread, single] = [counters.filter(hasSlots), counters.filter((member) => !hasSlots(member))]
  return [
    ...claimSteps(members, flush, form),
    ...(spread.length > 0 || isFirstRevisionWanted(members, form) ? clockSteps(members) : []),
    ...changeSteps(members, single, at, form),
    ...readAfterSteps(members, single),
    ...spread.flatMap((member) => slotSteps(members, member)),
    ...lockSequenceGroups(members, at, form),
    ...counters
      .filter(({ run }) => run.isForDefinition)
      .flatMap(({ row }) => lockDefinition(row).flatMap((statement) => select(statement, row.key))),
  ]
}

/**
 * The statements of a round trip that only some flushes need. Locks rows whose value the answer did not show, or that
 * did not have the running periods, and reads them with the history of these periods.
 *
 * A statement that matched nothing holds no lock, so here rows are locked after later ones. When a period begins, two
 * processes may therefore deadlock, rarely: one of them is rolled back, and tries again.
 */
export function readAgain(members: Members, unclear: readonly CounterMember[], form: FlushForm): Step[] {
  return [
    ...clockSteps(members),
    ...together(unclear, form).flatMap((some) => [
      ...lockSteps(some, (member, row) => {
        member.found = row && counterFound(members, member, row)
      }),
      ...historySteps(some),
    ]),
  ]
}

function claimSteps(members: Members, { claims, at }: Flush, form: FlushForm): Step[] {
  if (claims.length === 0) return []
  return [
    ...together(inOrder(claims), form).map(
      (some): Step => ({
        statement: claim(some, at),
        owner: some.length === 1 ? some[0]?.key : undefined,
        readResult({ affectedRows }) {
          members.claimed += affectedRows
        },
      }),
    ),
    ...select(readResults(claims), undefined, (rows) => {
      members.earlier.push(...earlierIn(rows))
    }),
  ]
}

/** Whether initial revisions are wanted of rows that only the second round trip writes. */
function isFirstRevisionWanted({ counters, sequenceGroups }: Members, form: FlushForm): boolean {
  return (
    counters.some(({ run }) => run.withRevision && run.addition === undefined) ||
    sequenceGroups.some((member) => member.run.withRevision && !mayAdvance(member, form))
  )
}

/** Reads the database's clock: also as the initial revision of rows, as results need it before they are written. */
function clockSteps(members: Members): Step[] {
  const statement = `select unix_timestamp() as now, ${REVISION_OF_NOW} as first`
  return select<Record<'now' | 'first', number>>(statement, undefined, ([row]) => {
    members.first ??= row?.first
    if (row) members.now = 1000 * row.now
  })
}

/** Reads rows after their additions, where their revisions or the totals of their periods are wanted. */
function readAfterSteps(members: Members, counters: readonly CounterMember[]): Step[] {
  const wanted = counters.filter(
    ({ run }) => run.addition !== undefined && (run.withRevision || run.wantsPeriodValues),
  )
  if (wanted.length === 0) return []
  const statement = read(idsOf(wanted), columnsOf(wanted))
  return select<LockedRow>(statement, ownerOf(wanted), (rows) => {
    const found = new Map(rows.map((row) => [row.id, row]))
    for (const member of wanted) {
      const row = found.get(member.row.id)
      if (row && member.isAdded && member.found) member.found = counterFound(members, member, row)
    }
  })
}

function changeSteps(members: Members, counters: CounterMember[], at: Date, form: FlushForm): Step[] {
  if (counters.length > NARROW && !form.onePerStatement) return lockAndAdd(members, counters, at)
  return counters.flatMap((member): Step | Step[] => {
    const { run, row } = member
    if (run.addition === undefined || form.isTriggered) return lockAndAdd(members, [member], at)
    return {
      statement: addReturningOld(row, run, run.addition, at),
      owner: row.key,
      readResult({ affectedRows, insertId }) {
        member.isAdded = affectedRows === 1
        member.isUnclear = !member.isAdded || insertId === 0
        if (!member.isUnclear) member.found = added(Number(insertId))
      },
    }
  })
}

/** Locks rows, and makes the additions to those that have one: with one statement for all that are alike. */
function lockAndAdd(members: Members, counters: CounterMember[], at: Date): Step[] {
  const locked = lockSteps(counters, (member, row) => {
    const { run } = member
    const found = row && counterFound(members, member, row)
    member.found = found
    if (!found?.periods) return
    const isAddition = run.addition !== undefined
    member.isUnclear = !(isAddition ? areRoomy(found.periods) : areRunning(found.periods))
    member.isAdded = isAddition && !member.isUnclear
    if (member.isAdded) member.found = added(found.value)
  })
  const adding = counters.filter(({ run }) => run.addition !== undefined)
  // Counters with the same running periods have the same array.
  const alike = [...groupBy(adding, ({ run }) => run.running).values()].flatMap((group) => [
    ...groupBy(group, ({ run }) => `${run.addition} ${run.raise}`).values(),
  ])
  const additions = alike.map((group): Step => {
    const [{ run }] = group
    return { statement: add(idsOf(group), run, run.addition ?? 0, at), owner: ownerOf(counters) }
  })
  return [...locked, ...additions]
}

type LockedRow = ValueRow & Record<'id' | 'version', number>

/** Locks rows, and reads them: undefined if they don't exist. */
function lockSteps(
  counters: readonly CounterMember[],
  readRow: (member: CounterMember, row: LockedRow | undefined) => void,
): Step[] {
  return select<LockedRow>(lock(idsOf(counters), columnsOf(counters)), ownerOf(counters), (rows) => {
    const found = new Map(rows.map((row) => [row.id, row]))
    for (const member of counters) {
      const row = found.get(member.row.id)
      readRow(member, row?.version === member.row.version ? row : undefined)
    }
  })
}

function columnsOf(counters: readonly CounterMember[]): string[] {
  return periodColumns(counters.map(({ run }) => run))
}

function idsOf(counters: readonly CounterMember[]): number[] {
  return counters.map(({ row }) => row.id)
}

/** A counter to which its addition was made, with the value before. */
function added(value: number): CounterFound {
  return { value, revision: undefined, isAdded: true, periods: undefined, now: 0 }
}
