import type { Definition } from '../../../src/rules/counter.ts'

/** A definition with one slot, and without bounds and periods. */
export const PLAIN: Definition = { bounds: undefined, slots: 1, timeZone: 'UTC', periods: [] }
