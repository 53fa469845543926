import { keyText } from '../../../../core/counters/state.ts'
import { type SequenceGroupKey, sequenceGroupKeyText } from '../../../../core/sequences/store.ts'
import type {
  GroupPeriod,
  SequenceGroupEntry,
  SequenceGroupPeriodsEntry,
} from '../../../../core/transfer/entries.ts'
import type { PositionMerge, PresentPosition } from '../../../../core/transfer/mergeGroup.ts'
import type { Result } from '../../../../core/transfer/outcome.ts'
import { groupBy } from '../../../groupBy.ts'
import { bytes, integer, list } from '../../../literals.ts'
import { firstVersion, REVISION_OF_NOW } from '../../../revisions.ts'
import { select } from '../../../select.ts'
import { type ImportContext, locking, write } from '../context.ts'
import type { SequenceRow } from './sequenceRows.ts'

export interface FoundGroup {
  id: number
  identity: number
  isUsed: boolean
  /** Whether this transaction has created it. */
  isNew: boolean
  isGapless: boolean
  latestPeriod: number | null
}

export type GroupEntry = SequenceGroupEntry | SequenceGroupPeriodsEntry

/** What is written of a sequence group. */
export interface MergedGroup {
  entry: GroupEntry
  sequence: SequenceRow
  group: FoundGroup
  /** The positions that change, by period. */
  positions: readonly { period: GroupPeriod; merge: PositionMerge }[]
  result: Result
}

type GroupRow = Record<'id' | 'identity' | 'is_used' | 'sequence_id', number> & {
  name: Buffer
  latest_period_key: number | null
}

/** Sequence groups by their keys. Missing ones are created; rows of gapless ones are locked first, as by flushes. */
export async function findGroups(
  context: ImportContext,
  entries: readonly SequenceGroupKey[],
  sequences: ReadonlyMap<string, SequenceRow>,
): Promise<Map<string, FoundGroup>> {
  const found = new Map<string, FoundGroup>()
  for (const [text, siblings] of groupBy(entries, ({ namespace, sequence: name }) =>
    keyText({ namespace, name }),
  )) {
    const sequence = sequences.get(text)
    if (!sequence) continue
    const { gapless } = sequence.definition
    const known = await readGroups(context, sequence, siblings, gapless)
    const missing = siblings
      .filter(({ group }) => !known.has(group))
      .toSorted((a, b) => (a.group < b.group ? -1 : 1))
    if (missing.length > 0 && !context.isDryRun) {
      const values = list(
        missing,
        ({ group }) =>
          `(${integer(sequence.id)}, ${bytes(group)}, ${firstVersion()}, ${REVISION_OF_NOW}, false)`,
      )
      await write(
        context,
        `insert into sequence_group (sequence_id, name, identity, revision, is_used) values ${values}`,
      )
    }
    const all = missing.length > 0 ? await readGroups(context, sequence, siblings, gapless) : known
    for (const sibling of siblings) {
      const row = all.get(sibling.group)
      if (!row) continue
      found.set(sequenceGroupKeyText(sibling), {
        id: row.id,
        identity: row.identity,
        isUsed: row.is_used === 1,
        isNew: !known.has(sibling.group),
        isGapless: gapless,
        latestPeriod: row.latest_period_key,
      })
    }
  }
  return found
}

async function readGroups(
  context: ImportContext,
  { id }: SequenceRow,
  siblings: readonly SequenceGroupKey[],
  isLocked: boolean,
) {
  const rows = await select<GroupRow>(
    context.connection,
    `select id, identity, is_used, sequence_id, name, latest_period_key
       from sequence_group force index (sequence_group_name)
      where sequence_id = ${integer(id)} and name in (${list(siblings, ({ group }) => bytes(group))})
      order by id ${isLocked ? locking(context) : ''}`,
  )
  return new Map(rows.map((row) => [row.name.toString(), row]))
}

/**
 * Locks and reads the rows of the periods that entries have, by group id and period; then the groups. Creates missing
 * rows: a row that does not exist can't be locked, and a flush could create it.
 */
export async function lockPositions(
  context: ImportContext,
  entries: readonly GroupEntry[],
  groups: ReadonlyMap<string, FoundGroup>,
): Promise<Map<string, PresentPosition>> {
  const wanted = entries.flatMap((entry) => {
    const group = groups.get(sequenceGroupKeyText(entry))
    return group ? entry.periods.map(({ period }) => ({ group, period })) : []
  })
  const positions = new Map<string, PresentPosition>()
  const byPeriod = [...groupBy(wanted, ({ period }) => period)].sort(([a], [b]) => a - b)
  for (const [period, some] of byPeriod) {
    const sorted = some.toSorted((a, b) => a.group.id - b.group.id)
    const values = list(
      sorted,
      ({ group: { id, identity } }) => `(${integer(id)}, ${integer(period)}, ${integer(identity)})`,
    )
    await write(
      context,
      `insert into sequence_value (group_id, period_key, identity) values ${values}
on duplicate key update definitions = sequence_value.definitions`,
    )
    const rows = await select<PresentPosition & { id: number }>(
      context.connection,
      `select group_id as id, value as last, next_value as next, generation
         from sequence_value force index (primary)
        where group_id in (${list(sorted, ({ group }) => integer(group.id))}) and period_key = ${integer(period)}
        order by group_id ${locking(context)}`,
    )
    for (const { id, ...position } of rows) positions.set(`${id} ${period}`, position)
  }
  const ids = [...new Set(wanted.map(({ group }) => group.id))]
  if (ids.length > 0 && !context.isDryRun) {
    await select(
      context.connection,
      `select id from sequence_group force index (primary)
        where id in (${list(ids, integer)})
        order by id
          for update`,
    )
  }
  return positions
}
