import { type CoalescedWork, type CounterWork, isCoalesced } from '../../commit/batch.ts'
import { readingIn } from '../../commit/counterStatements.ts'
import { begin, type Fenced, keep } from '../../commit/fence.ts'
import { idsOf, NO_CLOCK } from '../../commit/statements.ts'
import type { CounterReading, Reading } from '../../core/groupCommit/writer.ts'
import { periodColumns } from '../counters/periods.ts'
import { addToEach } from '../counters/update.ts'

/** Beyond it, what the statement of one trip takes longer is most of what the trip would take. */
const MAX_COUNTERS = 256
/** Maximum different additions: each is compared with each row. */
const MAX_ADDITIONS = 4

/** Counters that can be changed in one trip. */
export type OneTrip = readonly [CoalescedWork, ...CoalescedWork[]]

/** The counters, if all of them are additions to rows that surely have the running periods; else undefined. */
export function oneTripOf(counters: readonly CounterWork[]): OneTrip | undefined {
  const [first, ...others] = counters.filter(isCoalesced)
  if (!first || others.length + 1 < counters.length || counters.length > MAX_COUNTERS) return undefined
  const works: OneTrip = [first, ...others]
  const { running } = first
  const begunAt = Math.max(...running.map(({ start }) => start))
  const areSure = works.every((work) => work.running === running && work.row.changedAt >= begunAt)
  const additions = new Set(works.map(({ path }) => `${path.sum} ${path.raise}`))
  return areSure && additions.size <= MAX_ADDITIONS ? works : undefined
}

/**
 * The statements of a flush that is sent in one trip, before COMMIT. If a row does not fit its addition, the transaction
 * fails as a whole: it was deleted or redefined, its periods have turned, or a total is large.
 */
export function addInOneTrip(fenced: Fenced, works: OneTrip, at: Date): string[] {
  const columns = ['counter_id', 'value', 'revision', ...periodColumns(works)]
  const rows = `(
          select group_concat(concat_ws(' ', ${columns.join(', ')}) order by counter_id)
            from counter_value
           where counter_id in (${idsOf(works)}) and slot = 0)`
  return [...begin(fenced), addToEach(works, at), ...keep(fenced, works.length, rows)]
}

/** Reads what such a flush has kept: all rows, with their additions. */
export function readKept(works: OneTrip, kept: string): Reading {
  const columns = periodColumns(works)
  const rows = new Map(
    kept.split(',').map((text) => {
      const [id, value = null, revision = null, ...periods] = text.split(' ')
      const inPeriods = Object.fromEntries(columns.map((column, index) => [column, periods[index] ?? null]))
      return [Number(id), { value, revision, ...inPeriods }]
    }),
  )
  const counters = works.flatMap((work): [CounterWork, CounterReading][] => {
    const row = rows.get(work.row.id)
    return row ? [[work, readingIn(row, work, true, NO_CLOCK)]] : []
  })
  return { kind: 'read', counters: new Map(counters), sequenceGroups: new Map(), earlier: [] }
}
