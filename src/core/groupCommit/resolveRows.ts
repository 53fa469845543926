import type { Row, Rows } from '../rows.ts'
import type { Call, Calls } from './pendingCalls.ts'

export interface RowResolverOptions<R extends Row> {
  calls: Calls<R>
  now: () => Date
  /** Queues a call whose rows are resolved. */
  place: (call: Call<R>) => void
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** The row does not exist, and must not be created. */
export class MissingRow extends Error {}

/**
 * Attempts until an operator is notified, once. A row that is gone was deleted or redefined, so its key usually
 * differs. If it resolves to the same key again, the writer's connection doesn't see it yet, or somebody removed it.
 */
const ATTEMPTS_UNTIL_REPORTED = 6
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Returns the function that creates row resolvers. */
export function openRowResolver<R extends Row>({ calls, now, place, onFault }: RowResolverOptions<R>) {
  /** Resolves the rows of keys: from the cache, then from the database. `isMade`: missing rows are created. */
  return function resolverOf<Key>(
    rows: Rows<Key, R>,
    keys: readonly Key[],
    isMade: boolean,
  ): (call: Call<R>) => void {
    let fruitless = 0

    function found(call: Call<R>, again: readonly R[]): void {
      const isAsBefore = again.every(({ key }, index) => key === call.rows[index]?.key)
      call.rows = again
      // Not the first time: a redefined sequence may keep its key.
      if (isAsBefore && ++fruitless > 1) placeLater(call)
      else place(call)
    }

    function placeLater(call: Call<R>): void {
      call.obstacle = new Error(`The writer finds no row for one of ${JSON.stringify(keys)}`)
      if (fruitless === ATTEMPTS_UNTIL_REPORTED) onFault(call.obstacle)
      const pauseMs = Math.random() * Math.min(SHORTEST_PAUSE_MS * 2 ** fruitless, LONGEST_PAUSE_MS)
      setTimeout(place, pauseMs, call)
    }

    return (call) => {
      if (call.rows.length > 0) for (const key of keys) rows.forget(key)
      const known: R[] = []
      for (const key of keys) {
        const row = rows.known(key)
        if (row) known.push(row)
      }
      if (known.length === keys.length) return found(call, known)
      const at = now()
      const find = async (key: Key) => {
        const row = rows.known(key) ?? (await (isMade ? rows.findOrMake(key, at) : rows.find(key)))
        if (!row) throw new MissingRow()
        return row
      }
      Promise.all(keys.map(find)).then(
        (all) => found(call, all),
        (error) => calls.answer(call, error),
      )
    }
  }
}
