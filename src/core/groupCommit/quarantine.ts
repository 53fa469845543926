import type { Row } from '../rows.ts'
import type { Call, CallQueue } from './pendingCalls.ts'

/** Keys of rows and claims that failed and would delay the others: another session locks them, or a trigger refuses. */
export interface Quarantine<R extends Row> {
  /** A quarantined key that a call touches. */
  in(call: Call<R>): string | undefined
  /** Quarantines a key and adds calls that wait for it. `first`: before those that wait already. */
  add(key: string, calls: readonly Call<R>[], first?: boolean): void
  /** Takes a key that calls wait for and that no writer has. The writer has it until it is put back or cleared. */
  next(): { key: string; calls: Call<R>[] } | undefined
  /** The attempt failed. */
  putBack(key: string): void
  /** The attempt succeeded: the key leaves the quarantine. Returns the calls that arrived in the meantime. */
  clear(key: string): Call<R>[]
}

interface Entry<R extends Row> extends CallQueue<R> {
  calls: Set<Call<R>>
  isTried: boolean
}

/** Maximum number of keys without waiting calls. */
const REMEMBERED = 1000

/** @param pick chooses the calls of one attempt */
export function openQuarantine<R extends Row>(
  pick: (waiting: Iterable<Call<R>>) => Call<R>[],
): Quarantine<R> {
  // Least recently tried first.
  const quarantine = new Map<string, Entry<R>>()

  function open(key: string): Entry<R> {
    const calls = new Set<Call<R>>()
    const leave = (call: Call<R>) => {
      call.queue = undefined
      calls.delete(call)
    }
    const opened = { calls, isTried: false, leave }
    quarantine.set(key, opened)
    if (quarantine.size > REMEMBERED) forgetOne()
    return opened
  }

  function forgetOne(): void {
    for (const [key, { calls, isTried }] of quarantine) {
      if (calls.size === 0 && !isTried) {
        quarantine.delete(key)
        return
      }
    }
  }

  return {
    in({ rows, claim }) {
      if (quarantine.size === 0) return undefined
      if (claim && quarantine.has(claim.key)) return claim.key
      for (const row of rows) {
        if (quarantine.has(row.key)) return row.key
        if (row.kind === 'group' && quarantine.has(row.sequenceKey)) return row.sequenceKey
      }
      return undefined
    },

    add(key, calls, first = false) {
      const entry = quarantine.get(key) ?? open(key)
      const behind = first ? [...entry.calls] : []
      for (const call of behind) entry.calls.delete(call)
      for (const call of [...calls, ...behind]) {
        entry.calls.add(call)
        call.queue = entry
      }
    },

    next() {
      for (const [key, entry] of quarantine) {
        if (entry.isTried || entry.calls.size === 0) continue
        entry.isTried = true
        const calls = pick(entry.calls)
        for (const call of calls) entry.leave(call)
        return { key, calls }
      }
      return undefined
    },

    putBack(key) {
      const entry = quarantine.get(key)
      if (!entry) return
      entry.isTried = false
      quarantine.delete(key)
      quarantine.set(key, entry)
    },

    clear(key) {
      const entry = quarantine.get(key)
      quarantine.delete(key)
      const calls = [...(entry?.calls ?? [])]
      for (const call of calls) entry?.leave(call)
      return calls
    },
  }
}
