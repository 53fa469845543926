import type { Call, Calls } from './calls.ts'
import type { Row, Rows } from './writer.ts'

export interface RowResolverOptions<R extends Row> {
  calls: Calls<R>
  now: () => Date
  /** Has a call wait whose rows are found. */
  place: (call: Call<R>) => void
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** There is no row, and none was to be made. */
export class MissingRow extends Error {}

/**
 * A row that is gone was deleted or defined anew, and its key is another one then. One that is found again as it was
 * is not seen yet by the connection that is to change it, or was taken away by somebody: an operator is told, once.
 */
const ATTEMPTS_UNTIL_REPORTED = 6
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Makes the function that makes what looks for a call's rows. */
export function openRowResolver<R extends Row>({ calls, now, place, onFault }: RowResolverOptions<R>) {
  /** Looks for the rows behind keys, in memory and then in the database, and has them made if that is wished. */
  return function resolverOf<Key>(
    rows: Rows<Key, R>,
    keys: readonly Key[],
    isMade: boolean,
  ): (call: Call<R>) => void {
    let fruitless = 0

    function found(call: Call<R>, again: readonly R[]): void {
      const isAsBefore = again.every(({ key }, index) => key === call.rows[index]?.key)
      call.rows = again
      // Not after the first time: a sequence that was defined anew is found like this.
      if (isAsBefore && ++fruitless > 1) placeLater(call)
      else place(call)
    }

    function placeLater(call: Call<R>): void {
      call.obstacle = new Error(`A row that counts is missing for one of ${JSON.stringify(keys)}`)
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
