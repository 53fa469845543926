import { randomInt } from 'node:crypto'

const MOST = 2 ** 31

/**
 * Initial version of a row, chosen at random: after a failover that lost rows, a server reuses their ids, and a process
 * that cached a lost row must not find its version under that id.
 */
export function firstVersion(): number {
  return randomInt(1, MOST)
}
