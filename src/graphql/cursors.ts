import type { LeaderboardOrder, SortKey } from '../core/counters/pages.ts'
import { NthError } from '../core/errors.ts'
import { nameFault, textFault } from '../core/names.ts'
import { MAX_ITEMS } from './arguments/checks.ts'

type Argument = 'after' | 'before'

/** Cursor in a list ordered by name: the name of the item. */
export function encodeCursor(name: string): string {
  return Buffer.from(name, 'utf8').toString('base64url')
}

/** @throws {NthError} BAD_USER_INPUT for a cursor that `encodeCursor` can't have created */
export function decodeCursor(argument: Argument, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  const name = Buffer.from(cursor, 'base64url').toString('utf8')
  if (encodeCursor(name) === cursor && !nameFault(name)) return name
  throw notACursor(argument)
}

/** Cursor in a list of sequence groups. The mark keeps the cursor of the unnamed one from being empty. */
export function encodeGroupCursor(group: string): string {
  return encodeCursor(`${GROUP_MARK}${group}`)
}

/** @throws {NthError} BAD_USER_INPUT for a cursor that `encodeGroupCursor` can't have created */
export function decodeGroupCursor(argument: Argument, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  const group = Buffer.from(cursor, 'base64url').toString('utf8').slice(GROUP_MARK.length)
  if (encodeGroupCursor(group) === cursor && !textFault(group)) return group
  throw notACursor(argument)
}

/** No name starts with this. */
const GROUP_MARK = '\n'

/** Prefix of the cursors of each order. No name starts with it. */
const marks: Record<LeaderboardOrder, string> = {
  VALUE_DESC: '\n>',
  VALUE_ASC: '\n<',
  UPDATED_AT_DESC: '\nt',
}

/** A position in a leaderboard. `position` is the rank from the top, starting at 1, if known. */
export interface LeaderboardPlace extends SortKey {
  position?: number | undefined
}

export function encodeLeaderboardCursor(
  order: LeaderboardOrder,
  { sortedBy, id, position }: LeaderboardPlace,
): string {
  return encodeCursor(`${marks[order]}${[sortedBy, id, ...(position ? [position] : [])].join(' ')}`)
}

/** @throws {NthError} BAD_USER_INPUT for a cursor that `encodeLeaderboardCursor` can't have created for this order */
export function decodeLeaderboardCursor(
  argument: Argument,
  order: LeaderboardOrder,
  cursor: string | undefined,
): LeaderboardPlace | undefined {
  if (cursor === undefined) return undefined
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  const parts = text.slice(marks[order].length).split(' ').map(Number)
  const [sortedBy = Number.NaN, id = Number.NaN, position] = parts
  const isPlace = parts.every(Number.isSafeInteger) && isInstant(order, sortedBy) && isPosition(position ?? 1)
  if (isPlace && encodeLeaderboardCursor(order, { sortedBy, id, position }) === cursor)
    return { sortedBy, id, position }
  throw notACursor(argument)
}

/** The last millisecond that a `datetime` can hold. */
const LAST_INSTANT = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The ranks on the page after it must fit into 31 bits as well. */
function isPosition(position: number): boolean {
  return position > 0 && position < 2 ** 31 - MAX_ITEMS
}

function isInstant(order: LeaderboardOrder, sortedBy: number): boolean {
  return order !== 'UPDATED_AT_DESC' || (sortedBy >= 0 && sortedBy <= LAST_INSTANT)
}

function notACursor(argument: Argument): NthError {
  return new NthError(
    'BAD_USER_INPUT',
    `Argument "${argument}" is not a cursor of this list. Use a cursor from another page in the same order.`,
    { argument },
  )
}
