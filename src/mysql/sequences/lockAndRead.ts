import { EMPTY_POSITION } from '../../core/groupCommit/sequenceRun.ts'
import type { Position } from '../../core/sequences/blocks.ts'
import type { Members, SequenceGroupMember } from '../flush/members.ts'
import { type FlushForm, ownerOf, type Step, select, together } from '../flush/steps.ts'
import { groupBy } from '../groupBy.ts'
import { integer, list } from '../literals.ts'
import { advanceSteps, mayAdvance } from './advance.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow } from './columns.ts'
import { isRenewed } from './record.ts'
import { inOrder, type ReservationRow, readFree, readTokens, reservationIn } from './reservations.ts'
import { lockRevisions } from './revisions.ts'

/** Maximum sequence groups for which one statement each is faster than locking all, then changing all. */
const NARROW = 8

/**
 * Locks sequence groups and reads their state. Locks in this order: their sequences, shared, so that the definitions
 * don't change; the rows of gapless sequence groups, as their reservations of past periods may be closed as well; and
 * the rows of the current periods. Rows of one kind are locked in one order.
 */
export function lockSequenceGroups(members: Members, at: Date, form: FlushForm): Step[] {
  const { sequenceGroups } = members
  if (sequenceGroups.length === 0) return []
  const gapless = sequenceGroups
    .filter(({ row }) => row.definition.gapless)
    .toSorted((a, b) => a.row.id - b.row.id)
  const opened = form.isGalera ? sequenceGroups.filter((member) => !isOpen(member)) : []
  return [
    ...together(opened, form).map((some) => ({ statement: noteUse(some), owner: sequenceKeyOf(some) })),
    ...together(sequenceGroups, form).flatMap(definitionSteps),
    ...(sequenceGroups.length <= NARROW && sequenceGroups.every((member) => mayAdvance(member, form))
      ? advanceSteps(sequenceGroups, at, form)
      : [
          ...together(gapless, form).flatMap(gaplessSteps),
          ...together(sequenceGroups, form).flatMap(positionSteps),
          ...together(sequenceGroups, form).flatMap((some) => lockRevisions(members, some)),
          ...gapless.flatMap(reservationSteps),
        ]),
  ]
}

/** The key of their sequence, if there is only one. */
function sequenceKeyOf(sequenceGroups: readonly SequenceGroupMember[]): string | undefined {
  const keys = new Set(sequenceGroups.map(({ row }) => row.sequenceKey))
  return keys.size === 1 ? [...keys][0] : undefined
}

/** Whether this process has issued numbers in the current period of a sequence group. */
function isOpen({ row, run }: SequenceGroupMember): boolean {
  return row.issuedIn?.periodKey === run.periodKey
}

/**
 * On a cluster a shared lock only holds on one node. So a change of the definition also writes the rows in which
 * numbers are issued; where this process has not used such a row yet, this update makes the two conflict.
 */
function noteUse(some: readonly SequenceGroupMember[]): string {
  return `update sequence force index (primary)
   set uses = uses + 1
 where id in (${sequenceIdsOf(some)})`
}

type LockedSequence = SequenceDefinitionRow & Record<'id' | 'version' | 'definitions', number>

/**
 * Locks the sequences, and sets an empty position for each sequence group whose sequence exists; its own row is read
 * later. If the sequence was redefined in the meantime, its new definition is used, unless that needs other rows or
 * statements: so repeated redefinitions can't keep numbers from being issued.
 */
function definitionSteps(some: readonly SequenceGroupMember[]): Step[] {
  const statement = `select s.id, s.version, s.definitions, ${SEQUENCE_COLUMNS}
  from sequence s force index (primary)
 where s.id in (${sequenceIdsOf(some)})
 order by s.id
  lock in share mode`
  return select<LockedSequence>(statement, sequenceKeyOf(some), (rows) => {
    const sequences = new Map(rows.map((row) => [row.id, row]))
    for (const member of some) {
      const { run, row } = member
      const sequence = sequences.get(row.sequenceId)
      if (!sequence || (sequence.version !== row.version && !isRenewed(row, sequence))) continue
      member.found = { ...EMPTY_POSITION, revision: run.withRevision ? sequence.definitions : undefined }
    }
  })
}

function gaplessSteps(some: readonly SequenceGroupMember[]): Step[] {
  const statement = `select id
  from sequence_group force index (primary)
 where id in (${groupIdsOf(some)})
 order by id
   for update`
  return select(statement, ownerOf(some))
}

type PositionRow = Position & Record<'id' | 'identity' | 'generation', number>

/** Creates missing rows. The insert also locks the existing ones, so that the lock order is always the same. */
function positionSteps(some: readonly SequenceGroupMember[]): Step[] {
  const isCreating = some.some((member) => !isOpen(member))
  const owner = ownerOf(some)
  return [...groupBy(some, ({ run }) => run.periodKey)].flatMap(([periodKey, same]) => {
    const create = `insert into sequence_value (group_id, period_key, identity)
select id, ${integer(periodKey)}, identity
  from sequence_group force index (primary)
 where id in (${groupIdsOf(same)})
 order by id
    on duplicate key update definitions = sequence_value.definitions`
    const lock = `select group_id as id, identity, value as last, next_value as next, generation
  from sequence_value force index (primary)
 where group_id in (${groupIdsOf(same)}) and period_key = ${integer(periodKey)}
 order by group_id
   for update`
    const locked = select<PositionRow>(lock, owner, (rows) => {
      const positions = new Map(rows.map((row) => [row.id, row]))
      for (const member of same) {
        const { row, found } = member
        const { identity, last = null, next = null, generation = 0 } = positions.get(row.id) ?? {}
        member.found = found && identity === row.identity ? { ...found, last, next, generation } : undefined
      }
    })
    return isCreating ? [{ statement: create, owner }, ...locked] : locked
  })
}

function reservationSteps(member: SequenceGroupMember): Step[] {
  const { row, run } = member
  const { id, definition, key: owner } = row
  const free =
    run.reservations > 0 ? readFree({ id, periodKey: run.periodKey, definition }, run.reservations) : []
  return [
    ...select<{ now: Date }>('select utc_timestamp(3) as now', owner, ([row]) => {
      if (member.found && row) member.found.now = row.now.getTime()
    }),
    ...free.flatMap((statement) =>
      select<{ value: number }>(statement, owner, (rows) => {
        const values = rows.map(({ value }) => value)
        if (member.found) member.found.free = inOrder([...member.found.free, ...values], definition)
      }),
    ),
    ...(run.tokens.length > 0
      ? select<ReservationRow>(readTokens(run.tokens), owner, (rows) => {
          if (member.found) member.found.reservations = rows.map(reservationIn)
        })
      : []),
  ]
}

function groupIdsOf(some: readonly SequenceGroupMember[]): string {
  return list(some, ({ row }) => integer(row.id))
}

function sequenceIdsOf(some: readonly SequenceGroupMember[]): string {
  return list([...new Set(some.map(({ row }) => row.sequenceId))], integer)
}
