import type { LeaderboardOrder, SortKey } from '../core/counters/pages.ts'
import { NthError } from '../core/errors.ts'
import { type Fault, nameFault, textFault } from '../core/names.ts'
import { MAX_ITEMS } from './arguments/checks.ts'

type Argument = 'after' | 'before'

/** Cursors in a list ordered by name: the name of the item. */
export const nameCursors = createNameCursors('', nameFault)

/** Cursors in a list of sequence groups. The prefix keeps the cursor of the unnamed one from being empty. */
export const sequenceGroupCursors = createNameCursors('\n', textFault)

function createNameCursors(prefix: string, faultOf: (name: string) => Fault | undefined) {
  const encode = (name: string) => encodeText(prefix + name)
  return {
    encode,

    /** @throws {NthError} BAD_USER_INPUT for a cursor that `encode` can't have created */
    decode(argument: Argument, cursor: string | undefined): string | undefined {
      if (cursor === undefined) return undefined
      const name = decodeText(cursor).slice(prefix.length)
      if (encode(name) === cursor && !faultOf(name)) return name
      throw notACursor(argument)
    },
  }
}

/** Prefix of the cursors of each order. No name starts with it. */
const prefixes: Record<LeaderboardOrder, string> = {
  VALUE_DESC: '\n>',
  VALUE_ASC: '\n<',
  UPDATED_AT_DESC: '\nt',
}

/** A position in a leaderboard. `rank` starts at 1 at the top, if it is known. */
export interface LeaderboardPosition extends SortKey {
  rank?: number | undefined
}

export function encodeLeaderboardCursor(
  order: LeaderboardOrder,
  { sortedBy, id, rank }: LeaderboardPosition,
): string {
  return encodeText(`${prefixes[order]}${[sortedBy, id, ...(rank ? [rank] : [])].join(' ')}`)
}

/** @throws {NthError} BAD_USER_INPUT for a cursor that `encodeLeaderboardCursor` can't have created for this order */
export function decodeLeaderboardCursor(
  argument: Argument,
  order: LeaderboardOrder,
  cursor: string | undefined,
): LeaderboardPosition | undefined {
  if (cursor === undefined) return undefined
  const parts = decodeText(cursor).slice(prefixes[order].length).split(' ').map(Number)
  const [sortedBy = Number.NaN, id = Number.NaN, rank] = parts
  const isValid = parts.every(Number.isSafeInteger) && isInstant(order, sortedBy) && isRank(rank ?? 1)
  if (isValid && encodeLeaderboardCursor(order, { sortedBy, id, rank }) === cursor)
    return { sortedBy, id, rank }
  throw notACursor(argument)
}

/** The last millisecond that a `datetime` can hold. */
const LAST_INSTANT = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The ranks on the page after it must fit into 31 bits as well. */
function isRank(rank: number): boolean {
  return rank > 0 && rank < 2 ** 31 - MAX_ITEMS
}

function isInstant(order: LeaderboardOrder, sortedBy: number): boolean {
  return order !== 'UPDATED_AT_DESC' || (sortedBy >= 0 && sortedBy <= LAST_INSTANT)
}

function encodeText(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64url')
}

function decodeText(cursor: string): string {
  return Buffer.from(cursor, 'base64url').toString('utf8')
}

function notACursor(argument: Argument): NthError {
  return new NthError(
    'BAD_USER_INPUT',
    `Argument "${argument}" is not a cursor of this list. Use a cursor from another page in the same order.`,
    { argument },
  )
}
