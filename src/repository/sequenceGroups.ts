/* The states of sequence groups, as readers see them. */
import { inOrder, readFree } from '../commit/reservations.ts'
import { BEGIN_SNAPSHOT, COMMIT, type PooledConnection } from '../mysql/pooledConnection.ts'
import { rowsOf } from '../mysql/session.ts'
import {
  bytes,
  groupBy,
  integer,
  list,
  listByName,
  MARK,
  pageByName,
  selectAll,
  selectByParent,
} from '../mysql/sql.ts'
import { keyText, type NamePage, type PageByName } from '../rules/counter.ts'
import { writerOf } from '../rules/format.ts'
import {
  periodKeyAt,
  type SequenceGroupKey,
  type SequenceGroupState,
  type SequenceKey,
} from '../rules/sequence.ts'
import {
  defaultSequenceDefinition,
  nextNumber,
  type Position,
  type SequenceDefinition,
} from '../rules/sequenceDefinition.ts'
import {
  type KeyRow,
  keyIn,
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from './columns.ts'

export function sequenceText({ namespace, sequence }: SequenceGroupKey): string {
  return keyText({ namespace, name: sequence })
}

const LATEST = `s.id as sequence_id, g.id, g.latest_period_key, g.format as latest_format, g.time_zone as latest_zone,
       v.value, v.next_value, v.updated_at, coalesce(g.revision, ${MARK}) + coalesce(s.definitions, 0) as revision`

interface StoredSequenceGroupRow
  extends KeyRow,
    SequenceDefinitionRow,
    Record<'latest_period_key' | 'value' | 'next_value', number | null> {
  /** Null: the sequence doesn't exist. */
  sequence_id: number | null
  /** Null: the sequence group was never used. */
  id: number | null
  /** Set together with the value. */
  updated_at: Date
  /** Null: its latest number was not issued here, and has the present definition. */
  latest_zone: Buffer | null
  latest_format: Buffer | null
  revision: number | string
}

const JOIN_LATEST = 'sequence_value v on v.group_id = g.id and v.period_key = g.latest_period_key'

/** Including those that were never used. */
export async function readStatesOfGroups(
  connection: PooledConnection,
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
  return readStates(connection, statement, now)
}

export async function listSequenceGroups(
  connection: PooledConnection,
  { namespace, name }: SequenceKey,
  page: PageByName,
  now: Date,
): Promise<NamePage<SequenceGroupState>> {
  const conditions = [`n.name = ${bytes(namespace)}`, `s.name = ${bytes(name)}`, 'g.is_used']
  const from = `from namespace n
       join sequence s on s.namespace_id = n.id
       join sequence_group g force index (sequence_group_name) on g.sequence_id = s.id`
  return listByName(connection, { column: 'g.name', from, conditions }, page, (page) => {
    const statement = `select n.name as namespace, s.name as sequence, g.name as its_group, ${SEQUENCE_COLUMNS}, ${LATEST}
       ${from}
       join ${JOIN_LATEST}
      ${pageByName('g.name', page, conditions)}`
    return readStates(connection, statement, now)
  })
}

/** Reads the states of selected groups. What takes several statements is read from one snapshot. */
async function readStates(connection: PooledConnection, statement: string, now: Date) {
  const groups = groupsIn(await connection.select<StoredSequenceGroupRow>(statement), now)
  if (!groups.filter(isUsed).some((group) => isElsewhere(group) || group.definition.gapless))
    return groups.map((group) => stateOf(group, undefined, undefined, now))
  return connection.orRollBack(async () => {
    const answers = await connection.send([...BEGIN_SNAPSHOT, statement])
    const groups = groupsIn(rowsOf<StoredSequenceGroupRow>(answers.at(-1)), now)
    const used = groups.filter(isUsed)
    const positions = await readPositions(connection, used.filter(isElsewhere))
    const free = await readFreeNumbers(connection, used)
    await connection.send(COMMIT)
    return groups.map((group) => stateOf(group, positions.get(group.id), free.get(group.id), now))
  })
}

function groupsIn(rows: readonly StoredSequenceGroupRow[], now: Date) {
  return rows.map((row) => {
    const definition = row.sequence_id === null ? defaultSequenceDefinition('UTC') : sequenceDefinitionIn(row)
    return { id: row.id, row, definition, periodKey: periodKeyAt(definition, now) }
  })
}

type Group = ReturnType<typeof groupsIn>[number]

/** @param other its position, if that is not with its latest number; `free`: the first number to reissue */
function stateOf(
  group: Group,
  other: Position | undefined,
  free: number | undefined,
  now: Date,
): SequenceGroupState {
  const { row, definition } = group
  const key = keyIn(row)
  const position = isElsewhere(group) ? other : { last: row.value, next: row.next_value }
  const nextValue = free ?? nextNumber(definition, position ?? { last: null, next: null })
  const nextFormatted = nextValue === null ? null : writerOf(definition, key.group, now)(nextValue)
  const revision = Number(row.revision)
  return { ...key, ...latestIn(row, definition, key.group), nextValue, nextFormatted, revision }
}

/** A sequence group with a row. */
type Used = Group & { id: number }

function isUsed(group: Group): group is Used {
  return group.id !== null
}

/** Whether its latest number is of another period, or it was restarted before its first one. */
function isElsewhere({ row, periodKey }: Group): boolean {
  return row.latest_period_key !== periodKey
}

/** The last number, in its own format. */
function latestIn(row: StoredSequenceGroupRow, definition: SequenceDefinition, group: string) {
  const { latest_period_key, value, latest_format, latest_zone, updated_at: updatedAt } = row
  if (latest_period_key === null || value === null)
    return { lastValue: null, lastFormatted: null, updatedAt: null }
  const style = latest_zone
    ? { format: latest_format?.toString() ?? null, timeZone: latest_zone.toString('latin1') }
    : definition
  return { lastValue: value, lastFormatted: writerOf(style, group, updatedAt)(value), updatedAt }
}

/** Positions in the present period, by the ids of their sequence groups. */
async function readPositions(connection: PooledConnection, groups: readonly Used[]) {
  const statements = [...groupBy(groups, ({ periodKey }) => periodKey)].map(
    ([periodKey, same]) =>
      `select group_id as id, value as last, next_value as next
         from sequence_value force index (primary)
        where group_id in (${list(same, ({ id }) => integer(id))}) and period_key = ${integer(periodKey)}`,
  )
  const rows = await selectAll<Position & { id: number | null }>(connection, statements)
  return new Map(rows.map(({ id, ...position }) => [id, position]))
}

/** The first released or expired numbers to reissue, by the ids of their sequence groups. */
async function readFreeNumbers(connection: PooledConnection, groups: readonly Used[]) {
  const gapless = groups.filter(({ definition }) => definition.gapless)
  // Without locks: one that was released, and one that has expired.
  const first = gapless.flatMap((place) => readFree(place, 1, '').map((statement) => `(${statement})`))
  const rows = await selectAll<{ group_id: number; value: number }>(connection, first)
  const free = gapless.map(({ id, definition }) => {
    const numbers = rows.filter(({ group_id }) => group_id === id).map(({ value }) => value)
    return [id, inOrder(numbers, definition)[0]] as const
  })
  return new Map<number | null, number | undefined>(free)
}
