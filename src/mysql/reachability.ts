/** Told whether the database could just be used, and if not, why. */
export type Note = (isReachable: boolean, reason?: unknown) => void

/** Makes of many notes a word for an operator whenever it changes: with a reason when the database goes out of reach. */
export function openNote(onReachable: (reason?: unknown) => void): Note {
  let wasReachable = true
  return (isReachable, reason) => {
    if (isReachable !== wasReachable) onReachable(reason)
    wasReachable = isReachable
  }
}
