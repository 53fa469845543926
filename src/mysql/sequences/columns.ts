import { PERIOD_CODES } from '../../commit/periodStatements.ts'
import type { PastFormat, SequenceDefinition } from '../../core/sequences/definition.ts'
import type { SequenceGroupKey } from '../../core/sequences/store.ts'
import { PERIODS } from '../../rules/calendar.ts'
import type { SequenceGroupRow } from '../../rules/rows.ts'
import type { Position } from '../../rules/sequenceDefinition.ts'
import { bytes, instant, integer, list, orNull } from '../literals.ts'

/** A sequence exists for readers once it is defined, or one of its sequence groups has issued a number. */
export const SEQUENCE_EXISTS = `(s.is_defined or exists (
              select 1
                from sequence_group u
               where u.sequence_id = s.id and u.version > 0))`

/** The columns of a sequence definition, of the table with alias s. */
export const SEQUENCE_COLUMNS = `s.start_value, s.step, s.min_value, s.max_value, s.cycles, s.format as its_format,
       s.restart_every, s.allow_repeats, s.time_zone as its_zone, s.gapless`

export type SequenceDefinitionRow = Record<'start_value' | 'step', number> &
  Record<'min_value' | 'max_value' | 'restart_every', number | null> &
  Record<'cycles' | 'allow_repeats' | 'gapless', number> & { its_format: Buffer | null; its_zone: Buffer }

export function sequenceDefinitionIn(row: SequenceDefinitionRow): SequenceDefinition {
  return {
    startValue: row.start_value,
    step: row.step,
    minValue: row.min_value,
    maxValue: row.max_value,
    cycle: row.cycles === 1,
    format: row.its_format?.toString() ?? null,
    restartEvery: PERIODS.find((period) => PERIOD_CODES[period] === row.restart_every) ?? null,
    allowRepeats: row.allow_repeats === 1,
    timeZone: row.its_zone.toString('latin1'),
    gapless: row.gapless === 1,
  }
}

/** The assignments that store a sequence definition. */
export function sequenceDefinitionSet(definition: SequenceDefinition, formatHistory: readonly PastFormat[]) {
  const { startValue, step, minValue, maxValue, cycle, format, restartEvery } = definition
  return `start_value = ${integer(startValue)},
       step = ${integer(step)},
       min_value = ${orNull(minValue, integer)},
       max_value = ${orNull(maxValue, integer)},
       cycles = ${cycle},
       format = ${orNull(format, bytes)},
       restart_every = ${restartEvery === null ? 'null' : PERIOD_CODES[restartEvery]},
       allow_repeats = ${definition.allowRepeats},
       time_zone = ${bytes(definition.timeZone)},
       gapless = ${definition.gapless},
       format_history = ${formatHistory.length === 0 ? 'null' : bytes(JSON.stringify(formatHistory))}`
}

/** What `sequence_value` has of a sequence group in a period. */
export interface StoredPosition extends Position {
  groupId: number
  period: number
  generation: number
  createdAt: Date | null
  /** Null: unchanged. */
  updatedAt: Date | null
}

/** Stores positions, whose rows exist and are locked. */
export function storePositions(positions: readonly StoredPosition[]): string {
  const values = list(positions, ({ groupId, period, last, next, generation, createdAt, updatedAt }) => {
    const numbers = `${orNull(last, integer)}, ${orNull(next, integer)}, ${integer(generation)}`
    const times = `${orNull(createdAt, instant)}, ${orNull(updatedAt, instant)}`
    return `(${integer(groupId)}, ${integer(period)}, ${numbers}, ${times})`
  })
  return `insert into sequence_value
  (group_id, period_key, value, next_value, generation, created_at, updated_at)
values ${values}
on duplicate key update
       value = values(value),
       next_value = values(next_value),
       generation = values(generation),
       created_at = coalesce(created_at, values(created_at)),
       updated_at = coalesce(values(updated_at), updated_at)`
}

/** Columns of a sequence group's record. Table aliases: n, s and g. */
export const RECORD = `n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.identity,
       s.id as sequence_id, s.version, ${SEQUENCE_COLUMNS}`

export type KeyRow = Record<'namespace' | 'sequence' | 'its_group', Buffer>

export type RecordRow = KeyRow &
  SequenceDefinitionRow &
  Record<'id' | 'identity' | 'sequence_id' | 'version', number>

export function keyIn({ namespace, sequence, its_group }: KeyRow): SequenceGroupKey {
  return { namespace: namespace.toString(), sequence: sequence.toString(), group: its_group.toString() }
}

export function recordIn(row: RecordRow, incarnation: number): SequenceGroupRow {
  const { id, identity, version, sequence_id: sequenceId } = row
  return {
    kind: 'sequenceGroup',
    key: `group ${id} version ${version}`,
    group: row.its_group.toString(),
    definition: sequenceDefinitionIn(row),
    id,
    sequenceId,
    identity,
    incarnation,
    version,
    issuedIn: undefined,
  }
}
