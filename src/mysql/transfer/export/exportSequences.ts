import type { Connection } from 'mysql2/promise'
import {
  type GroupPeriod,
  MAX_PARTS,
  type SequenceEntry,
  type SequenceGroupEntry,
  type SequenceGroupPeriodsEntry,
} from '../../../core/transfer/entries.ts'
import { integer } from '../../literals.ts'
import { type NamedRow, nameIn, select } from '../../select.ts'
import {
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from '../../sequences/columns.ts'
import { type KeyRow, keyIn } from '../../sequences/record.ts'
import { PAGE, pagesOf, rowsOfEach } from './pages.ts'

type SequenceRow = SequenceDefinitionRow &
  NamedRow &
  Record<'id' | 'is_defined', number> & { created_at: Date; format_history: Buffer | null }

/** Sequences that were used or defined. */
export async function* exportSequences(connection: Connection): AsyncGenerator<SequenceEntry> {
  const read = (after: SequenceRow | undefined) =>
    select<SequenceRow>(
      connection,
      `select straight_join n.name as namespace, s.name, s.id, s.is_defined, s.created_at, s.format_history, ${SEQUENCE_COLUMNS}
         from sequence s force index (primary)
         join namespace n on n.id = s.namespace_id
        where s.id > ${integer(after?.id ?? 0)}
          and (s.is_defined or exists (select 1 from sequence_group u where u.sequence_id = s.id and u.is_used))
        order by s.id
        limit ${PAGE}`,
    )
  for await (const page of pagesOf(read, PAGE)) {
    for (const row of page) {
      yield {
        type: 'sequence',
        ...nameIn(row),
        definition: sequenceDefinitionIn(row),
        isDefined: row.is_defined === 1,
        formatHistory: row.format_history ? JSON.parse(row.format_history.toString()) : [],
        createdAt: row.created_at,
      }
    }
  }
}

type GroupRow = KeyRow & { id: number; is_current: number } & {
  latest_period_key: number | null
  format: Buffer | null
  time_zone: Buffer | null
  latest_value: number | null
}

type PositionRow = GroupPeriod & { id: number; createdAt: Date | null; updatedAt: Date | null }

/** Sequence groups that were used. One with many periods has several entries. */
export async function* exportGroups(
  connection: Connection,
): AsyncGenerator<SequenceGroupEntry | SequenceGroupPeriodsEntry> {
  const read = (after: GroupRow | undefined) =>
    select<GroupRow>(
      connection,
      `select straight_join n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.latest_period_key, g.format,
              g.time_zone, coalesce(g.version = s.version, 0) as is_current, v.value as latest_value
         from sequence_group g force index (primary)
         join sequence s on s.id = g.sequence_id
         join namespace n on n.id = s.namespace_id
         left join sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key
        where g.id > ${integer(after?.id ?? 0)} and g.is_used
        order by g.id
        limit ${PAGE}`,
    )
  for await (const page of pagesOf(read, PAGE)) {
    const positions = positionReader(connection, page[0].id, page.at(-1)?.id ?? page[0].id)
    for (const row of page) yield* groupEntries(row, positions(row.id))
  }
}

async function* groupEntries(row: GroupRow, positions: AsyncIterable<PositionRow>) {
  const key = keyIn(row)
  const { latest_period_key: period, time_zone, format, is_current, latest_value: lastValue } = row
  const latest =
    period === null || time_zone === null
      ? null
      : {
          period,
          lastValue,
          format: format?.toString() ?? null,
          timeZone: time_zone.toString('latin1'),
          isCurrent: is_current === 1,
        }
  let periods: GroupPeriod[] = []
  let isFirst = true
  function entry(): SequenceGroupEntry | SequenceGroupPeriodsEntry {
    if (!isFirst) return { type: 'sequenceGroupPeriods', ...key, periods }
    isFirst = false
    return { type: 'sequenceGroup', ...key, latest, periods }
  }
  for await (const { id: _, ...position } of positions) {
    if (position.lastValue === null && position.nextValue === null) continue
    periods.push(position)
    if (periods.length < MAX_PARTS) continue
    yield entry()
    periods = []
  }
  if (isFirst || periods.length > 0) yield entry()
}

/** Reads the numbers of each sequence group of a range. */
function positionReader(connection: Connection, from: number, to: number) {
  const read = (after: { id: number; period: number } = { id: from, period: -1 }) =>
    select<PositionRow>(
      connection,
      `select group_id as id, period_key as period, value as lastValue, next_value as nextValue, generation,
              created_at as createdAt, updated_at as updatedAt
         from sequence_value force index (primary)
        where group_id >= ${integer(after.id)} and group_id <= ${integer(to)}
          and (group_id > ${integer(after.id)} or period_key > ${integer(after.period)})
        order by group_id, period_key
        limit ${PAGE}`,
    )
  return rowsOfEach(pagesOf(read, PAGE))
}
