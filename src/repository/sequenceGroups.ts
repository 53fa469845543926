/* The states of sequence groups, as readers see them. */
import {
  inOrder,
  type KeyRow,
  keyIn,
  readFirstFree,
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from '../commit/reservations.ts'
import type { Connection } from '../mysql/pool.ts'
import {
  bytes,
  groupBy,
  integer,
  list,
  pageByName,
  REVISION_OF_NOW,
  select,
  selectByParent,
} from '../mysql/sql.ts'
import { periodKeyOf } from '../rules/calendar.ts'
import { keyText, type PageByName } from '../rules/counter.ts'
import { writerOf } from '../rules/format.ts'
import type { SequenceGroupKey, SequenceGroupState, SequenceKey } from '../rules/sequence.ts'
import {
  defaultSequenceDefinition,
  nextNumber,
  type Position,
  type SequenceDefinition,
} from '../rules/sequenceDefinition.ts'

export function sequenceText({ namespace, sequence }: SequenceGroupKey): string {
  return keyText({ namespace, name: sequence })
}

const LATEST = `s.id as sequence_id, g.id, g.latest_period_key, g.format as latest_format, g.time_zone as latest_zone,
       v.value, v.next_value, v.updated_at, coalesce(g.revision, ${REVISION_OF_NOW}) + coalesce(s.definitions, 0) as revision`

interface StoredSequenceGroupRow
  extends KeyRow,
    SequenceDefinitionRow,
    Record<'latest_period_key' | 'value' | 'next_value', number | null> {
  /** Null: the sequence doesn't exist. */
  sequence_id: number | null
  /** Null: the sequence group was never used. */
  id: number | null
  /** These are set together with the value. */
  updated_at: Date
  latest_zone: Buffer
  latest_format: Buffer | null
  revision: number | string
}

const JOIN_LATEST = 'sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key'

/** Including those that were never used. */
export async function readStatesOfGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  now: Date,
): Promise<SequenceGroupState[]> {
  const statement = selectByParent(keys, sequenceText, (siblings) => {
    const [namespace, sequence] = [bytes(siblings[0].namespace), bytes(siblings[0].sequence)]
    return `select ${namespace} as namespace, ${sequence} as sequence, requested.name as its_group,
                ${SEQUENCE_COLUMNS}, ${LATEST}
           from (${siblings.map(({ group }) => `select ${bytes(group)} as name`).join(' union all ')}) requested
           left join namespace n on n.name = ${namespace}
           left join sequence s on s.namespace_id = n.id and s.name = ${sequence}
           left join sequence_group g on g.sequence_id = s.id and g.name = requested.name
           left join ${JOIN_LATEST}`
  })
  return sequenceGroupsFrom(connection, await select<StoredSequenceGroupRow>(connection, statement), now)
}

export async function listSequenceGroups(
  connection: Connection,
  { namespace, name }: SequenceKey,
  page: PageByName,
  now: Date,
): Promise<SequenceGroupState[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, `s.name = ${bytes(name)}`, 'g.version > 0']
  const rows = await select<StoredSequenceGroupRow>(
    connection,
    `select n.name as namespace, s.name as sequence, g.name as its_group, ${SEQUENCE_COLUMNS}, ${LATEST}
       from namespace n
       join sequence s on s.namespace_id = n.id
       join sequence_group g force index (sequence_group_name) on g.sequence_id = s.id
       join ${JOIN_LATEST}
      ${pageByName('g.name', page, conditions)}`,
  )
  return sequenceGroupsFrom(connection, rows, now)
}

/** Their states at an instant. */
async function sequenceGroupsFrom(
  connection: Connection,
  rows: readonly StoredSequenceGroupRow[],
  now: Date,
) {
  const groups = rows.map((row) => {
    const definition = row.sequence_id === null ? defaultSequenceDefinition('UTC') : sequenceDefinitionIn(row)
    const { restartEvery, timeZone } = definition
    return { id: row.id, row, definition, periodKey: periodKeyOf(restartEvery, timeZone, now) }
  })
  const used = groups.filter((group): group is Used => group.id !== null)
  const positions = await readPositions(connection, used)
  const free = await readFreeNumbers(connection, used)
  return groups.map(({ id, row, definition, periodKey }): SequenceGroupState => {
    const key = keyIn(row)
    const isInLatestPeriod = row.latest_period_key === periodKey
    const position = isInLatestPeriod ? { last: row.value, next: row.next_value } : positions.get(id)
    const nextValue = free.get(id) ?? nextNumber(definition, position ?? { last: null, next: null })
    const nextFormatted = nextValue === null ? null : writerOf(definition, key.group, now)(nextValue)
    return { ...key, ...latestIn(row, key.group), nextValue, nextFormatted, revision: Number(row.revision) }
  })
}

/** A sequence group with a row. */
type Used = { id: number; row: StoredSequenceGroupRow; definition: SequenceDefinition; periodKey: number }

/** The last number, in its own format. */
function latestIn(row: StoredSequenceGroupRow, group: string) {
  const { latest_period_key, value, latest_format, latest_zone, updated_at: updatedAt } = row
  if (latest_period_key === null || value === null)
    return { lastValue: null, lastFormatted: null, updatedAt: null }
  const style = { format: latest_format?.toString() ?? null, timeZone: latest_zone.toString('latin1') }
  return { lastValue: value, lastFormatted: writerOf(style, group, updatedAt)(value), updatedAt }
}

/** Of sequence groups whose latest number is of another period, or that were restarted before their first; by id. */
async function readPositions(connection: Connection, groups: readonly Used[]) {
  const others = groups.filter(({ row, periodKey }) => row.latest_period_key !== periodKey)
  const statements = [...groupBy(others, ({ periodKey }) => periodKey)].map(
    ([periodKey, same]) =>
      `select group_id as id, value as last, next_value as next
         from sequence_value force index (primary)
        where group_id in (${list(same, ({ id }) => integer(id))}) and period_key = ${integer(periodKey)}`,
  )
  const rows = await selectAll<Position & { id: number | null }>(connection, statements)
  return new Map(rows.map(({ id, last, next }) => [id, { last, next }]))
}

/** The first released or expired numbers to reissue, by the ids of their sequence groups. */
async function readFreeNumbers(connection: Connection, groups: readonly Used[]) {
  const gapless = groups.filter(({ definition }) => definition.gapless)
  const rows = await selectAll<{ group_id: number; value: number }>(connection, gapless.map(readFirstFree))
  const free = gapless.map(({ id, definition }) => {
    const numbers = rows.filter(({ group_id }) => group_id === id).map(({ value }) => value)
    return [id, inOrder(numbers, definition)[0]] as const
  })
  return new Map<number | null, number | undefined>(free)
}

/** The rows of all statements. */
async function selectAll<Row>(connection: Connection, statements: readonly string[]): Promise<Row[]> {
  return statements.length === 0 ? [] : select<Row>(connection, statements.join('\nunion all\n'))
}
