import type { Call, Place } from './calls.ts'
import type { Row } from './lane.ts'
import { type Run, runOf } from './runs.ts'

/** Rows that failed, and would hold up the others: somebody holds them locked, or a trigger refuses. */
export interface Suspects<R extends Row> {
  has(row: R): boolean
  /** Adds calls that wait for a row, which makes it a suspect; `first`: before those that wait already. */
  add(row: R, calls: readonly Call[], first?: boolean): void
  /** Takes out the calls of a row that nobody tries now, and counts as trying it until it is put back or cleared. */
  next(): Run<R> | undefined
  /** Ends a try that failed. */
  putBack(row: R): void
  /** Ends a try that succeeded: the row is one like the others. Returns what came meanwhile. */
  clear(row: R): Call[]
}

interface Suspect<R extends Row> extends Place {
  row: R
  calls: Set<Call>
  isTried: boolean
}

/** How many rows are remembered that nobody waits for. */
const REMEMBERED = 1000

export function openSuspects<R extends Row>(): Suspects<R> {
  // Those that were tried longest ago come first.
  const suspects = new Map<string, Suspect<R>>()

  function open(row: R): Suspect<R> {
    const calls = new Set<Call>()
    const leave = (call: Call) => {
      call.place = undefined
      calls.delete(call)
    }
    const opened = { row, calls, isTried: false, leave }
    suspects.set(row.key, opened)
    if (suspects.size > REMEMBERED) forgetOne()
    return opened
  }

  function forgetOne(): void {
    for (const [key, { calls, isTried }] of suspects) {
      if (calls.size === 0 && !isTried) {
        suspects.delete(key)
        return
      }
    }
  }

  return {
    has: ({ key }) => suspects.has(key),

    add(row, calls, first = false) {
      const suspect = suspects.get(row.key) ?? open(row)
      const behind = first ? [...suspect.calls] : []
      for (const call of behind) suspect.calls.delete(call)
      for (const call of [...calls, ...behind]) {
        suspect.calls.add(call)
        call.place = suspect
      }
    },

    next() {
      for (const suspect of suspects.values()) {
        if (suspect.isTried || suspect.calls.size === 0) continue
        suspect.isTried = true
        const { run } = runOf(suspect.row, [...suspect.calls])
        for (const call of run.calls) suspect.leave(call)
        return run
      }
      return undefined
    },

    putBack(row) {
      const suspect = suspects.get(row.key)
      if (!suspect) return
      suspect.isTried = false
      suspects.delete(row.key)
      suspects.set(row.key, suspect)
    },

    clear(row) {
      const suspect = suspects.get(row.key)
      suspects.delete(row.key)
      const calls = [...(suspect?.calls ?? [])]
      for (const call of calls) suspect?.leave(call)
      return calls
    },
  }
}
