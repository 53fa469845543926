import type { RowDataPacket } from 'mysql2'
import { type Bounds, UNBOUNDED } from '../core/bounds.ts'
import type { CounterState } from '../core/counters.ts'

/** What a statement reads of a counter's definition, by the table called c. */
export const DEFINITION = 'c.min_value, c.max_value, c.saturates'

/** A counter as a statement has read it. */
export function stateIn(row: RowDataPacket): CounterState {
  return {
    namespace: row.namespace.toString('utf8'),
    name: row.name.toString('utf8'),
    value: row.value,
    bounds: boundsIn(row) ?? UNBOUNDED,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** The bounds of a counter that has any, or has said what would happen at them. */
export function boundsIn({ min_value, max_value, saturates }: RowDataPacket): Bounds | undefined {
  if (min_value === null && max_value === null && !saturates) return undefined
  return { minValue: min_value, maxValue: max_value, overflow: saturates ? 'SATURATE' : 'REJECT' }
}
