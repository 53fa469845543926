import { randomInt } from 'node:crypto'

const MOST = 2 ** 31

/**
 * The first version of a row, at random: after a failover that lost rows a server gives their ids to others, and who
 * still knows the lost row by such an id must not meet its version there.
 */
export function firstVersion(): number {
  return randomInt(1, MOST)
}
