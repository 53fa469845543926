import { storePositions } from '../commit/reservations.ts'
import { createPositions, lockPositionsOf, type PositionRow } from '../commit/sequenceStatements.ts'
import { bytes, groupBy, hex, instant, integer, list, orNull, select } from '../mysql/sql.ts'
import type { Connection } from '../mysql/transactions.ts'
import {
  findOrCreateSequence,
  lockSequences,
  pastFormatsSet,
  type StoredSequence,
  sequenceId,
  storeSequence,
  UNUSED,
  useOf,
} from '../repository/sequenceDefinition.ts'
import { createSequenceGroups, readSequenceGroups } from '../repository/sequences.ts'
import { isPeriodKey } from '../rules/calendar.ts'
import { keyText } from '../rules/counter.ts'
import type { EntryOf, GroupPeriod, LatestNumbers } from '../rules/entries.ts'
import {
  type ImportedSequence,
  type Merge,
  mergePosition,
  mergeSequence,
  newSalt,
  OTHER_SALT,
  type PresentPosition,
  type Result,
  refused,
} from '../rules/merge.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import { type SequenceGroupKey, sequenceGroupKeyText } from '../rules/sequence.ts'
import type { SequenceDefinition } from '../rules/sequenceDefinition.ts'
import { ChangedMeanwhileError, hasRows, type ImportContext } from './importContext.ts'

/** Merges sequences into present ones, under an exclusive lock as `defineSequence` does: no flush issues numbers. */
export async function importSequences(
  context: ImportContext,
  entries: readonly EntryOf<'sequence'>[],
): Promise<Result[]> {
  const { connection } = context
  const ids = new Map<string, number>()
  for (const entry of entries) {
    const id = await sequenceId(connection, entry)
    if (id !== undefined) ids.set(keyText(entry), id)
  }
  const rows = await lockSequences(connection, [...ids.values()], 'for update')
  if (rows.size < ids.size) throw new ChangedMeanwhileError()
  const results: Result[] = []
  for (const entry of entries) {
    const id = ids.get(keyText(entry))
    const row = id === undefined ? undefined : rows.get(id)
    const subjects = `sequence_group g force index (sequence_group_name)
       join sequence_subject u force index (primary) on u.group_id = g.id
      where g.sequence_id = ${id}`
    if (row && newSalt(row, entry) && (await hasRows(connection, subjects))) {
      results.push(refused(OTHER_SALT))
      continue
    }
    const present = row ? { ...row, ...(await useOf(connection, row.id, row.version)) } : UNUSED
    const exists = (row?.isDefined ?? false) || present.used.isNamed || present.used.isUnnamed
    const { written, ...result } = mergeSequence({ ...present, exists }, entry, context)
    if (written) await writeSequence(connection, entry, { id, exists }, written)
    results.push(result)
  }
  return results
}

/** `present`: its id is undefined if it has no row. */
async function writeSequence(
  connection: Connection,
  entry: EntryOf<'sequence'>,
  present: { id: number | undefined; exists: boolean },
  written: ImportedSequence,
): Promise<void> {
  const { exists, id = await findOrCreateSequence(connection, entry, entry.createdAt) } = present
  if (!written.definition) {
    await connection.query(`update sequence set ${pastFormatsSet(written)} where id = ${integer(id)}`)
    return
  }
  // A new one gets a version above its first one, so that groups can have an earlier one.
  const others = `is_defined = ${entry.isDefined || exists},
            subject_salt = ${written.salt ? hex(written.salt) : 'subject_salt'},
            created_at = ${exists ? 'created_at' : instant(entry.createdAt)}`
  await storeSequence(connection, id, written, others)
}

/** A locked sequence group, and its sequence. */
export interface LockedGroup extends SequenceGroupRow {
  sequence: StoredSequence
  /** Otherwise it doesn't exist for readers. */
  isUsed: boolean
  latestPeriod: number | null
}

/**
 * Sequence groups and their sequences, by their entries. Locks the sequences, shared, so that their definitions don't
 * change; then the rows of gapless groups, as flushes do. Creates what is missing: sequences with the defaults, as their
 * first use does.
 */
export async function lockGroups(
  { connection, now }: ImportContext,
  entries: readonly SequenceGroupKey[],
): Promise<(entry: SequenceGroupKey) => LockedGroup> {
  const keys = [...new Map(entries.map((entry) => [sequenceGroupKeyText(entry), entry])).values()]
  let rows = await readSequenceGroups(connection, keys)
  const missing = keys.filter((key) => !rows.has(sequenceGroupKeyText(key)))
  if (missing.length > 0) {
    await createSequenceGroups(connection, missing, now)
    rows = await readSequenceGroups(connection, keys)
  }
  const groups = [...rows.values()]
  const sequenceIds = [...new Set(groups.map(({ sequenceId }) => sequenceId))]
  const sequences = await lockSequences(connection, sequenceIds, 'lock in share mode')
  const isGapless = ({ sequenceId }: SequenceGroupRow) =>
    sequences.get(sequenceId)?.definition.gapless === true
  const [gapless, others] = [groups.filter(isGapless), groups.filter((row) => !isGapless(row))]
  const locked = await readUses(connection, gapless, 'for update')
  const uses = new Map([...locked, ...(await readUses(connection, others, ''))])
  return (entry) => {
    const row = rows.get(sequenceGroupKeyText(entry))
    const sequence = row && sequences.get(row.sequenceId)
    const use = row && uses.get(row.id)
    if (!sequence || !use) throw new ChangedMeanwhileError()
    return { ...row, sequence, ...use }
  }
}

/** Whether sequence groups are used, and their latest periods, by their ids. */
async function readUses(connection: Connection, groups: readonly SequenceGroupRow[], lock: string) {
  if (groups.length === 0) return []
  const rows = await select<Record<'id' | 'is_used', number> & { latest_period_key: number | null }>(
    connection,
    `select id, is_used, latest_period_key
       from sequence_group force index (primary)
      where id in (${list(groups, ({ id }) => integer(id))})
      order by id ${lock}`,
  )
  return rows.map((row) => {
    return [row.id, { isUsed: row.is_used === 1, latestPeriod: row.latest_period_key }] as const
  })
}

type GroupEntry = EntryOf<'sequenceGroup'> | EntryOf<'sequenceGroupPeriods'>

/** What is written of a sequence group. */
interface MergedGroup {
  entry: GroupEntry
  group: LockedGroup
  positions: readonly { period: GroupPeriod; merge: Merge<PresentPosition> }[]
}

/**
 * Merges sequence groups into present ones. Locks in the order of the flushes: the sequences, shared; gapless groups;
 * the rows of the periods; the groups.
 */
export async function importGroups(
  context: ImportContext,
  entries: readonly GroupEntry[],
): Promise<Result[]> {
  const groupOf = await lockGroups(context, entries)
  const present = await lockPositions(context.connection, entries, groupOf)
  const merged: MergedGroup[] = []
  const results = entries.map((entry): Result => {
    const group = groupOf(entry)
    const { definition } = group.sequence
    const foreign = foreignPeriod(entry, definition)
    if (foreign) return foreign
    const positions = entry.periods.map((period) => {
      const merge = mergePosition(definition, present.get(`${group.id} ${period.period}`), period, context)
      return { period, merge }
    })
    merged.push({ entry, group, positions })
    return resultOf(group, positions)
  })
  await writeGroups(context, merged)
  return results
}

/** Numbers of a CSV whose period the sequence doesn't have would have no effect: it has another definition there. */
function foreignPeriod(entry: GroupEntry, { restartEvery }: SequenceDefinition): Result | undefined {
  if (entry.type !== 'sequenceGroup' || !entry.latest || entry.latest.timeZone !== undefined) return undefined
  if (isPeriodKey(entry.latest.period, restartEvery)) return undefined
  const periods = restartEvery === null ? 'does not restart' : `restarts every ${restartEvery.toLowerCase()}`
  return refused(
    `its period is ${entry.latest.period}, and its sequence ${periods} here; define it first as it was, or import JSON Lines`,
  )
}

/** The outcomes in the order in which they need attention. */
const ATTENTION = ['refused', 'lowered', 'raised', 'created', 'kept', 'unchanged'] as const

/** The result for all periods: the one that needs most attention. */
function resultOf({ isUsed }: LockedGroup, positions: MergedGroup['positions']): Result {
  if (!isUsed) return { outcome: 'created' }
  for (const outcome of ATTENTION) {
    const merge = positions.find(({ merge }) => merge.outcome === outcome)?.merge
    // A period of its own is no group of its own.
    if (merge) return { outcome: outcome === 'created' ? 'raised' : outcome, note: merge.note }
  }
  return { outcome: 'unchanged' }
}

/**
 * Locks and reads the rows of the periods that entries have, by group id and period. Creates missing rows: a row that does
 * not exist can't be locked, and a flush could create it.
 */
export async function lockPositions<E extends { periods: readonly { period: number }[] }>(
  connection: Connection,
  entries: readonly E[],
  groupOf: (entry: E) => LockedGroup,
): Promise<Map<string, PresentPosition>> {
  const places = entries.flatMap((entry) =>
    entry.periods.map(({ period }) => ({ id: groupOf(entry).id, period })),
  )
  const positions = new Map<string, PresentPosition>()
  for (const [period, siblings] of [...groupBy(places, ({ period }) => period)].sort(([a], [b]) => a - b)) {
    const ids = list(siblings, ({ id }) => integer(id))
    await connection.query(createPositions(ids, period))
    const rows = await select<PositionRow>(connection, lockPositionsOf(ids, period))
    for (const row of rows) positions.set(`${row.id} ${period}`, row)
  }
  return positions
}

/** Writes sequence groups: the positions that change, whose rows are locked, and what belongs to their latest numbers. */
async function writeGroups(
  { connection, now }: ImportContext,
  merged: readonly MergedGroup[],
): Promise<void> {
  const positions = merged.flatMap(({ group, positions }) =>
    positions.flatMap(({ period: { period, createdAt = now, updatedAt = now }, merge: { written } }) =>
      written ? { groupId: group.id, period, ...written, createdAt, updatedAt } : [],
    ),
  )
  if (positions.length > 0) await connection.query(storePositions(positions))
  for (const { entry, group, positions } of merged.toSorted((a, b) => a.group.id - b.group.id)) {
    const taken = positions.filter(({ merge }) => merge.written).map(({ period }) => period.period)
    const latest = latestOf(entry, group, taken)
    if (group.isUsed && taken.length === 0 && !latest) continue
    await connection.query(
      `update sequence_group
   set revision = revision + 1,
       is_used = true${latest ? `,\n       ${latestSet(group.sequence, latest)}` : ''}
 where id = ${integer(group.id)}`,
    )
  }
}

/** The latest numbers of the file, if they become those of the group. */
function latestOf(entry: GroupEntry, { latestPeriod }: LockedGroup, taken: readonly number[]) {
  if (entry.type !== 'sequenceGroup' || !entry.latest) return undefined
  const { latest } = entry
  const isLater = latestPeriod === null || (taken.includes(latest.period) && latest.period >= latestPeriod)
  return isLater ? latest : undefined
}

/** `version` is that of the sequence if it has not been redefined since these numbers, or else an earlier one. */
function latestSet({ definition, version }: StoredSequence, latest: LatestNumbers): string {
  const { format = definition.format, timeZone = definition.timeZone } = latest
  const isCurrent = latest.isCurrent && format === definition.format && timeZone === definition.timeZone
  return `latest_period_key = ${integer(latest.period)},
       version = ${integer(isCurrent ? version : version - 1)},
       format = ${orNull(format, bytes)},
       time_zone = ${bytes(timeZone)}`
}
