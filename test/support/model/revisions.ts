import type { CounterChange } from '../../../src/repository/counters.ts'

export const counter = { namespace: 'n', name: 'c' }
export const group = { namespace: 'n', sequence: 's', group: 'g' }
export const withRevision = { withRevision: true }
export const MICROSECONDS_A_DAY = 86_400_000_000

export function revisionOf({ revision }: { revision?: number | undefined }): number {
  if (revision === undefined) throw new Error('It has no revision')
  return revision
}

/** Makes what says by how much something raises a revision. */
export function riseOf(read: () => Promise<{ revision: number }>) {
  return async (work: () => Promise<unknown>) => {
    const before = await read()
    await work()
    return (await read()).revision - before.revision
  }
}

/** By how much the revision of a counter has risen beyond its value, which each call raises by 1. */
export function excessOf(change: CounterChange): number {
  return revisionOf(change) - change.value
}
