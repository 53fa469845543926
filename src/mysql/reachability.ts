import { isSwitchover } from './errors.ts'

/** Told whether something could just be done with the database, and if not, why. */
export type Note = (isReachable: boolean, reason?: unknown) => void

/**
 * What is noted apart: a database that is read-only, or whose disk is full, can be reached all the time. Only a
 * change that was made says that changes can be made again.
 */
export interface Notes {
  connecting: Note
  writing: Note
}

/** Makes of many notes a word for an operator whenever the whole changes: with a reason when the database goes out of reach. */
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
 * Notes of a server that is no longer to be written to only when a second one says so, too: the first may just have been
 * replaced, and the connection to it is the last that leads there.
 */
export function afterSwitchover(note: Note): Note {
  let isSecond = false
  return (isReachable, reason) => {
    const isNoted = isReachable || isSecond || !isSwitchover(reason)
    isSecond = !isReachable && isSwitchover(reason)
    if (isNoted) note(isReachable, reason)
  }
}
