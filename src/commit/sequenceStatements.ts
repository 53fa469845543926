import { firstRow, rowsOf } from '../mysql/session.ts'
import { bytes, groupBy, hex, instant, integer, list, orNull } from '../mysql/sql.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import type { SequenceGroupReading, StoredReservation } from '../rules/sequence.ts'
import type { Position } from '../rules/sequenceDefinition.ts'
import type { SequenceGroupWrite, SequenceGroupWork as Work } from './batch.ts'
import {
  codeOf,
  inOrder,
  lockConfirmed,
  lockReservations,
  lockReserved,
  OPEN,
  type ReservationRow,
  readFree,
  reservationIn,
  storePositions,
} from './reservations.ts'
import { byId, eachOf, type FlushText, idsOf, type Reader } from './statements.ts'
import { NUMBERS } from './subjectStatements.ts'

/**
 * Locks sequence groups, which are in lock order, and reads their state. Locks in this order: their sequences, shared, so
 * that the definitions don't change; the rows of gapless sequence groups, as their reservations of past periods may be
 * closed as well; and the rows of the current periods. Rows of one kind are locked in one order.
 */
export function lockSequenceGroups(
  works: readonly Work[],
  text: FlushText,
): Reader<readonly (readonly [Work, SequenceGroupReading])[]> {
  const opened = text.isGalera ? works.filter((work) => !isOpen(work)) : []
  // On a cluster a shared lock only holds on one node. So a change of the definition also writes the rows in which numbers
  // are issued; where this process has not used such a row yet, this update makes the two conflict.
  if (opened.length > 0)
    text.add(
      `update sequence force index (primary)
   set uses = uses + 1
 where id in (${sequenceIdsOf(opened)})`,
    )
  const sequencesAt = text.add(
    `select id, version, definitions
  from sequence force index (primary)
 where id in (${sequenceIdsOf(works)})
 order by id
  lock in share mode`,
  )
  const gapless = works.filter(({ row }) => row.definition.gapless)
  if (gapless.length > 0) text.add(lockGroups(gapless))
  const periods = groupBy(works, ({ periodKey }) => periodKey)
  const positionsAt = [...periods].map(([periodKey, group]) => {
    if (!group.every(isOpen)) text.add(createPositions(idsOf(group), periodKey))
    return text.add(lockPositionsOf(idsOf(group), periodKey))
  })
  // So that no lock wait comes after COMMIT is sent.
  const revisionsAt = text.add(lockGroups(works))
  const readReserved = new Map(gapless.map((work) => [work, readReservations(work, text)]))
  const readSubjects = NUMBERS.lock(works, text)
  return (answers) => {
    const sequences = byId<Record<'id' | 'version' | 'definitions', number>>(answers[sequencesAt])
    const rows = positionsAt.flatMap((index) => rowsOf<PositionRow>(answers[index]))
    const positions = new Map(rows.map((row) => [`${row.id} ${row.period}`, row]))
    const revisions = byId<RevisionRow>(answers[revisionsAt])
    const subjectsOf = readSubjects?.(answers)
    return works.flatMap((work) => {
      const { row, periodKey } = work
      const sequence = sequences.get(row.sequenceId)
      const position = positions.get(`${row.id} ${periodKey}`)
      if (sequence?.version !== row.version || position?.identity !== row.identity) return []
      const { last, next, generation } = position
      const revised = revisions.get(row.id)
      const isWanted = revised && work.wantsRevision
      // The number of its sequence's definitions is part of the revision.
      const revision = isWanted ? Number(revised.revision) + sequence.definitions : undefined
      const subjects = subjectsOf?.(work)
      const isEmpty = last === null && next === null
      const isLost = revised?.latest === periodKey && isEmpty
      const isNew = revised?.latest === null && isEmpty
      const reserved = readReserved.get(work)?.(answers) ?? NO_RESERVATIONS
      return [[work, { last, next, generation, isLost, isNew, subjects, revision, ...reserved }] as const]
    })
  }
}

/** Whether this process has issued numbers in the current period of a sequence group. */
function isOpen({ row, periodKey }: Work): boolean {
  return row.issuedIn === periodKey
}

type PositionRow = Position & Record<'id' | 'period' | 'identity' | 'generation', number>

/**
 * Creates missing rows of one period for sequence groups. The insert also locks the existing ones, so that the lock order
 * is always the same.
 */
function createPositions(groupIds: string, periodKey: number): string {
  return `insert into sequence_value (group_id, period_key, identity)
select id, ${integer(periodKey)}, identity
  from sequence_group force index (primary)
 where id in (${groupIds})
 order by id
    on duplicate key update definitions = sequence_value.definitions`
}

/** Locks and reads the rows of one period. */
function lockPositionsOf(groupIds: string, periodKey: number): string {
  return `select group_id as id, period_key as period, identity, value as last, next_value as next, generation
  from sequence_value force index (primary)
 where group_id in (${groupIds}) and period_key = ${integer(periodKey)}
 order by group_id
   for update`
}

const NO_RESERVATIONS = { now: 0, free: [], reservations: [], confirmed: null, isReserved: false }

function readReservations(
  work: Work,
  text: FlushText,
): Reader<Pick<SequenceGroupReading, keyof typeof NO_RESERVATIONS>> {
  const { row, operations, periodKey } = work
  const count = operations.filter(({ kind }) => kind === 'reserve').length
  const tokens = operations.flatMap((each) =>
    each.kind === 'confirm' || each.kind === 'release' ? [each.token] : [],
  )
  const place = { periodKey, ...row }
  const clockAt = text.add('select utc_timestamp(3) as now')
  const isRestarted = operations.some(({ kind }) => kind === 'restart')
  const confirmedAt = isRestarted ? text.add(lockConfirmed(place)) : -1
  const isRaised = operations.some(({ kind }) => kind === 'raise')
  const reservedAt = isRaised ? text.add(lockReserved(place)) : -1
  const free = count > 0 ? readFree(place, count) : []
  const freeAt = free.map((statement) => text.add(statement))
  const tokensAt = tokens.length > 0 ? text.add(lockReservations(tokens)) : -1
  return (answers) => {
    const numbers = freeAt.flatMap((index) => rowsOf<{ value: number }>(answers[index]))
    return {
      now: firstRow<{ now: Date }>(answers[clockAt])?.now.getTime() ?? 0,
      free: inOrder(
        numbers.map(({ value }) => value),
        row.definition,
      ),
      // One may be of a deleted sequence that had the same name.
      reservations: rowsOf<ReservationRow>(answers[tokensAt])
        .filter(({ group_id }) => group_id === row.id)
        .map(reservationIn),
      confirmed: firstRow<{ value: number | null }>(answers[confirmedAt])?.value ?? null,
      isReserved: rowsOf(answers[reservedAt]).length > 0,
    }
  }
}

/** `latest`: read where a period may be missing. */
type RevisionRow = { id: number; revision: string | number; latest?: number | null }

function lockGroups(works: readonly Work[]): string {
  const latest = works.every(isOpen) ? '' : `, ${LATEST} as latest`
  return `select id, revision${latest}
  from sequence_group force index (primary)
 where id in (${idsOf(works)})
 order by id
   for update`
}

function sequenceIdsOf(works: readonly Work[]): string {
  return list([...new Set(works.map(({ row }) => row.sequenceId))], integer)
}

/** The statements that write sequence groups, which are in lock order. */
export function writeSequenceGroups(written: readonly SequenceGroupWrite[], at: Date): string[] {
  const moved = written.flatMap(({ work, after: { position: current, changes } }) => {
    const { last, next, generation } = current
    const { isMoved, isIssued, isRaised } = changes
    const updatedAt = isIssued || isRaised ? at : null
    const position = { last, next, generation, createdAt: at, updatedAt }
    return isMoved ? [{ groupId: work.row.id, period: work.periodKey, ...position }] : []
  })
  const raised = written.map(({ work: { row, periodKey }, after: { changes } }) => {
    const { raised, isIssued, isRaised } = changes
    return { row, raise: raised, latest: isIssued || isRaised ? integer(periodKey) : LATEST }
  })
  return [
    ...(moved.length > 0 ? [storePositions(moved)] : []),
    raiseRevisions(raised),
    ...written.flatMap((each) => {
      const { work, after } = each
      const isNoted = !after.changes.isIssued || isOpen(work)
      return [...(isNoted ? [] : [noteDefinition(each)]), ...writeReservations(each)]
    }),
    ...NUMBERS.write(written, at),
  ]
}

const LATEST = 'latest_period_key'

/**
 * After their numbers of the current period are locked or changed. `latest`: the period of the number that was issued last,
 * also if the clock of its process is behind or ahead.
 */
function raiseRevisions(raised: readonly { row: SequenceGroupRow; raise: number; latest: string }[]): string {
  return `update sequence_group force index (primary)
   set revision = revision + ${eachOf(raised, 'id', ({ raise }) => integer(raise))},
       ${LATEST} = ${eachOf(raised, 'id', ({ latest }) => latest)},
       is_used = true
 where id in (${idsOf(raised)})`
}

/** Notes with what definition the numbers of a period are issued, which this process has not noted yet. */
function noteDefinition({ work: { row }, after: { definition } }: SequenceGroupWrite): string {
  return `update sequence_group
   set version = ${integer(row.version)},
       format = ${orNull(definition.format, bytes)},
       time_zone = ${bytes(definition.timeZone)}
 where id = ${integer(row.id)}`
}

function writeReservations({ work: { row, periodKey }, after: { changes } }: SequenceGroupWrite): string[] {
  return [
    // Marks free numbers as reissued: their previous holders have lost them.
    ...[...groupBy(changes.taken, ({ generation }) => generation)].map(
      ([generation, taken]) => `update reservation force index (reservation_held)
   set closed_at = utc_timestamp(3),
       is_free = false,
       state = if(state = ${OPEN}, ${codeOf('EXPIRED')}, state)
 where group_id = ${integer(row.id)} and period_key = ${integer(periodKey)} and generation = ${integer(generation)}
   and state in (${OPEN}, ${codeOf('RELEASED')}) and (is_free or state = ${OPEN})
   and value in (${list(taken, ({ value }) => integer(value))})`,
    ),
    ...(changes.reservations.size > 0 ? [storeReservations(row.id, [...changes.reservations])] : []),
  ]
}

/** Writes reservations: new ones, which may already be closed again, and the final state of others. */
function storeReservations(groupId: number, stored: readonly StoredReservation[]): string {
  const values = list(stored, (reservation) => {
    const { token, periodKey, generation, value, formatted, state, isFree, expiresAt } = reservation
    const closedAt = state === 'RESERVED' ? 'null' : 'utc_timestamp(3)'
    const number = `${integer(periodKey)}, ${integer(generation)}, ${integer(value)}, ${bytes(formatted)}`
    return `(${hex(token)}, ${integer(groupId)}, ${number}, ${codeOf(state)}, ${isFree}, ${instant(expiresAt)}, ${closedAt})`
  })
  return `insert into reservation
  (token, group_id, period_key, generation, value, formatted, state, is_free, expires_at, closed_at)
values ${values}
on duplicate key update
       state = values(state),
       is_free = values(is_free),
       closed_at = values(closed_at)`
}
