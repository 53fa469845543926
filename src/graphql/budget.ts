import type { GraphQLResolveInfo } from 'graphql'
import { NthError } from '../core/errors.ts'
import { fieldsBeneath } from './fieldCount.ts'

/** The most values that the lists of one request may give: items times the fields asked for in each. */
const MAX_LISTED_VALUES = 100_000

const spent = new WeakMap<object, number>()

/**
 * Counts what a list is about to give towards what its request may have. A short document can ask for the
 * same long list many times, with many fields in each item.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` when it is too much
 */
export function spend(request: object, items: number, info: GraphQLResolveInfo): void {
  const sum = (spent.get(request) ?? 0) + items * fieldsBeneath(info)
  spent.set(request, sum)
  if (sum <= MAX_LISTED_VALUES) return
  throw new NthError(
    'BAD_USER_INPUT',
    `This request asks for more than ${MAX_LISTED_VALUES} values in lists; ask for fewer at a time.`,
    { limit: MAX_LISTED_VALUES },
  )
}
