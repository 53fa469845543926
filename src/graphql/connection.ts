import { type DefaultConnectionArguments, resolveCursorConnection } from '@pothos/plugin-relay'
import type { GraphQLResolveInfo } from 'graphql'
import { inTurns } from '../core/turns.ts'
import { spend, spendTexts } from './budget.ts'
import { MAX_ITEMS } from './checks.ts'
import { fieldsBeneath } from './fieldCount.ts'

const DEFAULT_PAGE_SIZE = 50

/** What a page costs beside its items, in items: it is a statement of its own. */
const STATEMENT_COST = 50

/** Which items a page of a list wants. */
export interface PageBounds<Place> {
  after: Place | undefined
  before: Place | undefined
  limit: number
  fromEnd: boolean
}

/** A list in some order, and how places in it are written. */
export interface OrderedList<Item, Place> {
  list: (bounds: PageBounds<Place>) => Promise<Item[]>
  toCursor: (item: Item) => string
  /** @throws {NthError} BAD_USER_INPUT for what `toCursor` can't have made */
  fromCursor: (argument: 'after' | 'before', cursor: string | undefined) => Place | undefined
}

/** A page of an ordered list, as the Relay specification describes it. */
export async function connectionOf<Item extends object, Place>(
  args: DefaultConnectionArguments,
  context: object,
  info: GraphQLResolveInfo,
  { list, toCursor, fromCursor }: OrderedList<Item, Place>,
) {
  spend(context, STATEMENT_COST + (args.first ?? args.last ?? DEFAULT_PAGE_SIZE), info)
  const { edges, pageInfo } = await resolveCursorConnection<Promise<Item[]>>(
    { args, defaultSize: DEFAULT_PAGE_SIZE, maxSize: MAX_ITEMS, toCursor },
    ({ before, after, limit, inverted }) =>
      list({
        after: fromCursor('after', after),
        before: fromCursor('before', before),
        limit,
        fromEnd: inverted,
      }),
  )
  // Of an empty page the library gives the cursor that was asked with.
  if (edges.length === 0) return { edges, pageInfo: { ...pageInfo, startCursor: null, endCursor: null } }
  // A cursor is as long as the name that it is made of.
  const lengths = edges.map((edge) => edge?.cursor.length ?? 0)
  spendTexts(context, lengths, info)
  return { edges: await inTurns(edges, fieldsBeneath(info)), pageInfo }
}
