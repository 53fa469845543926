import { keyText } from '../../../../core/counters/state.ts'
import { defaultSequenceDefinition } from '../../../../core/sequences/definition.ts'
import type { SequenceEntry } from '../../../../core/transfer/entries.ts'
import { mergeSequence, type SequenceMerge } from '../../../../core/transfer/mergeSequence.ts'
import type { Result } from '../../../../core/transfer/outcome.ts'
import { bytes, instant, integer, list } from '../../../literals.ts'
import { firstVersion } from '../../../revisions.ts'
import { nameIn, select } from '../../../select.ts'
import {
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
  sequenceDefinitionSet,
} from '../../../sequences/columns.ts'
import { conflictOnCluster, useOf } from '../../../sequences/define.ts'
import { findNamespaces, type ImportContext, locking, write } from '../context.ts'
import { findSequences } from './sequenceRows.ts'

type LockedRow = SequenceDefinitionRow &
  Record<'id' | 'version' | 'is_defined', number> & { format_history: Buffer | null }

/** Merges sequences into present ones, under an exclusive lock as `defineSequence` does: no flush issues numbers. */
export async function importSequences(
  context: ImportContext,
  entries: readonly SequenceEntry[],
): Promise<Result[]> {
  const namespaceOf = await findNamespaces(
    context,
    entries.map(({ namespace }) => namespace),
  )
  const rows = await lockSequences(context, entries)
  const results = new Map<SequenceEntry, Result>()
  for (const entry of entries.toSorted((a, b) => (keyText(a) < keyText(b) ? -1 : 1))) {
    const row = rows.get(keyText(entry))
    const { id: namespaceId, retention } = namespaceOf(entry.namespace)
    const { merge, isUnused } = await mergeInto(context, entry, row, retention.timeZone)
    if (merge.outcome === 'created' || merge.outcome === 'raised' || merge.outcome === 'lowered') {
      if (row) await update(context, row, entry, merge, isUnused)
      else await insert(context, namespaceId, entry, merge)
    }
    results.set(entry, { outcome: merge.outcome, note: merge.note })
  }
  return entries.map((entry) => results.get(entry) ?? { outcome: 'unchanged' })
}

async function lockSequences(context: ImportContext, entries: readonly SequenceEntry[]) {
  const found = await findSequences(context.connection, entries)
  if (found.length === 0) return new Map<string, LockedRow>()
  const locked = await select<LockedRow>(
    context.connection,
    `select s.id, s.version, s.is_defined, s.format_history, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id in (${list(found, ({ id }) => integer(id))})
      order by s.id ${locking(context)}`,
  )
  const byId = new Map(locked.map((row) => [row.id, row]))
  return new Map(
    found.flatMap((row) => {
      const own = byId.get(row.id)
      return own ? [[keyText(nameIn(row)), own] as const] : []
    }),
  )
}

async function mergeInto(
  { connection, overwrite }: ImportContext,
  entry: SequenceEntry,
  row: LockedRow | undefined,
  timeZone: string,
) {
  const unused = { used: { isNamed: false, isUnnamed: false }, isUsedSince: false }
  const use = row ? await useOf(connection, row.id, row.version) : unused
  const isUnused = !row || (row.is_defined === 0 && !use.used.isNamed && !use.used.isUnnamed)
  const definition = row ? sequenceDefinitionIn(row) : defaultSequenceDefinition(timeZone)
  const formatHistory = row?.format_history ? JSON.parse(row.format_history.toString()) : []
  const present = { definition, formatHistory, ...use, exists: !isUnused }
  return { merge: mergeSequence(present, entry, { overwrite }), isUnused }
}

async function update(
  context: ImportContext,
  row: LockedRow,
  entry: SequenceEntry,
  { definition, formatHistory }: SequenceMerge,
  isUnused: boolean,
): Promise<void> {
  const past = formatHistory ?? []
  if (!definition) {
    await write(
      context,
      `update sequence set format_history = ${bytes(JSON.stringify(past))} where id = ${integer(row.id)}`,
    )
    return
  }
  const createdAt = isUnused ? `, created_at = ${instant(entry.createdAt)}` : ''
  await write(
    context,
    `update sequence
   set ${sequenceDefinitionSet(definition, past)},
       is_defined = ${entry.isDefined || !isUnused},
       definitions = definitions + 1,
       version = version + 1${createdAt}
 where id = ${integer(row.id)}`,
  )
  if (!context.isDryRun) await conflictOnCluster(context.connection, row.id)
}

/** With a version above the first one, so that groups can have an earlier one. */
async function insert(
  context: ImportContext,
  namespaceId: number,
  entry: SequenceEntry,
  { definition = entry.definition, formatHistory = [] }: SequenceMerge,
): Promise<void> {
  await write(
    context,
    `insert into sequence
   set namespace_id = ${integer(namespaceId)},
       name = ${bytes(entry.name)},
       version = ${firstVersion() + 1},
       created_at = ${instant(entry.createdAt)},
       is_defined = ${entry.isDefined},
       definitions = ${entry.isDefined},
       ${sequenceDefinitionSet(definition, formatHistory)}`,
  )
}
