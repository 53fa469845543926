import { LRUCache } from 'lru-cache'
import type { RowDataPacket } from 'mysql2'
import type { Bounds } from '../core/bounds.ts'
import { type CounterState, unwritten } from '../core/counters.ts'
import type { Definition, Retention } from '../core/definition.ts'
import { BEGINNING } from './counting.ts'
import { retentionIn } from './retention.ts'

/** What a statement reads of a counter's definition, by the table called c. */
export const DEFINITION =
  "c.min_value, c.max_value, c.saturates, concat_ws(' ', c.slots, c.time_zone, c.periods) as kept"

/** The condition that names a counter's first row of all time, in statements that call the tables c and v. */
export const JOIN_ALL_TIME = `v.counter_id = c.id and v.period = 0 and v.starts_at = ${BEGINNING} and v.slot = 0`

/** A counter is there for readers from its first change or definition on. */
export const IS_WRITTEN = 'v.created_at is not null'

/** What a statement computes with of a counter's row of all time, or of its rows if it has slots. */
export const VALUE = overSlots('cast(sum(s.value) as signed)', 'v.value')
export const UPDATED_AT = overSlots('max(s.updated_at)', 'v.updated_at')
export const REVISION = overSlots('cast(sum(s.revision) as unsigned)', 'v.revision')

/**
 * What a statement reads of a counter, by the tables called n, c and v. The sums of a counter with slots come as one
 * text: a subquery costs each read a few hundredths of its time, also where no counter has slots.
 */
export const STATE = `n.name as namespace, c.name, ${DEFINITION},
                v.created_at, v.value, v.revision, v.updated_at,
                ${overSlots("concat_ws(' ', sum(s.value), sum(s.revision), max(s.updated_at))", 'null')} as slotted`

/** A counter as a statement has read it by STATE. */
export function stateIn(row: RowDataPacket): CounterState {
  const namespace: string = row.namespace.toString('utf8')
  const name: string = row.name.toString('utf8')
  const { value, revision, updatedAt } = row.slotted === null ? storedIn(row) : slottedIn(row.slotted)
  // Made by a call that was refused, or is still under way.
  if (row.created_at === null) return unwritten({ namespace, name }, revision)
  return {
    namespace,
    name,
    value,
    definition: definitionIn(row),
    createdAt: row.created_at,
    updatedAt,
    revision,
  }
}

function storedIn(row: RowDataPacket) {
  return { value: row.value, revision: Number(row.revision), updatedAt: row.updated_at }
}

function slottedIn(text: string) {
  const [value, revision, day, time] = text.split(' ')
  return {
    value: Number(value),
    revision: Number(revision),
    updatedAt: day === undefined ? null : new Date(`${day}T${time}Z`),
  }
}

/** Definitions without bounds, of which most counters share a few. */
const unbounded = new LRUCache<string, Definition>({ max: 1000 })

export function definitionIn(row: RowDataPacket): Definition {
  const text = row.kept.toString('latin1')
  const known = unbounded.get(text)
  const definition = known ?? unboundedOf(text)
  if (!known) unbounded.set(text, definition)
  const bounds = boundsIn(row)
  return bounds ? { ...definition, bounds } : definition
}

function unboundedOf(text: string): Definition {
  const [slots, timeZone = '', periods = ''] = text.split(' ')
  const retention: Retention = retentionIn(timeZone, periods)
  return { bounds: undefined, slots: Number(slots), ...retention }
}

/** The bounds of a counter that has any, or has said what would happen at them. */
function boundsIn({ min_value, max_value, saturates }: RowDataPacket): Bounds | undefined {
  if (min_value === null && max_value === null && !saturates) return undefined
  return { minValue: min_value, maxValue: max_value, overflow: saturates ? 'SATURATE' : 'REJECT' }
}

function overSlots(all: string, one: string): string {
  return `if(c.slots = 1, ${one}, (
            select ${all}
              from counter_value s
             where s.counter_id = c.id and s.period = 0 and s.starts_at = ${BEGINNING}))`
}
