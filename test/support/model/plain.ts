import { type Definition, UNBOUNDED } from '../../../src/rules/counter.ts'

/** A definition with one slot, and without bounds and periods. */
export const PLAIN: Definition = { ...UNBOUNDED, timeZone: 'UTC', periods: [] }
