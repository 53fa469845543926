import { randomInt } from 'node:crypto'

/**
 * Orders the states of a counter or sequence group: the higher revision is the newer state. A new row has the time of
 * its creation, in microseconds since 2020 by the database's clock. Its first change replaces that with the time of the
 * change. From then on each applied call adds 1, except those that add 0.
 *
 * A name without a row has the time of reading. A read before the row is committed returns an earlier time than that of
 * the first change, which comes after the commit. What is recreated after a deletion has a higher revision than what
 * was deleted, as no row is changed a million times a second.
 */
export const REVISION_OF_NOW = "timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))"

/** The assignment that raises `revision`, from `first` where the condition `isNew` says the row was never changed. */
export function raisedRevision(
  isNew: string,
  raise: number | string,
  first: number | string = REVISION_OF_NOW,
): string {
  return `revision = if(${isNew}, ${first}, revision) + ${raise}`
}

/**
 * Initial version of a row, chosen at random: after a failover that lost rows, a server reuses their ids, and a process
 * that cached a lost row must not find its version under that id.
 */
export function firstVersion(): number {
  return randomInt(1, 2 ** 31)
}
