/* What nth check finds in the tables, for an operator. */
import { HAS_WRONG_SUMS } from '../commit/holdStatements.ts'
import { HAS_HOLDS } from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import { bytes, list, type NamedRow, nameIn } from '../mysql/sql.ts'
import { SEQUENCE_COLUMNS, type SequenceDefinitionRow, sequenceDefinitionIn } from '../repository/columns.ts'
import { noneWithoutTable } from '../repository/migrate.ts'
import { isKnownZone } from '../rules/calendar.ts'
import { breaksGroups, isForUnnamedOnly } from '../rules/sequenceDefinition.ts'

/** Sequences, or other rows, that are looked at, and names that are listed. */
const MAX_ROWS = 100_000
const MAX_NAMES = 5

/** Finds what earlier versions have accepted. A new database, which has no tables yet, has none of it. */
export async function findRepeatingSequences(connection: Connection): Promise<string[]> {
  const reading = connection.select<SequenceDefinitionRow & NamedRow & { is_named: number }>(
    `select n.name as namespace, s.name, ${SEQUENCE_COLUMNS}, exists (
              select 1
                from sequence_group g
               where g.sequence_id = s.id and g.version > 0 and g.name > '') as is_named
       from sequence s
       join namespace n on n.id = s.namespace_id
      where not s.allow_repeats and (s.format is not null or s.start_value < 0 or s.step < 0 or s.cycles)
      limit ${MAX_ROWS}`,
  )
  const repeating = (await reading.catch(noneWithoutTable)).filter((row) => {
    // A period of a later version doesn't matter.
    const definition = sequenceDefinitionIn({ ...row, restart_every: null })
    return breaksGroups(definition) || (row.is_named === 1 && isForUnnamedOnly(definition))
  })
  if (repeating.length === 0) return []
  const message = `groups of these sequences may issue the same text: ${namesOf(repeating)}`
  return [`${message}. Set allowRepeats, or use a new sequence.`]
}

function namesOf(rows: readonly NamedRow[]): string {
  const names = rows.slice(0, MAX_NAMES).map((row) => JSON.stringify(Object.values(nameIn(row)).join(' / ')))
  return `${names.join(', ')}; in all ${rows.length}`
}

/** What Nth refuses to use until it is cured. `rows`: its table, in which at most `MAX_ROWS` are looked at. */
const curable = (inUnknownZone: string) => [
  ...['counter', 'sequence'].map((table) => ({
    what: `this version doesn't know the time zones of these ${table}s`,
    cure: 'Update Nth, or define another timeZone',
    rows: `(select id, namespace_id, name from ${table} where ${inUnknownZone} limit ${MAX_ROWS}) t`,
    where: 'true',
  })),
  {
    what: 'the database lacks the values of these counters',
    cure: 'Reset or delete them',
    rows: `(select id, namespace_id, name, slots from counter limit ${MAX_ROWS}) t`,
    where: '(select count(*) from counter_value v where v.counter_id = t.id) < t.slots',
  },
  {
    what: 'what these counters hold is not the sum of their holds',
    cure: 'Reset or delete them',
    rows: `(select id, namespace_id, name from counter where periods like '%${HAS_HOLDS}' limit ${MAX_ROWS}) t
       join counter_value v on v.counter_id = t.id and v.slot = 0`,
    where: HAS_WRONG_SUMS,
  },
  {
    what: 'the database lacks the last numbers of groups of these sequences',
    cure: 'Call restartSequence with a nextValue for each group',
    rows: `(select id as group_id, sequence_id, latest_period_key as period_key from sequence_group limit ${MAX_ROWS}) g
       join sequence t on t.id = g.sequence_id
       left join sequence_value v using (group_id, period_key)`,
    where: 'g.period_key is not null and v.value is null and v.next_value is null',
  },
]

/** Finds counters and sequences that this version can't use, or whose numbers somebody has deleted. */
export async function findCurable(connection: Connection): Promise<string[]> {
  const used = 'select time_zone as zone from counter union select time_zone from sequence'
  const zones = await connection.select<{ zone: Buffer }>(used).catch(noneWithoutTable)
  const unknown = zones.filter(({ zone }) => !isKnownZone(zone.toString()))
  const inUnknownZone = `time_zone in (${list(unknown, ({ zone }) => bytes(zone)) || 'null'})`
  const findings: string[] = []
  for (const { what, cure, rows, where } of curable(inUnknownZone)) {
    const reading = connection.select<NamedRow>(
      `select n.name as namespace, t.name
         from ${rows}
         join namespace n on n.id = t.namespace_id
        where ${where}`,
    )
    const matches = await reading.catch(noneWithoutTable)
    if (matches.length > 0) findings.push(`${what}: ${namesOf(matches)}. ${cure}.`)
  }
  return findings
}
