import type { Call, Place } from './calls.ts'
import { merge, type Operation } from './dealing.ts'
import type { Row } from './lane.ts'

/** The calls of one flush on one row, in order of arrival. */
export interface Run<R extends Row> {
  row: R
  calls: Call[]
  /** All their operations as one. */
  merged: Operation
  state: RunState
  /** What a careful run's row is to hold; undefined: as before. */
  write: number | undefined
}

export type RunState =
  /** Sent as one statement. */
  | 'merged'
  /** One of its operations is refused: read under lock, decided, and only then written. */
  | 'careful'
  /** Its row is not there. */
  | 'gone'

/** The calls that wait for one row, in order of arrival. */
interface WaitingRow<R extends Row> extends Place {
  row: R
  calls: Set<Call>
}

/** What waits, by row, those that have waited longest first. */
export interface Waiting<R extends Row> {
  isEmpty(): boolean
  add(row: R, call: Call): void
  /** Takes out runs for as many rows as a flush may have. What can't be merged with them stays. */
  cut(): Run<R>[]
  /** Takes out everything that waits for a row. */
  take(row: R): Call[]
}

/** The most rows that one transaction changes. */
const MAX_ROWS = 1000

export function openWaiting<R extends Row>(): Waiting<R> {
  const rows = new Map<string, WaitingRow<R>>()

  function open(row: R): WaitingRow<R> {
    const calls = new Set<Call>()
    const leave = (call: Call) => {
      call.place = undefined
      calls.delete(call)
      if (calls.size === 0) rows.delete(row.key)
    }
    const opened = { row, calls, leave }
    rows.set(row.key, opened)
    return opened
  }

  return {
    isEmpty: () => rows.size === 0,

    add(row, call) {
      const place = rows.get(row.key) ?? open(row)
      place.calls.add(call)
      call.place = place
    },

    cut() {
      const runs: Run<R>[] = []
      for (const place of rows.values()) {
        if (runs.length === MAX_ROWS) break
        const { run } = runOf(place.row, [...place.calls])
        for (const call of run.calls) place.leave(call)
        runs.push(run)
      }
      return runs
    },

    take(row) {
      const place = rows.get(row.key)
      const calls = [...(place?.calls ?? [])]
      for (const call of calls) place?.leave(call)
      return calls
    },
  }
}

/** Makes a run of as many calls, at least one, as can be merged, from the first on. The rest is left. */
export function runOf<R extends Row>(
  row: R,
  calls: readonly Call[],
  state: RunState = 'merged',
): { run: Run<R>; left: Call[] } {
  let merged: Operation | undefined
  let length = 0
  for (const { operation } of calls) {
    const next = merged ? merge(merged, operation) : operation
    if (!next) break
    merged = next
    length++
  }
  if (!merged) throw new Error('A run needs a call')
  return {
    run: { row, calls: calls.slice(0, length), merged, state, write: undefined },
    left: calls.slice(length),
  }
}
