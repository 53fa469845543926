import { type DefaultConnectionArguments, resolveCursorConnection } from '@pothos/plugin-relay'
import type { GraphQLResolveInfo } from 'graphql'
import type { Page, PageByName } from '../core/counters/state.ts'
import { textArgument } from './arguments/names.ts'
import * as checks from './arguments.ts'
import { type Cursors, nameCursors } from './lists.ts'
import { type Budget, chargeList, room } from './valueBudget.ts'

const DEFAULT_PAGE_SIZE = 50

/** Cost of a page besides its items, counted in items: each page is a statement of its own. */
const STATEMENT_COST = 50

export const prefix = textArgument('Only names that start with this.')

/** Options of the lists ordered by name. */
export const listedByName = { nullable: true, args: { prefix }, extensions: { check: checks.page } } as const

/** Returns a page of a list ordered by name. */
export function pageByName<Item extends { name: string }>(
  { prefix, ...args }: DefaultConnectionArguments & { prefix: string },
  context: Budget,
  info: GraphQLResolveInfo,
  list: (page: PageByName) => Promise<Item[]>,
) {
  const listPage = (page: Page<string>) => list({ prefix, ...page })
  return connectionOf(args, context, info, nameCursors, listPage, ({ name }) => name)
}

/** Returns a page of an ordered list, as specified by Relay. */
export async function connectionOf<Item extends object, Position>(
  args: DefaultConnectionArguments,
  context: Budget,
  info: GraphQLResolveInfo,
  { encode, decode }: Cursors<Position>,
  list: (page: Page<Position>) => Promise<Item[]>,
  positionOf: (item: Item) => Position,
) {
  const values = chargeList(context, STATEMENT_COST + (args.first ?? args.last ?? DEFAULT_PAGE_SIZE), info)
  await room(context, values)
  const toCursor = (item: Item) => encode(positionOf(item))
  const { edges, pageInfo } = await resolveCursorConnection<Promise<Item[]>>(
    { args, defaultSize: DEFAULT_PAGE_SIZE, maxSize: checks.MAX_ITEMS, toCursor },
    ({ after, before, limit, inverted }) =>
      list({ after: decode('after', after), before: decode('before', before), limit, fromEnd: inverted }),
  )
  // For an empty page the library returns the requested cursor.
  if (edges.length === 0) return { edges, pageInfo: { ...pageInfo, startCursor: null, endCursor: null } }
  // The length of a cursor depends on the name in it.
  const lengths = edges.map((edge) => edge?.cursor.length ?? 0)
  await room(context, values + chargeList(context, 0, info, lengths))
  return { edges, pageInfo }
}
