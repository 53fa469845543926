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
  instant,
  integer,
  list,
  type NamedRow,
  nameIn,
  orNull,
  REVISION_OF_NOW,
  raisedRevision,
  select,
  selectByName,
} from '../mysql/sql.ts'
import { conflictOnCluster, findOrCreateSequence, useOf } from '../repository/sequenceDefinition.ts'
import { isPeriodKey } from '../rules/calendar.ts'
import { keyText } from '../rules/counter.ts'
import type {
  GroupPeriod,
  LatestNumbers,
  SequenceEntry,
  SequenceGroupEntry,
  SequenceGroupPeriodsEntry,
} from '../rules/entries.ts'
import {
  mergePosition,
  mergeSequence,
  OUTCOMES,
  type PositionMerge,
  type PresentPosition,
  type Result,
  refused,
  type SequenceMerge,
} from '../rules/merge.ts'
import { type SequenceGroupKey, type SequenceKey, sequenceGroupKeyText } from '../rules/sequence.ts'
import {
  defaultSequenceDefinition,
  type PastFormat,
  type SequenceDefinition,
} from '../rules/sequenceDefinition.ts'
import {
  ChangedMeanwhileError,
  findNamespaces,
  type ImportContext,
  isWritten,
  locking,
  write,
} from './importContext.ts'

/** A locked sequence. */
interface PresentSequenceRow {
  id: number
  version: number
  isDefined: boolean
  definition: SequenceDefinition
  formatHistory: readonly PastFormat[]
}

const sequenceOf = ({ namespace, sequence: name }: SequenceGroupKey): SequenceKey => ({ namespace, name })

/** Merges sequences into present ones, under an exclusive lock as `defineSequence` does: no flush issues numbers. */
export async function importSequences(
  context: ImportContext,
  entries: readonly SequenceEntry[],
): Promise<Result[]> {
  const namespaceOf = await findNamespaces(context, entries)
  const rows = await lockSequences(context, await findSequences(context.connection, entries), 'for update')
  const results = new Map<SequenceEntry, Result>()
  for (const entry of entries.toSorted((a, b) => (keyText(a) < keyText(b) ? -1 : 1))) {
    const row = rows.get(keyText(entry))
    const { id: namespaceId, retention } = namespaceOf(entry.namespace)
    const use = row ? await useOf(context.connection, row.id, row.version) : UNUSED
    const exists = row !== undefined && (row.isDefined || use.used.isNamed || use.used.isUnnamed)
    const definition = row?.definition ?? defaultSequenceDefinition(retention.timeZone)
    const present = { definition, formatHistory: row?.formatHistory ?? [], ...use, exists }
    const merge = mergeSequence(present, entry, context)
    if (isWritten(merge)) await writeSequence(context, { entry, namespaceId, row, exists, merge })
    results.set(entry, { outcome: merge.outcome, note: merge.note })
  }
  return entries.map((entry) => results.get(entry) ?? { outcome: 'unchanged' })
}

const UNUSED = { used: { isNamed: false, isUnnamed: false }, isUsedSince: false }

interface MergedSequence {
  entry: SequenceEntry
  namespaceId: number
  row: PresentSequenceRow | undefined
  exists: boolean
  merge: SequenceMerge
}

async function writeSequence(
  context: ImportContext,
  { entry, namespaceId, row, exists, merge: { definition, formatHistory = [] } }: MergedSequence,
): Promise<void> {
  if (!row) {
    // With a version above the first one, so that groups can have an earlier one.
    return write(
      context,
      `insert into sequence
   set namespace_id = ${integer(namespaceId)},
       name = ${bytes(entry.name)},
       version = ${firstVersion() + 1},
       created_at = ${instant(entry.createdAt)},
       is_defined = ${entry.isDefined},
       definitions = ${entry.isDefined},
       ${sequenceDefinitionSet(definition ?? entry.definition, formatHistory)}`,
    )
  }
  const id = integer(row.id)
  if (!definition) {
    return write(
      context,
      `update sequence set format_history = ${bytes(JSON.stringify(formatHistory))} where id = ${id}`,
    )
  }
  await write(
    context,
    `update sequence
   set ${sequenceDefinitionSet(definition, formatHistory)},
       is_defined = ${entry.isDefined || exists},
       definitions = definitions + 1,
       version = version + 1,
       created_at = ${exists ? 'created_at' : instant(entry.createdAt)}
 where id = ${id}`,
  )
  if (!context.isDryRun) await conflictOnCluster(context.connection, row.id)
}

type FoundSequence = NamedRow & { id: number }

/** The sequences that exist, in any order. */
function findSequences(connection: Connection, keys: readonly SequenceKey[]): Promise<FoundSequence[]> {
  const statement = selectByName(
    keys,
    's.name',
    (isNamed) =>
      `select n.name as namespace, s.name, s.id
         from namespace n
         join sequence s on s.namespace_id = n.id
        where ${isNamed}`,
  )
  return select(connection, statement)
}

type PresentSequence = SequenceDefinitionRow &
  Record<'id' | 'version' | 'is_defined', number> & { format_history: Buffer | null }

async function lockSequences(
  context: ImportContext,
  found: readonly FoundSequence[],
  lock: 'for update' | 'lock in share mode',
): Promise<Map<string, PresentSequenceRow>> {
  if (found.length === 0) return new Map()
  const rows = await select<PresentSequence>(
    context.connection,
    `select s.id, s.version, s.is_defined, s.format_history, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id in (${list(found, ({ id }) => integer(id))})
      order by s.id ${locking(context, lock)}`,
  )
  if (rows.length < found.length) throw new ChangedMeanwhileError()
  const names = new Map(found.map((row) => [row.id, keyText(nameIn(row))]))
  return new Map(
    rows.map((row) => {
      const { id, version, is_defined, format_history } = row
      const formatHistory = format_history ? JSON.parse(format_history.toString()) : []
      const definition = sequenceDefinitionIn(row)
      return [names.get(id) ?? '', { id, version, isDefined: is_defined === 1, definition, formatHistory }]
    }),
  )
}

/** A sequence group, and its sequence. */
export interface FoundGroup {
  sequence: PresentSequenceRow
  id: number
  identity: number
  isUsed: boolean
  /** Whether this transaction has created it. */
  isNew: boolean
  latestPeriod: number | null
}

/**
 * Sequence groups and their sequences, by their keys. Locks the sequences, shared, so that their definitions don't change;
 * then the rows of gapless groups, as flushes do. Creates what is missing, except in a dry run: sequences with the
 * defaults, as their first use does.
 */
export async function lockGroups(
  context: ImportContext,
  keys: readonly SequenceGroupKey[],
): Promise<{ sequences: Map<string, PresentSequenceRow>; groups: Map<string, FoundGroup> }> {
  const { connection, isDryRun, now } = context
  const wanted = new Map(keys.map((key) => [keyText(sequenceOf(key)), sequenceOf(key)]))
  let found = await findSequences(connection, [...wanted.values()])
  if (!isDryRun && found.length < wanted.size) {
    const present = new Set(found.map((row) => keyText(nameIn(row))))
    const missing = [...wanted].filter(([text]) => !present.has(text)).sort(([a], [b]) => (a < b ? -1 : 1))
    for (const [, key] of missing) await findOrCreateSequence(connection, key, now)
    found = await findSequences(connection, [...wanted.values()])
  }
  const sequences = await lockSequences(context, found, 'lock in share mode')
  const groups = new Map<string, FoundGroup>()
  for (const [text, siblings] of groupBy(keys, (key) => keyText(sequenceOf(key)))) {
    const sequence = sequences.get(text)
    if (!sequence) continue
    const present = await readGroups(context, sequence, siblings)
    const missing = siblings.filter(({ group }) => !present.has(group))
    if (missing.length > 0 && !isDryRun) {
      const names = [...new Set(missing.map(({ group }) => group))].toSorted()
      await connection.query(
        `insert into sequence_group (sequence_id, name, identity, revision, is_used)
values ${list(names, (name) => `(${integer(sequence.id)}, ${bytes(name)}, ${firstVersion()}, ${REVISION_OF_NOW}, false)`)}`,
      )
    }
    const all = missing.length > 0 ? await readGroups(context, sequence, siblings) : present
    for (const key of siblings) {
      const row = all.get(key.group)
      if (row) groups.set(sequenceGroupKeyText(key), { ...row, sequence, isNew: !present.has(key.group) })
    }
  }
  return { sequences, groups }
}

async function readGroups(
  context: ImportContext,
  { id, definition }: PresentSequenceRow,
  keys: readonly SequenceGroupKey[],
) {
  const rows = await select<
    Record<'id' | 'identity' | 'is_used', number> & { name: Buffer; latest_period_key: number | null }
  >(
    context.connection,
    `select id, identity, is_used, name, latest_period_key
       from sequence_group force index (sequence_group_name)
      where sequence_id = ${integer(id)} and name in (${list(keys, ({ group }) => bytes(group))})
      order by id ${definition.gapless ? locking(context) : ''}`,
  )
  return new Map(
    rows.map(({ id, identity, is_used, name, latest_period_key: latestPeriod }) => [
      name.toString(),
      { id, identity, isUsed: is_used === 1, latestPeriod },
    ]),
  )
}

type GroupEntry = SequenceGroupEntry | SequenceGroupPeriodsEntry

/** What is written of a sequence group. */
interface MergedGroup {
  entry: GroupEntry
  group: FoundGroup
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
  const { sequences, groups } = await lockGroups(context, entries)
  const present = await lockPositions(context, entries, groups)
  const merged: MergedGroup[] = []
  const results = entries.map((entry): Result => {
    const sequence = sequences.get(keyText(sequenceOf(entry)))
    const definition = sequence?.definition ?? defaultSequenceDefinition('UTC')
    const foreign = foreignPeriod(entry, definition)
    if (foreign) return foreign
    const group = groups.get(sequenceGroupKeyText(entry))
    // In a dry run it would have been created.
    if (!group) return { outcome: 'created' }
    const positions = entry.periods.map((period) => {
      const merge = mergePosition(definition, present.get(`${group.id} ${period.period}`), period, context)
      return { period, merge }
    })
    merged.push({ entry, group, positions })
    return resultOf(group, positions)
  })
  if (!context.isDryRun) await writeGroups(context, merged)
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
function resultOf(group: FoundGroup, positions: MergedGroup['positions']): Result {
  if (group.isNew) return { outcome: 'created' }
  const results = positions.map(({ merge: { outcome, note } }): Result => {
    // A period of its own is no group of its own.
    return { outcome: outcome === 'created' && group.isUsed ? 'raised' : outcome, note }
  })
  const [first = { outcome: 'unchanged' }] = results.sort(
    (a, b) => ATTENTION.indexOf(a.outcome) - ATTENTION.indexOf(b.outcome),
  )
  return first
}

/**
 * Locks and reads the rows of the periods that entries have, by group id and period; then the groups. Creates missing
 * rows: a row that does not exist can't be locked, and a flush could create it.
 */
async function lockPositions(
  context: ImportContext,
  entries: readonly GroupEntry[],
  groups: ReadonlyMap<string, FoundGroup>,
): Promise<Map<string, PresentPosition>> {
  const { connection } = context
  const wanted = entries.flatMap((entry) => {
    const group = groups.get(sequenceGroupKeyText(entry))
    return group ? entry.periods.map(({ period }) => ({ group, period })) : []
  })
  const positions = new Map<string, PresentPosition>()
  for (const [period, some] of [...groupBy(wanted, ({ period }) => period)].sort(([a], [b]) => a - b)) {
    const sorted = some.map(({ group }) => group).sort((a, b) => a.id - b.id)
    await write(
      context,
      `insert into sequence_value (group_id, period_key, identity)
values ${list(sorted, ({ id, identity }) => `(${integer(id)}, ${integer(period)}, ${integer(identity)})`)}
on duplicate key update definitions = sequence_value.definitions`,
    )
    const rows = await select<PresentPosition & { id: number }>(
      connection,
      `select group_id as id, value as last, next_value as next, generation
         from sequence_value force index (primary)
        where group_id in (${list(sorted, ({ id }) => integer(id))}) and period_key = ${integer(period)}
        order by group_id ${locking(context)}`,
    )
    for (const { id, ...position } of rows) positions.set(`${id} ${period}`, position)
  }
  const ids = [...new Set(wanted.map(({ group }) => group.id))]
  if (ids.length > 0)
    await select(
      connection,
      `select id from sequence_group force index (primary)
        where id in (${list(ids, integer)})
        order by id ${locking(context)}`,
    )
  return positions
}

/** Writes sequence groups, whose rows are locked: the positions that change, and what belongs to their latest numbers. */
async function writeGroups(
  { connection, now }: ImportContext,
  merged: readonly MergedGroup[],
): Promise<void> {
  const positions = merged.flatMap(({ group, positions }) =>
    positions.flatMap(({ period: { period, createdAt = now, updatedAt = now }, merge: { position } }) =>
      position ? { groupId: group.id, period, ...position, createdAt, updatedAt } : [],
    ),
  )
  if (positions.length > 0) await connection.query(storePositions(positions))
  for (const { entry, group, positions } of merged.toSorted((a, b) => a.group.id - b.group.id)) {
    const taken = positions.filter(({ merge }) => merge.position).map(({ period }) => period.period)
    const latest = latestOf(entry, group, taken)
    if (!group.isNew && taken.length === 0 && !latest) continue
    await connection.query(
      `update sequence_group
   set ${raisedRevision('not is_used', 1)},
       is_used = true${latest ? `,\n       ${latestSet(group.sequence, latest)}` : ''}
 where id = ${integer(group.id)}`,
    )
  }
}

/** The latest numbers of the file, if they become those of the group. */
function latestOf(entry: GroupEntry, { latestPeriod }: FoundGroup, taken: readonly number[]) {
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
