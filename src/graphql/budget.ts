import type { GraphQLResolveInfo } from 'graphql'
import type { HistoryCost } from '../core/counters/history.ts'
import { NthError } from '../core/errors.ts'
import { costOfText, valuesBeneath } from './fieldCount.ts'

/**
 * Maximum values in the lists of one request: items times the fields selected in each. Fields that need a read count
 * more, and so do long texts.
 */
const MAX_LISTED_VALUES = 100_000

const spent = new WeakMap<object, number>()

/**
 * Charges a list that is about to be returned to its request's budget. A short document can request the same long list
 * many times, with many fields in each item.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function spend(request: object, items: number, info: GraphQLResolveInfo): void {
  spendValues(request, items * valuesBeneath(info))
}

/** Charges what the texts in a list's items cost beyond one value each. */
export function spendTexts(request: object, lengths: Iterable<number>, info: GraphQLResolveInfo): void {
  let cost = 0
  for (const length of lengths) cost += costOfText(length)
  if (cost > 0) spendValues(request, cost * valuesBeneath(info))
}

/** The same for values that were already counted. */
export function spendValues(request: object, values: number): void {
  const sum = (spent.get(request) ?? 0) + values
  spent.set(request, sum)
  if (sum <= MAX_LISTED_VALUES) return
  throw new NthError(
    'BAD_USER_INPUT',
    `This request needs more than ${MAX_LISTED_VALUES} values in lists; request fewer at a time.`,
    { limit: MAX_LISTED_VALUES },
  )
}

/** Maximum buckets in the histories of one request, with three fields each. */
const MAX_BUCKETS = 50_000
/** Maximum rows that these buckets may be computed from: about 20 MB. */
const MAX_ROWS = 250_000
const FIELDS_OF_A_BUCKET = 3

const spentOnHistory = new WeakMap<object, HistoryCost>()

/**
 * Charges a history that is about to be read to its request's budget.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function spendHistory(request: object, cost: HistoryCost, info: GraphQLResolveInfo): void {
  const before = spentOnHistory.get(request) ?? { buckets: 0, rows: 0 }
  const buckets = before.buckets + cost.buckets * Math.ceil(valuesBeneath(info) / FIELDS_OF_A_BUCKET)
  const rows = before.rows + cost.rows
  spentOnHistory.set(request, { buckets, rows })
  if (buckets > MAX_BUCKETS) throw tooMuch(`has more than ${MAX_BUCKETS} buckets`, MAX_BUCKETS)
  if (rows > MAX_ROWS) throw tooMuch(`is computed from more than ${MAX_ROWS} stored totals`, MAX_ROWS)
}

function tooMuch(what: string, limit: number): NthError {
  return new NthError('BAD_USER_INPUT', `The requested history ${what}; request less at a time.`, { limit })
}
