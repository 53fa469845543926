import { type DefaultConnectionArguments, resolveCursorConnection } from '@pothos/plugin-relay'
import type { GraphQLResolveInfo } from 'graphql'
import type { HoldPosition } from '../repository/holds.ts'
import { MAX_SEARCHED, type NamePage, type Page, type PageByName } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import type { LeaderboardOrder, SortKey } from '../rules/leaderboards.ts'
import { nameFault, textFault } from '../rules/names.ts'
import { documentIdFault } from '../rules/trustedDocument.ts'
import * as checks from './arguments.ts'
import { MAX_ITEMS } from './arguments.ts'
import { textArgument } from './builder.ts'
import type { Context } from './context.ts'
import type { Right } from './rights.ts'
import { charge, chargeList, room } from './selections.ts'

export const DEFAULT_PAGE_SIZE = 50

/** Cost of a page besides its items, counted in items: each page is a statement of its own. */
export const STATEMENT_COST = 50

/** Cost of a search, which compares many names. */
const SEARCH_COST = 200

/** Which names a list has. */
export const namesArguments = {
  prefix: textArgument('Only names that start with this text.'),
  contains: textArgument(
    `Only names that contain this text, in upper or lower case. A page searches at most ${MAX_SEARCHED} names. So it may have fewer items than requested, even none, while there are more pages.`,
  ),
}

/** Options of a list ordered by name, which requires a right. */
export function listedByName(right: Right) {
  return { nullable: true, args: namesArguments, extensions: { check: checks.page, right } } as const
}

/** Returns a page of a list ordered by name. */
export async function pageByName<Item extends object>(
  { prefix, contains, ...args }: DefaultConnectionArguments & { prefix: string; contains: string },
  context: Context,
  info: GraphQLResolveInfo,
  list: (page: PageByName) => Promise<NamePage<Item>>,
  nameOf: (item: Item) => string,
  cursors = nameCursors,
) {
  if (contains !== '') charge(context, SEARCH_COST)
  let search: { end: string; fromEnd: boolean } | undefined
  async function listPage(page: Page<string>): Promise<Item[]> {
    const { items, searchedTo } = await list({ prefix, contains, ...page })
    // A full page ends with its last item.
    const isFull = items.length === page.limit
    if (searchedTo !== undefined && !isFull) search = { end: searchedTo, fromEnd: page.fromEnd }
    return items
  }
  const connection = await connectionOf(args, context, info, cursors, listPage, nameOf)
  if (!search) return connection
  const end = cursors.encode(search.end)
  const more = search.fromEnd
    ? { hasPreviousPage: true, startCursor: end }
    : { hasNextPage: true, endCursor: end }
  return { ...connection, pageInfo: { ...connection.pageInfo, ...more } }
}

/** Returns a page of an ordered list, as specified by Relay. */
export async function connectionOf<Item extends object, Position>(
  args: DefaultConnectionArguments,
  context: Context,
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
    ({ after, before, limit, inverted: fromEnd }) =>
      list({ after: decode('after', after), before: decode('before', before), limit, fromEnd }),
  )
  // For an empty page the library returns the requested cursor.
  if (edges.length === 0) return { edges, pageInfo: { ...pageInfo, startCursor: null, endCursor: null } }
  // The length of a cursor depends on the name in it.
  const lengths = edges.map((edge) => edge?.cursor.length ?? 0)
  await room(context, values + chargeList(context, 0, info, lengths))
  return { edges, pageInfo }
}

/** Cursors of an ordered list, created from the positions of its items. */
type Cursors<Position> = ReturnType<typeof createCursors<Position>>

/** A position in a leaderboard. `rank` starts at 1 at the top, if it is known. */
export interface LeaderboardPosition extends SortKey {
  rank?: number | undefined
}

/** Cursors in a list ordered by name: the name of the item. No name starts as the cursors of other lists do. */
export const nameCursors = createCursors('', (name: string) => (nameFault(name) ? undefined : name))

/** Cursors in a list of sequence groups. The prefix keeps the cursor of the unnamed one from being empty. */
export const sequenceGroupCursors = createCursors('\n', (name: string) =>
  textFault(name) ? undefined : name,
)

/** Cursors in the list of API keys: the number of the key. */
export const apiKeyCursors = createCursors('\n#', (text) => {
  const id = Number(text)
  return Number.isSafeInteger(id) && id > 0 ? id : undefined
})

/** Cursors in the list of the holds of a counter. */
export const holdCursors = createCursors<HoldPosition>(
  '\nh',
  (text) => {
    const [, expiresAt, amount, token = ''] = /^(\d{1,16}) (-?\d{1,16}) ([0-9a-f]{32})$/.exec(text) ?? []
    const position = { expiresAt: Number(expiresAt), amount: Number(amount), token }
    return Number.isSafeInteger(position.expiresAt) && Number.isSafeInteger(position.amount)
      ? position
      : undefined
  },
  ({ expiresAt, amount, token }) => `${expiresAt} ${amount} ${token}`,
)

/** Cursors in the list of trusted documents: the ID of the document. */
export const documentCursors = createCursors('\nd', (id) => (documentIdFault(id) ? undefined : id))

/** The last millisecond that a `datetime` can hold. */
const LAST_INSTANT = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

export const leaderboardCursors: Record<LeaderboardOrder, Cursors<LeaderboardPosition>> = {
  VALUE_DESC: createLeaderboardCursors('\n>'),
  VALUE_ASC: createLeaderboardCursors('\n<'),
  UPDATED_AT_DESC: createLeaderboardCursors('\nt', 0, LAST_INSTANT),
}

function createLeaderboardCursors(prefix: string, lowest = -Infinity, highest = Infinity) {
  return createCursors<LeaderboardPosition>(
    prefix,
    (text) => {
      const numbers = text.split(' ').map(Number)
      const [sortedBy = Number.NaN, id = Number.NaN, rank] = numbers
      // The ranks on the page after it must fit into 31 bits as well.
      const isRank = rank === undefined || (rank > 0 && rank < 2 ** 31 - MAX_ITEMS)
      const isInRange = sortedBy >= lowest && sortedBy <= highest
      return isRank && isInRange && numbers.every(Number.isSafeInteger) ? { sortedBy, id, rank } : undefined
    },
    ({ sortedBy, id, rank }) => [sortedBy, id, ...(rank ? [rank] : [])].join(' '),
  )
}

/** Cursors with a prefix, which differs between lists. */
function createCursors<Position>(
  prefix: string,
  positionIn: (text: string) => Position | undefined,
  textOf: (position: Position) => string = String,
) {
  const encode = (position: Position) => Buffer.from(prefix + textOf(position), 'utf8').toString('base64url')
  return {
    encode,

    /** @throws {NthError} BAD_USER_INPUT for a cursor that `encode` can't have created */
    decode(argument: 'after' | 'before', cursor: string | undefined): Position | undefined {
      if (cursor === undefined) return undefined
      const position = positionIn(Buffer.from(cursor, 'base64url').toString('utf8').slice(prefix.length))
      if (position !== undefined && encode(position) === cursor) return position
      const message = `Argument "${argument}" is not a cursor of this list. Use a cursor from another page in the same order.`
      throw new NthError('BAD_USER_INPUT', message, { argument })
    },
  }
}
