let ending: Promise<void> | undefined

/**
 * Resolves at the end of the current tick of the event loop, for all callers together.
 *
 * So responses are written together, after all requests that were ready have been read. Written one by one, between one
 * request and the next, each wakes its client, and the processor alternates between reading, executing and writing: an
 * `increment` in memory then takes 87 µs of processor time rather than 42 (wrk with 64 connections, two cores, Node
 * 20). An idle server loses nothing: its tick ends at once.
 */
export function endOfTurn(): Promise<void> {
  ending ??= new Promise((resolve) => {
    setImmediate(() => {
      ending = undefined
      resolve()
    })
  })
  return ending
}
