import { bytes, hex, instant, integer, list, orNull } from '../mysql/sql.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import type { ReservationState, SequenceGroupKey, StoredReservation } from '../rules/sequence.ts'
import {
  isDescending,
  type PastFormat,
  type Position,
  type SequenceDefinition,
} from '../rules/sequenceDefinition.ts'
import { PERIOD_CODES, periodCoded } from './periodStatements.ts'

/** States by their code in the database. */
const STATES: readonly ReservationState[] = ['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']

export const OPEN = codeOf('RESERVED')
const EXPIRED = codeOf('EXPIRED')

/** A sequence group in a period. */
type SequenceGroupPlace = { id: number; periodKey: number; definition: SequenceDefinition }

/**
 * Reads the released numbers of the current generation, and the expired ones by the database's clock: of each, those to
 * be reissued first. Locking reads and writes here require the lock on the sequence group's row.
 *
 * Expired numbers are searched for among all open ones, in the order of the numbers, and only if there are any: so a
 * large number of them takes no longer than one.
 */
export function readFree(
  { id, periodKey, definition }: SequenceGroupPlace,
  count: number,
  lock = 'for update',
): string[] {
  const { minValue, maxValue } = definition
  const place = `group_id = ${integer(id)} and period_key = ${integer(periodKey)}`
  // The generation is a subquery: with a join, the server would not use an index for the order.
  const freeIn = (index: string, condition: string) => `select group_id, value
  from reservation force index (${index})
 where ${place} and generation = (select generation from sequence_value where ${place} ${lock})
   and ${condition}
   and value between ${integer(minValue ?? Number.MIN_SAFE_INTEGER)} and ${integer(maxValue ?? Number.MAX_SAFE_INTEGER)}
 order by value ${isDescending(definition) ? 'desc' : 'asc'}
 limit ${integer(count)} ${lock}`
  const isExpired = `state = ${OPEN} and expires_at <= utc_timestamp(3)
   and (select min(o.expires_at)
          from reservation o force index (reservation_open)
         where o.group_id = ${integer(id)} and o.state = ${OPEN}) <= utc_timestamp(3)`
  return [freeIn('reservation_free', 'is_free = 1'), freeIn('reservation_held', isExpired)]
}

/** Reads the same without locks: the first of each kind. */
export function readFirstFree(place: SequenceGroupPlace): string {
  return readFree(place, 1, '')
    .map((statement) => `(${statement})`)
    .join('\nunion all\n')
}

/** Numbers in the order in which they are issued. */
export function inOrder(numbers: readonly number[], definition: SequenceDefinition): number[] {
  return numbers.toSorted((a, b) => (isDescending(definition) ? b - a : a - b))
}

/** Reads the current state of reservations whose sequences exist, with their sequence groups. */
export function readPresent(tokens: readonly string[]): string {
  return `select r.token, r.group_id, r.period_key, r.generation, r.value, r.formatted, r.is_free, r.expires_at,
       if(r.state = ${OPEN} and r.expires_at <= utc_timestamp(3), ${EXPIRED}, r.state) as state,
       n.name as namespace, s.name as sequence, g.name as its_group
  from reservation r
  join sequence_group g on g.id = r.group_id
  join sequence s on s.id = g.sequence_id
  join namespace n on n.id = s.namespace_id
 where r.${isToken(tokens)}`
}

/** Locks and reads reservations. */
export function lockReservations(index: 'primary' | 'reservation_free', condition: string): string {
  return `select token, group_id, period_key, generation, value, formatted, state, is_free, expires_at
  from reservation force index (${index})
 where ${condition}
 order by token
   for update`
}

/** The condition of reservations with tokens. */
export function isToken(tokens: readonly string[]): string {
  return `token in (${list(tokens, hex)})`
}

export type ReservationRow = Record<
  'group_id' | 'period_key' | 'generation' | 'value' | 'state' | 'is_free',
  number
> &
  Record<'token' | 'formatted', Buffer> & { expires_at: Date }

export function reservationIn(row: ReservationRow): StoredReservation {
  return {
    kind: 'reservation',
    token: row.token.toString('hex'),
    value: row.value,
    formatted: row.formatted.toString(),
    state: STATES[row.state] ?? 'EXPIRED',
    expiresAt: row.expires_at.getTime(),
    periodKey: row.period_key,
    generation: row.generation,
    isFree: row.is_free === 1,
  }
}

/** Its code in the database. */
export function codeOf(state: ReservationState): number {
  return STATES.indexOf(state)
}

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
    restartEvery: periodCoded(row.restart_every),
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
interface StoredPosition extends Position {
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
       s.id as sequence_id, s.version, s.subject_salt, ${SEQUENCE_COLUMNS}`

export type KeyRow = Record<'namespace' | 'sequence' | 'its_group', Buffer>

export type RecordRow = KeyRow &
  SequenceDefinitionRow &
  Record<'id' | 'identity' | 'sequence_id' | 'version', number> & { subject_salt: Buffer | null }

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
    salt: row.subject_salt?.toString('hex'),
    issuedIn: undefined,
  }
}
