import type { Call, Place } from './calls.ts'
import type { Row } from './lane.ts'

/**
 * Keys of rows and claims that failed, and would hold up the others: somebody holds them locked, or a trigger
 * refuses.
 */
export interface Suspects<R extends Row> {
  /** A key that a call touches and that is suspect. */
  in(call: Call<R>): string | undefined
  /** Adds calls that wait for a key, which makes it a suspect; `first`: before those that wait already. */
  add(key: string, calls: readonly Call<R>[], first?: boolean): void
  /** Takes a key that nobody tries now and that calls wait for. It counts as tried until it is put back or cleared. */
  next(): { key: string; calls: Call<R>[] } | undefined
  /** Ends a try that failed. */
  putBack(key: string): void
  /** Ends a try that succeeded: the key is one like the others. Returns what came meanwhile. */
  clear(key: string): Call<R>[]
}

interface Suspect<R extends Row> extends Place<R> {
  calls: Set<Call<R>>
  isTried: boolean
}

/** How many keys are remembered that nobody waits for. */
const REMEMBERED = 1000

/** `pick`: the calls that one try may have, of those that wait. */
export function openSuspects<R extends Row>(pick: (waiting: Iterable<Call<R>>) => Call<R>[]): Suspects<R> {
  // Those that were tried longest ago come first.
  const suspects = new Map<string, Suspect<R>>()

  function open(key: string): Suspect<R> {
    const calls = new Set<Call<R>>()
    const leave = (call: Call<R>) => {
      call.place = undefined
      calls.delete(call)
    }
    const opened = { calls, isTried: false, leave }
    suspects.set(key, opened)
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
    in({ rows, claim }) {
      if (suspects.size === 0) return undefined
      if (claim && suspects.has(claim.key)) return claim.key
      for (const row of rows) {
        if (suspects.has(row.key)) return row.key
        if (row.kind === 'group' && suspects.has(row.sequenceKey)) return row.sequenceKey
      }
      return undefined
    },

    add(key, calls, first = false) {
      const suspect = suspects.get(key) ?? open(key)
      const behind = first ? [...suspect.calls] : []
      for (const call of behind) suspect.calls.delete(call)
      for (const call of [...calls, ...behind]) {
        suspect.calls.add(call)
        call.place = suspect
      }
    },

    next() {
      for (const [key, suspect] of suspects) {
        if (suspect.isTried || suspect.calls.size === 0) continue
        suspect.isTried = true
        const calls = pick(suspect.calls)
        for (const call of calls) suspect.leave(call)
        return { key, calls }
      }
      return undefined
    },

    putBack(key) {
      const suspect = suspects.get(key)
      if (!suspect) return
      suspect.isTried = false
      suspects.delete(key)
      suspects.set(key, suspect)
    },

    clear(key) {
      const suspect = suspects.get(key)
      suspects.delete(key)
      const calls = [...(suspect?.calls ?? [])]
      for (const call of calls) suspect?.leave(call)
      return calls
    },
  }
}
