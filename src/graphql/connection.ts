import { type DefaultConnectionArguments, resolveCursorConnection } from '@pothos/plugin-relay'
import type { GraphQLResolveInfo } from 'graphql'
import { spend } from './budget.ts'
import { MAX_ITEMS } from './checks.ts'
import { decodeCursor, encodeCursor } from './cursors.ts'

const DEFAULT_PAGE_SIZE = 50

/** What a page costs beside its items, in items: it is a statement of its own. */
const STATEMENT_COST = 50

/** Which items a page of a list ordered by name wants. */
export interface PageBounds {
  after: string | undefined
  before: string | undefined
  limit: number
  fromEnd: boolean
}

/** A page of a list that is ordered by name, as the Relay specification describes it. */
export async function connectionByName<Item extends { name: string }>(
  args: DefaultConnectionArguments,
  context: object,
  info: GraphQLResolveInfo,
  list: (bounds: PageBounds) => Promise<Item[]>,
) {
  spend(context, STATEMENT_COST + (args.first ?? args.last ?? DEFAULT_PAGE_SIZE), info)
  const { edges, pageInfo } = await resolveCursorConnection<Promise<Item[]>>(
    {
      args,
      defaultSize: DEFAULT_PAGE_SIZE,
      maxSize: MAX_ITEMS,
      toCursor: ({ name }) => encodeCursor(name),
    },
    ({ before, after, limit, inverted }) =>
      list({
        after: decodeCursor('after', after),
        before: decodeCursor('before', before),
        limit,
        fromEnd: inverted,
      }),
  )
  // Of an empty page the library gives the cursor that was asked with.
  return edges.length > 0
    ? { edges, pageInfo }
    : { edges, pageInfo: { ...pageInfo, startCursor: null, endCursor: null } }
}
