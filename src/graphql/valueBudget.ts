import type { GraphQLResolveInfo } from 'graphql'
import { untilRoom } from '../operations/ticks.ts'
import type { HistoryCost } from '../repository/history.ts'
import { NthError } from '../rules/errors.ts'
import { costOfText, createMeasure, responseName, sumBelow } from './selections.ts'

/*
 * The one budget of a request: the values that it may get in lists. @pothos/plugin-complexity can't do it: it estimates
 * an operation from its arguments before it runs and then rejects all of its fields, while the lengths of cursors and
 * the rows behind a history are only known while executing, and only the field that exceeds the budget fails.
 *
 * It is also the one gate: a request that has spent more than a few values waits for a tick of the event loop with room
 * for each further list, together with all others of its kind. It waits before it reads a list, and again before it
 * returns it, as the executor completes all items of a list in one tick.
 */

/** The budget of a request is a part of its context. */
export interface Budget {
  /** Values that were charged so far. */
  spentValues?: number
}

/** Maximum values of a request: items times the fields selected in each. */
const MAX_VALUES = 30_000

/** A request that has spent no more than this never waits. */
export const SMALL = 500

/**
 * What some fields cost beyond one value, for each item of a list: they may need a read, take some microseconds, or are
 * lists themselves.
 */
const ADDITIONAL_VALUES = new Map([
  ['valueIn', 20],
  ['history', 5],
  ['periods', 5],
  ['createdAt', 5],
  ['updatedAt', 5],
  ['timeZone', 5],
  ['sequence', 5],
  ['group', 5],
  ['id', 2],
])

const listedValues = createMeasure((sum, field, below) => {
  if (!field) return sum + below
  const { name, alias } = field
  // Clients with a cache add it everywhere.
  if (name.value === '__typename' && !alias) return sum
  const own = 1 + costOfText(responseName(field).length) + (ADDITIONAL_VALUES.get(name.value) ?? 0)
  // A history charges its buckets when it is read.
  return sum + own + (name.value === 'history' ? 0 : below)
})

/** Number of values selected in each object that a field returns; 1 for a scalar. */
function valuesBelow(info: GraphQLResolveInfo): number {
  return Math.max(1, sumBelow(listedValues, info))
}

/**
 * Charges values to the budget of a request.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function charge(request: Budget, values: number): void {
  request.spentValues = (request.spentValues ?? 0) + values
  if (request.spentValues <= MAX_VALUES) return
  const message = `This request needs more than ${MAX_VALUES} values in lists; request fewer at a time.`
  throw new NthError('BAD_USER_INPUT', message, { limit: MAX_VALUES })
}

/** Waits for a tick with room for some values; undefined: they and the request are small, and need no room. */
export function room({ spentValues = 0 }: Budget, values: number): Promise<void> | undefined {
  return Math.max(spentValues, values) > SMALL ? untilRoom(values) : undefined
}

/**
 * Charges a list that is about to be read. A short document can request the same long list many times, with many fields
 * in each item.
 *
 * @param lengths of the texts in the items, whose cost beyond one value each is charged
 * @returns its values
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function chargeList(
  request: Budget,
  items: number,
  info: GraphQLResolveInfo,
  lengths: readonly number[] = [],
): number {
  const values = lengths.reduce((sum, length) => sum + costOfText(length), items) * valuesBelow(info)
  charge(request, values)
  return values
}

/** Values of a bucket with up to three fields. */
const VALUES_OF_A_BUCKET = 2
const FIELDS_OF_A_BUCKET = 3
/** Work of a read besides its buckets, in values. It was charged with the list that it belongs to. */
const VALUES_OF_A_READ = 20
/** Stored totals that cost as much to read and to sum as a value costs to return. */
const ROWS_OF_A_VALUE = 2

/**
 * Returns a function that charges a history, or the total of a period, that is about to be read, and returns one that waits
 * for room. It throws BAD_USER_INPUT with `limit` if the budget is exceeded.
 */
export function historyCharge(request: Budget, info: GraphQLResolveInfo) {
  return ({ buckets, rows }: HistoryCost) => {
    const bucketValues = buckets * VALUES_OF_A_BUCKET * Math.ceil(valuesBelow(info) / FIELDS_OF_A_BUCKET)
    const values = Math.max(bucketValues, Math.ceil(rows / ROWS_OF_A_VALUE))
    charge(request, values)
    return () => room(request, values + VALUES_OF_A_READ)
  }
}
