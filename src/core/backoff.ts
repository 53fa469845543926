/** Between attempts at a statement or a transaction. Multiply by a random number: those that collided must part. */
export const RETRY = { shortestMs: 20, longestMs: 200 }

/**
 * After a conflict with another process. The other one won and doesn't pause, so who pauses for longer loses to it again
 * and again: on Galera, one of two servers at two nodes got nothing done for 10 s. In `npm run faults -- --engine
 * galera-10.11 --faults none --seconds 75` on two busy cores, 64 callers, one run each: with 200 ms 823 of 222 000 calls
 * took more than a second, the longest 5.2 s; with 40 ms 175 of 315 000, the longest 1.6 s.
 */
export const CONFLICT = { shortestMs: 20, longestMs: 40 }

/** Before a process that ended is started again. */
export const RESTART = { shortestMs: 200, longestMs: 5_000 }

/** The pause after a number of failures in a row, doubled after each: the shortest after the first. 0 for none. */
export function backoffMs({ shortestMs, longestMs }: typeof RETRY, failures: number): number {
  return failures === 0 ? 0 : Math.min(shortestMs * 2 ** (failures - 1), longestMs)
}
