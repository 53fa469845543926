import type { Call, CallQueue } from './call.ts'

/** Keys of rows and claims that failed and would delay the others: another session locks them, or a trigger refuses. */
export interface Quarantine {
  /** The quarantined key that a call touches; undefined: none. */
  keyOf(call: Call): string | undefined
  /** Quarantines a key and adds calls that wait for it. `first`: before those that wait already. */
  add(key: string, calls: readonly Call[], first?: boolean): void
  /** A key that calls wait for and that no writer has. The writer has it until it is put back or released. */
  next(): { key: string; calls: readonly Call[] } | undefined
  /** The attempt failed. */
  putBack(key: string): void
  /** The attempt succeeded: the key leaves the quarantine. Returns the calls that still wait for it. */
  release(key: string): readonly Call[]
}

interface Entry extends CallQueue {
  calls: Set<Call>
  isTried: boolean
}

/** Maximum number of keys without waiting calls. */
const MAX_IDLE = 1000

/** @param pick chooses the calls of one attempt */
export function openQuarantine(pick: (waiting: Iterable<Call>) => readonly Call[]): Quarantine {
  // Least recently tried first.
  const quarantine = new Map<string, Entry>()

  function open(key: string): Entry {
    const calls = new Set<Call>()
    const entry: Entry = { calls, isTried: false, remove: (call) => calls.delete(call) }
    quarantine.set(key, entry)
    if (quarantine.size > MAX_IDLE) dropIdle()
    return entry
  }

  function dropIdle(): void {
    for (const [key, { calls, isTried }] of quarantine) {
      if (calls.size === 0 && !isTried) {
        quarantine.delete(key)
        return
      }
    }
  }

  return {
    keyOf({ operations, request: { claim } }) {
      if (quarantine.size === 0) return undefined
      if (claim && quarantine.has(claim.key)) return claim.key
      for (const { row } of operations) {
        if (quarantine.has(row.key)) return row.key
        if (row.kind === 'sequenceGroup' && quarantine.has(row.sequenceKey)) return row.sequenceKey
      }
      return undefined
    },

    add(key, calls, first = false) {
      const entry = quarantine.get(key) ?? open(key)
      const behind = first ? [...entry.calls] : []
      for (const call of behind) entry.calls.delete(call)
      for (const call of calls) call.waitIn(entry)
      for (const call of [...calls, ...behind]) if (!call.isAnswered) entry.calls.add(call)
    },

    next() {
      for (const [key, entry] of quarantine) {
        if (entry.isTried || entry.calls.size === 0) continue
        entry.isTried = true
        return { key, calls: pick(entry.calls) }
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

    release(key) {
      const entry = quarantine.get(key)
      quarantine.delete(key)
      return [...(entry?.calls ?? [])]
    },
  }
}
