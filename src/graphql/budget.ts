import type { GraphQLResolveInfo } from 'graphql'
import { NthError } from '../core/errors.ts'
import type { HistoryCost } from '../core/history.ts'
import { costOfText, valuesBeneath } from './fieldCount.ts'

/**
 * The most values that the lists of one request may give: items times the fields asked for in each. What takes a read
 * counts as more, and so do long texts.
 */
const MAX_LISTED_VALUES = 100_000

const spent = new WeakMap<object, number>()

/**
 * Counts what a list is about to give towards what its request may have. A short document can ask for the
 * same long list many times, with many fields in each item.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` when it is too much
 */
export function spend(request: object, items: number, info: GraphQLResolveInfo): void {
  spendValues(request, items * valuesBeneath(info))
}

/** Counts what the texts in each of a list's items make of its values, beyond that they are values. */
export function spendTexts(request: object, lengths: Iterable<number>, info: GraphQLResolveInfo): void {
  let cost = 0
  for (const length of lengths) cost += costOfText(length)
  if (cost > 0) spendValues(request, cost * valuesBeneath(info))
}

/** The same for values that are counted already. */
export function spendValues(request: object, values: number): void {
  const sum = (spent.get(request) ?? 0) + values
  spent.set(request, sum)
  if (sum <= MAX_LISTED_VALUES) return
  throw new NthError(
    'BAD_USER_INPUT',
    `This request asks for more than ${MAX_LISTED_VALUES} values in lists; ask for fewer at a time.`,
    { limit: MAX_LISTED_VALUES },
  )
}

/** The most buckets that the histories of one request may have, each with three fields. */
const MAX_BUCKETS = 50_000
/** The most rows that these buckets may be added up from: about 20 MB. */
const MAX_ROWS = 250_000
const FIELDS_OF_A_BUCKET = 3

const spentOnHistory = new WeakMap<object, HistoryCost>()

/**
 * Counts what a history is about to take towards what its request may.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` when it is too much
 */
export function spendHistory(request: object, cost: HistoryCost, info: GraphQLResolveInfo): void {
  const before = spentOnHistory.get(request) ?? { buckets: 0, rows: 0 }
  const buckets = before.buckets + cost.buckets * Math.ceil(valuesBeneath(info) / FIELDS_OF_A_BUCKET)
  const rows = before.rows + cost.rows
  spentOnHistory.set(request, { buckets, rows })
  if (buckets > MAX_BUCKETS) throw tooMuch(`has more than ${MAX_BUCKETS} buckets`, MAX_BUCKETS)
  if (rows > MAX_ROWS) throw tooMuch(`is added up from more than ${MAX_ROWS} finer periods`, MAX_ROWS)
}

function tooMuch(what: string, limit: number): NthError {
  return new NthError(
    'BAD_USER_INPUT',
    `The history that this request asks for ${what}; ask for less at a time.`,
    { limit },
  )
}
