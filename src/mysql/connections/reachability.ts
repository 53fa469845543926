import { isSwitchover } from './errors.ts'

/** Called with whether an attempt to use the database succeeded, and if not, why. */
export type Note = (isReachable: boolean, reason?: unknown) => void

/**
 * Reported separately: a database that is read-only, or has a full disk, is still reachable. Only a successful change
 * shows that changes are possible again.
 */
export interface Notes {
  connecting: Note
  writing: Note
}

/** Calls `onReachable` whenever the overall state changes: with a reason when the database becomes unreachable. */
export function openNotes(onReachable: (reason?: unknown) => void): Notes {
  const failing = new Set<keyof Notes>()

  const noteOf =
    (what: keyof Notes): Note =>
    (isReachable, reason) => {
      const wasReachable = failing.size === 0
      if (isReachable) failing.delete(what)
      else failing.add(what)
      if (wasReachable !== (failing.size === 0)) onReachable(isReachable ? undefined : reason)
    }

  return { connecting: noteOf('connecting'), writing: noteOf('writing') }
}

/**
 * Reports a server that rejects writes only on the second rejection in a row: on the first, the server may just have
 * been replaced, and this may be the last connection that leads to it.
 */
export function afterSwitchover(note: Note): Note {
  let isSecond = false
  return (isReachable, reason) => {
    const isNoted = isReachable || isSecond || !isSwitchover(reason)
    isSecond = !isReachable && isSwitchover(reason)
    if (isNoted) note(isReachable, reason)
  }
}
