/**
 * What orders the states of a counter or group: the higher revision is the newer state. A new row carries the time at
 * which it was made, in microseconds since 2020 by the database's clock. Its first change replaces that by the time
 * then, from which on each applied call adds 1, but for those that add 0.
 *
 * A name without a row reads the time of reading. Who reads it before the row is committed gets an earlier time than
 * that of the first change, which comes after that commit; and what is made anew after a deletion has a later one than
 * what was deleted, as no row is changed a million times a second.
 */
export const REVISION_OF_NOW = "timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))"

/**
 * Sets the column `revision` of a row where it is raised.
 *
 * @param isNew the condition that a row was never changed
 * @param raise a number, or an expression
 * @param first what a row begins with that was never changed
 */
export function raisedRevision(
  isNew: string,
  raise: number | string,
  first: number | string = REVISION_OF_NOW,
): string {
  return `revision = if(${isNew}, ${first}, revision) + ${raise}`
}

/** The statement that reads what rows begin with that are changed for the first time in this transaction. */
export const READ_FIRST_REVISION = `select ${REVISION_OF_NOW} as first`
