import type { LeaderboardOrder, SortKey } from '../core/counters/state.ts'
import { NthError } from '../rules/errors.ts'
import { type Fault, nameFault, textFault } from '../rules/names.ts'
import { MAX_ITEMS } from './arguments.ts'

/** Cursors of an ordered list, created from the positions of its items. */
export type Cursors<Position> = ReturnType<typeof createCursors<Position>>

/** A position in a leaderboard. `rank` starts at 1 at the top, if it is known. */
export interface LeaderboardPosition extends SortKey {
  rank?: number | undefined
}

/** Cursors in a list ordered by name: the name of the item. */
export const nameCursors = createNameCursors('', nameFault)

/** Cursors in a list of sequence groups. The prefix keeps the cursor of the unnamed one from being empty. */
export const sequenceGroupCursors = createNameCursors('\n', textFault)

/** Cursors in the list of API keys: the number of the key. */
export const apiKeyCursors = createCursors<number>(
  (id) => `\n#${id}`,
  (text) => {
    const id = Number(text.slice(2))
    return Number.isSafeInteger(id) && id > 0 ? id : undefined
  },
)

/** The last millisecond that a `datetime` can hold. */
const LAST_INSTANT = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The cursors of each order have a prefix with which no name starts. */
export const leaderboardCursors: Record<LeaderboardOrder, Cursors<LeaderboardPosition>> = {
  VALUE_DESC: createLeaderboardCursors('\n>'),
  VALUE_ASC: createLeaderboardCursors('\n<'),
  UPDATED_AT_DESC: createLeaderboardCursors('\nt', 0, LAST_INSTANT),
}

function createNameCursors(prefix: string, faultOf: (name: string) => Fault | undefined) {
  return createCursors<string>(
    (name) => prefix + name,
    (text) => {
      const name = text.slice(prefix.length)
      return faultOf(name) ? undefined : name
    },
  )
}

function createLeaderboardCursors(prefix: string, lowest = -Infinity, highest = Infinity) {
  return createCursors<LeaderboardPosition>(
    ({ sortedBy, id, rank }) => prefix + [sortedBy, id, ...(rank ? [rank] : [])].join(' '),
    (text) => {
      const parts = text.slice(prefix.length).split(' ').map(Number)
      const [sortedBy = Number.NaN, id = Number.NaN, rank] = parts
      const isInRange = sortedBy >= lowest && sortedBy <= highest
      return isInRange && parts.every(Number.isSafeInteger) && isRank(rank ?? 1)
        ? { sortedBy, id, rank }
        : undefined
    },
  )
}

/** The ranks on the page after it must fit into 31 bits as well. */
function isRank(rank: number): boolean {
  return rank > 0 && rank < 2 ** 31 - MAX_ITEMS
}

function createCursors<Position>(
  textOf: (position: Position) => string,
  positionIn: (text: string) => Position | undefined,
) {
  const encode = (position: Position) => Buffer.from(textOf(position), 'utf8').toString('base64url')
  return {
    encode,

    /** @throws {NthError} BAD_USER_INPUT for a cursor that `encode` can't have created */
    decode(argument: 'after' | 'before', cursor: string | undefined): Position | undefined {
      if (cursor === undefined) return undefined
      const position = positionIn(Buffer.from(cursor, 'base64url').toString('utf8'))
      if (position !== undefined && encode(position) === cursor) return position
      throw new NthError(
        'BAD_USER_INPUT',
        `Argument "${argument}" is not a cursor of this list. Use a cursor from another page in the same order.`,
        { argument },
      )
    },
  }
}
