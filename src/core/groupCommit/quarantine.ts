import { firstOf } from '../../commit/batch.ts'
import type { Call } from '../../commit/call.ts'

/** Maximum number of keys without waiting calls. */
const MAX_IDLE = 1000

/** Keys of rows and claims that failed and would delay the others: another session locks them, or a trigger refuses. */
export function openQuarantine() {
  // Least recently tried first.
  const quarantine = new Map<string, { calls: Set<Call>; isTried: boolean }>()

  function open(key: string) {
    // Before the new one is added: it has no calls yet either.
    if (quarantine.size >= MAX_IDLE) {
      const idle = [...quarantine].find(([, { calls, isTried }]) => calls.size === 0 && !isTried)
      if (idle) quarantine.delete(idle[0])
    }
    const entry = { calls: new Set<Call>(), isTried: false }
    quarantine.set(key, entry)
    return entry
  }

  return {
    /** The quarantined key that a call touches; undefined: none. */
    keyOf({ operations, request: { claim } }: Call): string | undefined {
      if (quarantine.size === 0) return undefined
      if (claim && quarantine.has(claim.key)) return claim.key
      return operations.find(({ row }) => quarantine.has(row.key))?.row.key
    },

    /** Quarantines a key and adds calls that wait for it. `first`: before those that wait already. */
    add(key: string, calls: readonly Call[], first = false) {
      const entry = quarantine.get(key) ?? open(key)
      const behind = first ? [...entry.calls] : []
      for (const call of [...calls, ...behind]) call.waitIn(entry.calls)
    },

    /** A key that calls wait for and that no writer has. The writer has it until it is put back or released. */
    next() {
      for (const [key, entry] of quarantine) {
        if (entry.isTried || entry.calls.size === 0) continue
        entry.isTried = true
        return { key, calls: firstOf(entry.calls) }
      }
      return undefined
    },

    /** The attempt failed. */
    putBack(key: string) {
      const entry = quarantine.get(key)
      if (!entry) return
      entry.isTried = false
      quarantine.delete(key)
      quarantine.set(key, entry)
    },

    /** The attempt succeeded: the key leaves the quarantine. Returns the calls that still wait for it. */
    release(key: string): readonly Call[] {
      const entry = quarantine.get(key)
      quarantine.delete(key)
      return [...(entry?.calls ?? [])]
    },
  }
}
