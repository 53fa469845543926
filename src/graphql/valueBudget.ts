import type { GraphQLResolveInfo } from 'graphql'
import type { HistoryCost } from '../core/counters/history.ts'
import { NthError } from '../core/errors.ts'
import { costOfText, createMeasure, fieldCount, sumBelow } from './selections.ts'

/*
 * Limits the values that one request may get in lists. @pothos/plugin-complexity can't: it estimates an operation from
 * its arguments before it runs and then rejects all of its fields, while the lengths of cursors and the rows behind a
 * history are only known while executing, and only the field that exceeds the budget fails.
 */

/**
 * Maximum values in the lists of one request: items times the fields selected in each. Fields that need a read count
 * more, and so do long texts.
 */
const MAX_LISTED_VALUES = 100_000

/** Fields that may need a read for each item of a list, and the additional values that they count as. */
const READS = new Map([
  ['history', 20],
  ['valueIn', 20],
  ['createdAt', 5],
  ['updatedAt', 5],
  ['timeZone', 5],
  ['sequence', 5],
  ['group', 5],
])

const additionalValues = createMeasure(
  (sum, field, below) => sum + below + (READS.get(field?.name.value ?? '') ?? 0),
)

/** Number of values selected in each object that a field returns; 1 for a scalar. */
function valuesBelow(info: GraphQLResolveInfo): number {
  return Math.max(1, sumBelow(fieldCount, info) + sumBelow(additionalValues, info))
}

/** What each request has spent. */
const spentBy = new WeakMap<object, { values: number } & HistoryCost>()

function spentIn(request: object) {
  const spent = spentBy.get(request) ?? { values: 0, buckets: 0, rows: 0 }
  spentBy.set(request, spent)
  return spent
}

/**
 * Charges a list that is about to be returned to its request's budget. A short document can request the same long list
 * many times, with many fields in each item.
 *
 * @param lengths of the texts in the items, whose cost beyond one value each is charged
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function spend(
  request: object,
  items: number,
  info: GraphQLResolveInfo,
  lengths: readonly number[] = [],
): void {
  const cost = lengths.reduce((sum, length) => sum + costOfText(length), items)
  spendValues(request, cost * valuesBelow(info))
}

/** The same for values that were already counted. */
export function spendValues(request: object, values: number): void {
  const spent = spentIn(request)
  spent.values += values
  if (spent.values > MAX_LISTED_VALUES)
    throw tooMuch('This request needs', MAX_LISTED_VALUES, 'values in lists; request fewer')
}

/** Maximum buckets in the histories of one request, with three fields each. */
const MAX_BUCKETS = 50_000
/** Maximum rows that these buckets may be computed from: about 20 MB. */
const MAX_ROWS = 250_000
const FIELDS_OF_A_BUCKET = 3

/**
 * Returns a function that charges a history that is about to be read to its request's budget. It throws BAD_USER_INPUT
 * with `limit` if the budget is exceeded.
 */
export function spendHistory(request: object, info: GraphQLResolveInfo) {
  return (cost: HistoryCost): void => {
    const spent = spentIn(request)
    spent.buckets += cost.buckets * Math.ceil(valuesBelow(info) / FIELDS_OF_A_BUCKET)
    spent.rows += cost.rows
    if (spent.buckets > MAX_BUCKETS)
      throw tooMuch('The requested history has', MAX_BUCKETS, 'buckets; request less')
    if (spent.rows > MAX_ROWS)
      throw tooMuch('The requested history is computed from', MAX_ROWS, 'stored totals; request less')
  }
}

function tooMuch(what: string, limit: number, unit: string): NthError {
  return new NthError('BAD_USER_INPUT', `${what} more than ${limit} ${unit} at a time.`, { limit })
}
