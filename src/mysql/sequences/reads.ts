import type { PageByName } from '../../core/counters/pages.ts'
import { keyText } from '../../core/counters/state.ts'
import type { Position } from '../../core/sequences/blocks.ts'
import { defaultSequenceDefinition } from '../../core/sequences/definition.ts'
import type {
  SequenceGroupKey,
  SequenceKey,
  SequenceState,
  StoredSequenceGroup,
} from '../../core/sequences/store.ts'
import { periodKeyOf } from '../../core/time/periodKey.ts'
import type { Connection } from '../connections/database.ts'
import { groupBy } from '../groupBy.ts'
import { bytes, integer, list } from '../literals.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { type NamedRow, nameIn, pageBy, select, selectByName, selectByParent } from '../select.ts'
import {
  type KeyRow,
  keyIn,
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from './columns.ts'
import { inOrder, readFirstFree } from './reservations.ts'

/** A sequence exists for readers once it is defined, or one of its sequence groups has issued a number. */
export const SEQUENCE_EXISTS = `(s.is_defined or exists (
              select 1
                from sequence_group u
               where u.sequence_id = s.id and u.version > 0))`

const SELECT_SEQUENCES = `select n.name as namespace, s.name, s.created_at, ${SEQUENCE_COLUMNS}
           from namespace n
           join sequence s on s.namespace_id = n.id`

export function readSequences(connection: Connection, keys: readonly SequenceKey[]) {
  const selectNamed = (isNamed: string) => `${SELECT_SEQUENCES} where ${isNamed} and ${SEQUENCE_EXISTS}`
  return sequencesIn(connection, selectByName(keys, 's.name', selectNamed))
}

export function listSequences(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, SEQUENCE_EXISTS]
  return sequencesIn(connection, `${SELECT_SEQUENCES} ${pageBy('s.name', page, conditions)}`)
}

async function sequencesIn(connection: Connection, statement: string): Promise<SequenceState[]> {
  const rows = await select<SequenceDefinitionRow & NamedRow & { created_at: Date }>(connection, statement)
  return rows.map((row) => ({
    ...nameIn(row),
    definition: sequenceDefinitionIn(row),
    createdAt: row.created_at,
  }))
}

const LATEST = `s.id as sequence_id, g.id, g.latest_period_key, g.format as latest_format, g.time_zone as latest_zone,
       v.value, v.next_value, v.updated_at, coalesce(g.revision, ${REVISION_OF_NOW}) + coalesce(s.definitions, 0) as revision`

interface SequenceGroupRow
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
export async function readSequenceGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  now: Date,
): Promise<StoredSequenceGroup[]> {
  const statement = selectByParent(
    keys,
    ({ namespace, sequence }) => keyText({ namespace, name: sequence }),
    (siblings) => {
      const [namespace, sequence] = [bytes(siblings[0].namespace), bytes(siblings[0].sequence)]
      return `select ${namespace} as namespace, ${sequence} as sequence, requested.name as its_group,
                ${SEQUENCE_COLUMNS}, ${LATEST}
           from (${siblings.map(({ group }) => `select ${bytes(group)} as name`).join(' union all ')}) requested
           left join namespace n on n.name = ${namespace}
           left join sequence s on s.namespace_id = n.id and s.name = ${sequence}
           left join sequence_group g on g.sequence_id = s.id and g.name = requested.name
           left join ${JOIN_LATEST}`
    },
  )
  return sequenceGroupsFrom(connection, await select<SequenceGroupRow>(connection, statement), now)
}

export async function listSequenceGroups(
  connection: Connection,
  { namespace, name }: SequenceKey,
  page: PageByName,
  now: Date,
): Promise<StoredSequenceGroup[]> {
  const conditions = [`n.name = ${bytes(namespace)}`, `s.name = ${bytes(name)}`, 'g.version > 0']
  const rows = await select<SequenceGroupRow>(
    connection,
    `select n.name as namespace, s.name as sequence, g.name as its_group, ${SEQUENCE_COLUMNS}, ${LATEST}
       from namespace n
       join sequence s on s.namespace_id = n.id
       join sequence_group g force index (sequence_group_name) on g.sequence_id = s.id
       join ${JOIN_LATEST}
      ${pageBy('g.name', page, conditions)}`,
  )
  return sequenceGroupsFrom(connection, rows, now)
}

async function sequenceGroupsFrom(connection: Connection, rows: readonly SequenceGroupRow[], now: Date) {
  const groups = rows.map((row) => storedIn(row, now))
  const used = groups.filter((group): group is Used => group.id !== null)
  await readPositions(connection, used)
  await readFreeNumbers(connection, used)
  return groups.map(({ stored }) => stored)
}

/** A sequence group with a row. */
type Used = ReturnType<typeof storedIn> & { id: number }

function storedIn(row: SequenceGroupRow, now: Date) {
  const definition = row.sequence_id === null ? defaultSequenceDefinition('UTC') : sequenceDefinitionIn(row)
  const periodKey = periodKeyOf(definition.restartEvery, definition.timeZone, now)
  const isInLatestPeriod = row.latest_period_key === periodKey
  const stored: StoredSequenceGroup = {
    ...keyIn(row),
    definition,
    latest:
      row.latest_period_key === null || row.value === null
        ? undefined
        : {
            value: row.value,
            at: row.updated_at,
            format: row.latest_format?.toString() ?? null,
            timeZone: row.latest_zone.toString('latin1'),
          },
    position: isInLatestPeriod ? { last: row.value, next: row.next_value } : { last: null, next: null },
    free: null,
    revision: Number(row.revision),
  }
  return { id: row.id, periodKey, definition, isInLatestPeriod, stored }
}

/** For sequence groups whose latest number is of another period, or that were restarted before their first. */
async function readPositions(connection: Connection, groups: readonly Used[]): Promise<void> {
  const others = groups.filter(({ isInLatestPeriod }) => !isInLatestPeriod)
  for (const [periodKey, same] of groupBy(others, (one) => one.periodKey)) {
    const rows = await select<Position & { id: number }>(
      connection,
      `select group_id as id, value as last, next_value as next
         from sequence_value force index (primary)
        where group_id in (${list(same, ({ id }) => integer(id))}) and period_key = ${integer(periodKey)}`,
    )
    const found = new Map(rows.map(({ id, last, next }) => [id, { last, next }]))
    for (const { id, stored } of same) stored.position = found.get(id) ?? stored.position
  }
}

async function readFreeNumbers(connection: Connection, groups: readonly Used[]): Promise<void> {
  const gapless = groups.filter(({ definition }) => definition.gapless)
  if (gapless.length === 0) return
  const statement = gapless.map(readFirstFree).join('\nunion all\n')
  const rows = await select<Record<'group_id' | 'value', number>>(connection, statement)
  for (const { id, definition, stored } of gapless) {
    const free = rows.filter(({ group_id }) => group_id === id).map(({ value }) => value)
    stored.free = inOrder(free, definition)[0] ?? null
  }
}
