import type { Flush } from '../../core/groupCommit/writer.ts'
import { periodColumns } from '../counters/periods.ts'
import { addToEach } from '../counters/update.ts'
import { integer, list } from '../literals.ts'
import { begin, type Fenced, keepFound } from './fence.ts'
import { counterFound, type Members } from './members.ts'
import { ownerOf, type Step } from './steps.ts'

/** Beyond it, what the statement of one trip takes longer is most of what the trip would take. */
const MAX_COUNTERS = 256
/** Maximum different additions: each is compared with each row. */
const MAX_ADDITIONS = 4

/**
 * Whether nothing has to be decided between two trips: all are additions, to rows that surely have the running periods.
 */
export function fitsOneTrip({ counters, sequenceGroups }: Members, flush: Flush): boolean {
  const [first] = counters
  if (!first || counters.length > MAX_COUNTERS) return false
  if (sequenceGroups.length > 0 || flush.claims.length > 0) return false
  const { running } = first.run
  const turnedAt = Math.max(...running.map(({ start }) => start))
  const isSure = counters.every(
    ({ run, row }) => run.addition !== undefined && run.running === running && row.changedAt >= turnedAt,
  )
  return isSure && new Set(counters.map(({ run }) => `${run.addition} ${run.raise}`)).size <= MAX_ADDITIONS
}

/**
 * The statements of a flush that is sent in one trip, before COMMIT. If a row does not fit its addition, the transaction
 * fails as a whole: it was deleted or redefined, its periods have turned, or a total is large.
 */
export function oneTripSteps(fenced: Fenced, { counters }: Members, at: Date): Step[] {
  const [first] = counters
  if (!first) return []
  const columns = ['counter_id', 'value', 'revision', ...periodsOf(counters)]
  const found = `(
          select group_concat(concat_ws(' ', ${columns.join(', ')}) order by counter_id)
            from counter_value
           where counter_id in (${list(counters, ({ row }) => integer(row.id))}) and slot = 0)`
  return [
    ...begin(fenced),
    { statement: addToEach(counters, first.run, at), owner: ownerOf(counters) },
    ...keepFound(fenced, counters.length, found),
  ]
}

/** Reads what such a flush has kept: all rows, with their additions. */
export function readFound(members: Members, kept: string): void {
  const columns = periodsOf(members.counters)
  const rows = new Map(
    kept.split(',').map((text) => {
      const [id, value = null, revision = null, ...periods] = text.split(' ')
      const inPeriods = Object.fromEntries(columns.map((column, index) => [column, periods[index] ?? null]))
      return [Number(id), { value, revision, ...inPeriods }]
    }),
  )
  for (const member of members.counters) {
    const row = rows.get(member.row.id)
    member.isAdded = true
    if (row) member.found = counterFound(members, member, row)
  }
}

function periodsOf(counters: Members['counters']): string[] {
  return periodColumns(counters.map(({ run }) => run))
}
