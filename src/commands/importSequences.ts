import {
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
  sequenceDefinitionSet,
  storePositions,
} from '../commit/reservations.ts'
import type { Connection } from '../mysql/pool.ts'
import {
  bytes,
  firstVersion,
  groupBy,
  hex,
  instant,
  integer,
  list,
  orNull,
  REVISION_OF_NOW,
  raisedRevision,
  select,
} from '../mysql/sql.ts'
import {
  conflictOnCluster,
  findOrCreateSequence,
  sequenceId,
  UNUSED,
  useOf,
} from '../repository/sequenceDefinition.ts'
import { isPeriodKey } from '../rules/calendar.ts'
import { keyText } from '../rules/counter.ts'
import type { EntryOf, GroupPeriod, LatestNumbers } from '../rules/entries.ts'
import {
  mergePosition,
  mergeSequence,
  newSalt,
  OTHER_SALT,
  OUTCOMES,
  type PositionMerge,
  type PresentPosition,
  type Result,
  refused,
  type SequenceMerge,
} from '../rules/merge.ts'
import type { SequenceGroupKey, SequenceKey } from '../rules/sequence.ts'
import type { PastFormat, SequenceDefinition } from '../rules/sequenceDefinition.ts'
import { ChangedMeanwhileError, hasRows, type ImportContext } from './importContext.ts'

/** A locked sequence. */
interface PresentSequenceRow {
  id: number
  version: number
  salt: string | undefined
  isDefined: boolean
  definition: SequenceDefinition
  formatHistory: readonly PastFormat[]
}

const sequenceOf = ({ namespace, sequence: name }: SequenceGroupKey): SequenceKey => ({ namespace, name })

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
  const rows = await lockSequences(connection, ids, 'for update')
  const results: Result[] = []
  for (const entry of entries) {
    const row = rows.get(keyText(entry))
    const subjects = `sequence_group g force index (sequence_group_name)
       join sequence_subject u force index (primary) on u.group_id = g.id
      where g.sequence_id = ${row?.id}`
    if (row && newSalt(row, entry) && (await hasRows(connection, subjects))) {
      results.push(refused(OTHER_SALT))
      continue
    }
    const present = row ? { ...row, ...(await useOf(connection, row.id, row.version)) } : UNUSED
    const exists = (row?.isDefined ?? false) || present.used.isNamed || present.used.isUnnamed
    const { written, ...result } = mergeSequence({ ...present, exists }, entry, context)
    if (written) await writeSequence(context, { entry, id: row?.id, exists, ...written })
    results.push(result)
  }
  return results
}

/** What is written of a sequence. `id`: undefined if it has no row. */
interface MergedSequence extends NonNullable<SequenceMerge['written']> {
  entry: EntryOf<'sequence'>
  id: number | undefined
  exists: boolean
}

async function writeSequence(
  { connection }: ImportContext,
  { entry, id: present, exists, definition, salt, formatHistory }: MergedSequence,
): Promise<void> {
  const id = present ?? (await findOrCreateSequence(connection, entry, entry.createdAt))
  if (!definition) {
    await connection.query(
      `update sequence set format_history = ${bytes(JSON.stringify(formatHistory))} where id = ${integer(id)}`,
    )
    return
  }
  // A new one gets a version above its first one, so that groups can have an earlier one.
  await connection.query(
    `update sequence
   set ${sequenceDefinitionSet(definition, formatHistory)},
       is_defined = ${entry.isDefined || exists},
       subject_salt = ${salt ? hex(salt) : 'subject_salt'},
       definitions = definitions + 1,
       version = version + 1,
       created_at = ${exists ? 'created_at' : instant(entry.createdAt)}
 where id = ${integer(id)}`,
  )
  await conflictOnCluster(connection, id)
}

type PresentSequence = SequenceDefinitionRow &
  Record<'id' | 'version' | 'is_defined', number> &
  Record<'format_history' | 'subject_salt', Buffer | null>

/** Locks sequences, given and returned by the texts of their keys. */
async function lockSequences(
  connection: Connection,
  ids: ReadonlyMap<string, number>,
  lock: 'for update' | 'lock in share mode',
): Promise<Map<string, PresentSequenceRow>> {
  if (ids.size === 0) return new Map()
  const rows = await select<PresentSequence>(
    connection,
    `select s.id, s.version, s.is_defined, s.format_history, s.subject_salt, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id in (${list([...ids.values()], integer)})
      order by s.id ${lock}`,
  )
  const found = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    [...ids].map(([text, id]) => {
      const row = found.get(id)
      if (!row) throw new ChangedMeanwhileError()
      const { version, is_defined, format_history, subject_salt } = row
      const formatHistory = format_history ? JSON.parse(format_history.toString()) : []
      const [isDefined, salt] = [is_defined === 1, subject_salt?.toString('hex')]
      return [text, { id, version, salt, isDefined, definition: sequenceDefinitionIn(row), formatHistory }]
    }),
  )
}

/** A sequence group, and its sequence. */
export interface LockedGroup {
  sequence: PresentSequenceRow
  id: number
  identity: number
  /** Otherwise it doesn't exist for readers. */
  isUsed: boolean
  latestPeriod: number | null
}

/**
 * Sequence groups and their sequences, by their entries. Locks the sequences, shared, so that their definitions don't
 * change; then the rows of gapless groups, as flushes do. Creates what is missing: sequences with the defaults, as their
 * first use does.
 */
export async function lockGroups<E extends SequenceGroupKey>(
  { connection, now }: ImportContext,
  entries: readonly E[],
): Promise<(entry: E) => LockedGroup> {
  const siblingsOf = groupBy(entries, (entry) => keyText(sequenceOf(entry)))
  const ids = new Map<string, number>()
  for (const [text, [entry]] of siblingsOf)
    ids.set(text, await findOrCreateSequence(connection, sequenceOf(entry), now))
  const groups = new Map<E, LockedGroup>()
  for (const [text, sequence] of await lockSequences(connection, ids, 'lock in share mode')) {
    const siblings = siblingsOf.get(text) ?? []
    const names = siblings.map(({ group }) => group)
    let rows = await readGroups(connection, sequence, names)
    const missing = names.filter((name) => !rows.has(name))
    if (missing.length > 0) {
      const valuesOf = (name: string) =>
        `(${integer(sequence.id)}, ${bytes(name)}, ${firstVersion()}, ${REVISION_OF_NOW}, false)`
      await connection.query(
        `insert into sequence_group (sequence_id, name, identity, revision, is_used)
values ${list([...new Set(missing)], valuesOf)}`,
      )
      rows = await readGroups(connection, sequence, names)
    }
    for (const entry of siblings) {
      const row = rows.get(entry.group)
      if (row) groups.set(entry, { ...row, sequence })
    }
  }
  return (entry) => {
    const group = groups.get(entry)
    if (!group) throw new Error(`No sequence group ${JSON.stringify(entry.group)} after creating it`)
    return group
  }
}

async function readGroups(
  connection: Connection,
  { id, definition }: PresentSequenceRow,
  names: readonly string[],
) {
  const rows = await select<
    Record<'id' | 'identity' | 'is_used', number> & { name: Buffer; latest_period_key: number | null }
  >(
    connection,
    `select id, identity, is_used, name, latest_period_key
       from sequence_group force index (sequence_group_name)
      where sequence_id = ${integer(id)} and name in (${list(names, bytes)})
      order by id ${definition.gapless ? 'for update' : ''}`,
  )
  return new Map(
    rows.map(({ id, identity, is_used, name, latest_period_key: latestPeriod }) => [
      name.toString(),
      { id, identity, isUsed: is_used === 1, latestPeriod },
    ]),
  )
}

type GroupEntry = EntryOf<'sequenceGroup'> | EntryOf<'sequenceGroupPeriods'>

/** What is written of a sequence group. */
interface MergedGroup {
  entry: GroupEntry
  group: LockedGroup
  positions: readonly { period: GroupPeriod; merge: PositionMerge }[]
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

/** The order in which a result stands for several: the one that needs most attention. */
const ATTENTION = [...(['refused', 'lowered', 'raised', 'created', 'kept'] as const), ...OUTCOMES]

/** The result for all periods. */
function resultOf({ isUsed }: LockedGroup, positions: MergedGroup['positions']): Result {
  if (!isUsed) return { outcome: 'created' }
  const results = positions.map(({ merge: { outcome, note } }): Result => {
    // A period of its own is no group of its own.
    return { outcome: outcome === 'created' ? 'raised' : outcome, note }
  })
  const [first = { outcome: 'unchanged' }] = results.sort(
    (a, b) => ATTENTION.indexOf(a.outcome) - ATTENTION.indexOf(b.outcome),
  )
  return first
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
  const wanted = entries.flatMap((entry) =>
    entry.periods.map(({ period }) => ({ group: groupOf(entry), period })),
  )
  const positions = new Map<string, PresentPosition>()
  for (const [period, some] of [...groupBy(wanted, ({ period }) => period)].sort(([a], [b]) => a - b)) {
    const sorted = some.map(({ group }) => group).sort((a, b) => a.id - b.id)
    await connection.query(
      `insert into sequence_value (group_id, period_key, identity)
values ${list(sorted, ({ id, identity }) => `(${integer(id)}, ${integer(period)}, ${integer(identity)})`)}
on duplicate key update definitions = sequence_value.definitions`,
    )
    const rows = await select<PresentPosition & { id: number }>(
      connection,
      `select group_id as id, value as last, next_value as next, generation
         from sequence_value force index (primary)
        where group_id in (${list(sorted, ({ id }) => integer(id))}) and period_key = ${integer(period)}
        order by group_id
          for update`,
    )
    for (const { id, ...position } of rows) positions.set(`${id} ${period}`, position)
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
   set ${raisedRevision('not is_used', 1)},
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
function latestSet({ definition, version }: PresentSequenceRow, latest: LatestNumbers): string {
  const { format = definition.format, timeZone = definition.timeZone } = latest
  const isCurrent = latest.isCurrent && format === definition.format && timeZone === definition.timeZone
  return `latest_period_key = ${integer(latest.period)},
       version = ${integer(isCurrent ? version : version - 1)},
       format = ${orNull(format, bytes)},
       time_zone = ${bytes(timeZone)}`
}
