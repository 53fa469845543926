/** Between attempts at a statement or a transaction. Multiply by a random number: those that collided must part. */
export const RETRY = { shortestMs: 20, longestMs: 200 }

/** Before a process that ended is started again. */
export const RESTART = { shortestMs: 200, longestMs: 5_000 }

/** The pause after a number of failures in a row, doubled after each: the shortest after the first. 0 for none. */
export function backoffMs({ shortestMs, longestMs }: typeof RETRY, failures: number): number {
  return failures === 0 ? 0 : Math.min(shortestMs * 2 ** (failures - 1), longestMs)
}
