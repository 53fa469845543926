/* The columns of counters and sequences, as readers see them. */
import { LRUCache } from 'lru-cache'
import { NOW_MS } from '../commit/holdStatements.ts'
import { HAS_HOLDS, periodCoded } from '../commit/periodStatements.ts'
import { type NamedRow, nameIn } from '../mysql/sql.ts'
import { PERIODS } from '../rules/calendar.ts'
import {
  type CounterState,
  type Definition,
  type PeriodLimit,
  type TrackedPeriod,
  UNBOUNDED,
  unwritten,
} from '../rules/counter.ts'
import type { SequenceGroupKey } from '../rules/sequence.ts'
import type { SequenceDefinition } from '../rules/sequenceDefinition.ts'

/** Columns of a counter's definition. Table alias: c. */
export const DEFINITION =
  "c.min_value, c.max_value, c.saturates, concat_ws(' ', c.slots, c.once_per, c.time_zone, c.periods) as kept"

export type DefinitionRow = Record<'min_value' | 'max_value', number | null> & {
  saturates: number
  kept: Buffer
}

/** Join condition of a counter's first row. Table aliases: c and v. */
export const JOIN_VALUE = 'v.counter_id = c.id and v.slot = 0'

/** A counter exists for readers from its first change or definition on. */
export const COUNTER_EXISTS = 'v.created_at is not null'

/** Expressions for a counter's row, or over all of them if it has slots. */
export const VALUE = overSlots('cast(sum(s.value) as signed)', 'v.value')
export const UPDATED_AT = overSlots('max(s.updated_at)', 'v.updated_at')
export const REVISION = overSlots('cast(sum(s.revision) as unsigned)', 'v.revision')

/** The instant by which holds of a counter have expired. */
const JUDGED_AT = `greatest(v.held_at, ${NOW_MS})`

/** What is held of a counter, and of that what has expired, as one text; null: no hold is open. Table alias: v. */
export const HELD = `if(v.first_expiry is null, null, concat_ws(' ', v.held_up, v.held_down, if(v.first_expiry > ${JUDGED_AT}, null, (
            select concat_ws(' ', sum(greatest(h.amount, 0)), -sum(least(h.amount, 0)))
              from hold h force index (hold_open)
             where h.counter_id = v.counter_id and h.open_until > v.held_at and h.open_until <= ${JUDGED_AT})))) as held`

export function heldIn({ held = null }: { held?: string | null }): Pick<CounterState, 'held' | 'heldDown'> {
  if (held === null) return { held: 0, heldDown: 0 }
  const [up = 0, down = 0, expiredUp = 0, expiredDown = 0] = held.split(' ').map(Number)
  return { held: up - expiredUp, heldDown: down - expiredDown }
}

/**
 * Columns of a counter. Table aliases: n, c and v. The sums of a counter with slots are one text: each subquery costs
 * every read a few percent of its time, even if no counter has slots.
 */
export const STATE = `n.name as namespace, c.name, ${DEFINITION},
                v.created_at, v.value, v.revision, v.updated_at, ${HELD},
                ${overSlots("concat_ws(' ', sum(s.value), sum(s.revision), max(s.updated_at))", 'null')} as slotted`

export interface StateRow extends DefinitionRow, NamedRow {
  /** Null: created by a call that was refused, or is still in flight. */
  created_at: Date | null
  value: number
  revision: number | string
  updated_at: Date | null
  held: string | null
  slotted: string | null
}

export function stateIn(row: StateRow): CounterState {
  // No spread and no destructuring of arrays: they take more time here than the whole rest of the read.
  const { namespace, name } = nameIn(row)
  const sums = row.slotted?.split(' ')
  const revision = Number(sums?.[1] ?? row.revision)
  if (row.created_at === null) return unwritten({ namespace, name }, revision)
  return {
    namespace,
    name,
    value: Number(sums?.[0] ?? row.value),
    definition: definitionIn(row),
    createdAt: row.created_at,
    // If no slot has a time, neither has the first.
    updatedAt: sums?.[2] === undefined ? row.updated_at : new Date(`${sums[2]}T${sums[3]}Z`),
    revision,
    ...heldIn(row),
  }
}

/** Cached definitions, without bounds. Most counters share a few. */
const unbounded = new LRUCache<string, Definition>({
  max: 1000,
  memoMethod(text) {
    const [slots, once, timeZone = '', periods = ''] = text.split(' ')
    const kept = { slots: Number(slots), oncePer: periodCoded(Number(once)) }
    return { ...UNBOUNDED, ...kept, timeZone, ...parsePeriods(periods) }
  },
})

export function definitionIn(row: DefinitionRow): Definition {
  const { min_value: minValue, max_value: maxValue, saturates } = row
  const definition = unbounded.memo(row.kept.toString('latin1'))
  if (minValue === null && maxValue === null && !saturates) return definition
  return { ...definition, minValue, maxValue, overflow: saturates ? 'SATURATE' : 'REJECT' }
}

/** Parses the column `periods`. */
export function parsePeriods(text: string) {
  const periods: TrackedPeriod[] = []
  const maxIn: PeriodLimit[] = []
  const texts = text === '' ? [] : text.split(',')
  const hasHolds = texts.at(-1) === HAS_HOLDS
  if (hasHolds) texts.pop()
  for (const tracked of texts) {
    const [, name, days, since, max] = /^([A-Z]+)(?::(\d+))?(?:@(-?\d+))?(?:<(\d+))?$/.exec(tracked) ?? []
    const period = PERIODS.find((each) => each === name)
    if (!period) throw new Error(`Unknown period in the database: "${tracked}"`)
    periods.push({ period, keepDays: days ? Number(days) : null, since: since ? Number(since) : null })
    if (max) maxIn.push({ period, max: Number(max) })
  }
  return { periods, maxIn, hasHolds }
}

function overSlots(sum: string, column: string): string {
  return `if(c.slots = 1, ${column}, (
            select ${sum}
              from counter_value s
             where s.counter_id = c.id))`
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

/** Cached sequence definitions: all groups of a sequence share one. */
const sequenceDefinitions = new LRUCache<string, SequenceDefinition>({ max: 1000 })

export function sequenceDefinitionIn(row: SequenceDefinitionRow): SequenceDefinition {
  const definition: SequenceDefinition = {
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
  const text = JSON.stringify(definition)
  const cached = sequenceDefinitions.get(text)
  if (!cached) sequenceDefinitions.set(text, definition)
  return cached ?? definition
}

export type KeyRow = Record<'namespace' | 'sequence' | 'its_group', Buffer>

export function keyIn({ namespace, sequence, its_group }: KeyRow): SequenceGroupKey {
  return { namespace: namespace.toString(), sequence: sequence.toString(), group: its_group.toString() }
}
