import { COLUMNS, PERIOD_CODES, startSecond } from '../commit/periodStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import type { Database } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import { groupBy, integer, list, type NamedRow, nameIn, selectByName } from '../mysql/sql.ts'
import {
  type Bucket,
  type Calendar,
  calendarOf,
  FIRST_INSTANT,
  HALF_MS,
  instantOf,
  LAST_INSTANT,
  LONGEST_MS,
  PARTS,
  type Period,
} from '../rules/calendar.ts'
import { type CounterKey, type CounterState, keyText, type Retention } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import { joinNames } from '../rules/names.ts'
import { type HistorySource, historySourcesOf } from '../rules/periods.ts'
import type { Owner } from '../rules/turns.ts'
import { batchOwnReads } from './batches.ts'

/** A counter as it was read; without a definition, the retention of its namespace applies. */
type Counter = Pick<CounterState, 'namespace' | 'name' | 'definition'>

interface HistoryRange {
  /** Number of periods up to `to`; used without `from` only. */
  last: number
  /** An instant in the first period. */
  from?: Date | null | undefined
  /** The last period starts before this instant. Without it, the last period is the current one. */
  to?: Date | null | undefined
}

/** Numbers of periods of a history. */
export const DEFAULT_BUCKETS = 30
export const MAX_BUCKETS = 2500

export interface Total extends Bucket {
  value: number
}

/** Rows of a counter's period that start in a time range. */
interface HistoryStretch extends CounterKey, HistorySource {}

/** The total of a period, or a part of it: there may be several such rows. */
interface HistoryRow {
  start: number
  /** May be beyond the safe range, if the total is not. */
  value: bigint
}

/** Cost of a history: its periods, and about how many rows are summed. */
export type HistoryCost = { buckets: number; rows: number }

/**
 * Called with the cost before a history is computed; throws to refuse it. What it returns is awaited before each piece
 * of work that takes time in proportion to that cost.
 */
type Charge = (cost: HistoryCost) => () => Promise<void> | undefined

export function openHistory(
  database: Database,
  retentionIn: (namespace: string) => Promise<Retention>,
  now: () => Date,
) {
  const stretches = batchOwnReads(stretchText, (keys, owner) =>
    database.withRetry(owner, (connection) => readHistory(connection, keys)),
  )

  /**
   * The totals of a counter's periods in a range, oldest first. All histories that an owner requests in one event loop tick
   * share one statement.
   *
   * @returns null if neither the period nor a finer one is tracked
   * @throws {NthError} BAD_USER_INPUT for a range that is too long or too far away
   */
  async function history(
    { namespace, name, definition }: Counter,
    period: Period,
    range: HistoryRange,
    charge?: Charge,
    owner = JOINED,
  ): Promise<Total[] | null> {
    const retention = definition ?? (await retentionIn(namespace))
    if (!isTracked(retention, period)) return null
    const at = now().getTime()
    const cost = costOf(retention, definition?.slots ?? 1, period, range, at)
    const room = charge?.(cost)
    await room?.()
    const calendar = calendarOf(retention.timeZone)
    const buckets = bucketsIn(calendar, period, range, at)
    const bounds = { period, from: buckets[0]?.start ?? 0, to: buckets.at(-1)?.end ?? 0 }
    const sources = await Promise.all(
      historySourcesOf(retention, bounds, now().getTime()).map(({ period, from, to, since }) =>
        // Rows recorded in another time zone may start earlier.
        stretches.read({ namespace, name, period, from: Math.max(from - HALF_MS[period], since), to }, owner),
      ),
    )
    await room?.()
    const sums = new Map(buckets.map(({ start }) => [start, 0n]))
    for (const source of sources) {
      for (const { start, value } of source.rows) {
        const bucket = calendar.bucketAt(period, instantOf(calendar, source.period, start))
        const sum = sums.get(bucket.start)
        if (sum !== undefined) sums.set(bucket.start, sum + value)
      }
    }
    const totals = buckets.map((bucket): Total => ({ value: Number(sums.get(bucket.start)), ...bucket }))
    if (totals.every(({ value }) => Number.isSafeInteger(value))) return totals
    throw new NthError('OUT_OF_RANGE', `The total of a ${period} is outside the safe integer range.`)
  }

  return {
    history,

    /** Total of the current period; null: neither it nor a finer one is tracked. */
    async valueIn(counter: Counter, period: Period, charge?: Charge, owner?: Owner): Promise<number | null> {
      const totals = await history(counter, period, { last: 1 }, charge, owner)
      return totals?.[0]?.value ?? null
    },
  }
}

/** The periods of a range, oldest first. */
function bucketsIn(calendar: Calendar, period: Period, { last, from, to }: HistoryRange, now: number) {
  const buckets: Bucket[] = []
  let end = to?.getTime() ?? now + 1
  if (from) {
    for (let at = from.getTime(); at < end; at = buckets.at(-1)?.end ?? end) {
      if (buckets.length === MAX_BUCKETS) throw tooMany({ last, from, to })
      buckets.push(calendar.bucketAt(period, at))
    }
    return buckets
  }
  while (buckets.length < last) {
    if (end <= FIRST_INSTANT) throw tooFar('last', 'reaches')
    const bucket = calendar.bucketAt(period, end - 1)
    buckets.push(bucket)
    end = bucket.start
  }
  return buckets.reverse()
}

function tooFar(argument: string, verb: string): NthError {
  const message = `\`${argument}\` ${verb} outside the years 1000 to 2099.`
  return new NthError('BAD_USER_INPUT', message, { argument })
}

function tooMany({ last, from }: HistoryRange): NthError {
  const argument = from ? 'from' : 'last'
  const what = from ? `The range from ${from.toISOString()} has` : `\`last: ${last}\` is`
  const message = `${what} more than ${MAX_BUCKETS} periods; request fewer at a time.`
  return new NthError('BAD_USER_INPUT', message, { argument, limit: MAX_BUCKETS })
}

function isTracked({ periods }: Retention, period: Period): boolean {
  return periods.some((kept) => kept.period === period || PARTS[period].includes(kept.period))
}

/** Cost of a history. Its periods aren't computed yet, so a request beyond a limit is refused at once. */
function costOf(retention: Retention, slots: number, period: Period, range: HistoryRange, now: number) {
  for (const argument of ['from', 'to'] as const) {
    const at = range[argument]?.getTime()
    if (at !== undefined && (at < FIRST_INSTANT || at > LAST_INSTANT)) throw tooFar(argument, 'is')
  }
  const to = range.to?.getTime() ?? now + 1
  const from = range.from?.getTime() ?? to - range.last * LONGEST_MS[period]
  const buckets = range.from ? countIn(period, from, to) : range.last
  if (buckets > MAX_BUCKETS) throw tooMany(range)
  const rows = historySourcesOf(retention, { period, from, to }, now).reduce(
    // Each slot has one more.
    (sum, source) => sum + countIn(source.period, source.from, Math.min(source.to, now)) + 1 + slots,
    0,
  )
  return { buckets, rows }
}

/** About how many periods there are between two instants, and no more than there are. */
function countIn(period: Period, from: number, to: number): number {
  return Math.max(0, Math.ceil((to - from) / LONGEST_MS[period]))
}

function stretchText({ namespace, name, period, from, to }: HistoryStretch): string {
  return joinNames(namespace, name, period, String(from), String(to))
}

/**
 * Reads the totals of the periods that begin within stretches of time: from the history, and from the columns of values.
 * In one statement: between two, a period could move from the columns to the history. A statement before it reads the ids
 * of the counters: joined by name, the server would read all history of each instead of the stretch. A counter that is
 * deleted between the two has no totals.
 */
async function readHistory(connection: Connection, stretches: readonly HistoryStretch[]) {
  const histories = stretches.map((stretch) => ({ rows: [] as HistoryRow[], ...stretch }))
  const named = await connection.select<NamedRow & { id: number }>(
    selectByName(
      [...new Map(histories.map((stretch) => [keyText(stretch), stretch])).values()],
      'c.name',
      (isNamed) => `select n.name as namespace, c.name, c.id
           from namespace n
           join counter c on c.namespace_id = n.id
          where ${isNamed}`,
    ),
  )
  if (named.length === 0) return histories
  const ids = new Map(named.map((row) => [keyText(nameIn(row)), row.id]))
  const identified = histories.flatMap((stretch) => {
    const id = ids.get(keyText(stretch))
    return id === undefined ? [] : [{ id, ...stretch }]
  })
  const families = [...groupBy(identified, ({ period, from, to }) => [period, from, to].join()).values()]
  const selects = [
    `select null as stretch, id, null as start, null as value
           from counter
          where id in (${list(named, ({ id }) => integer(id))})`,
    ...families.map(selectTotals),
  ]
  type Row = Record<'id' | 'start', number> & { stretch: number | null; value: number | string }
  const rows = await connection.select<Row>(selects.join('\nunion all\n'))
  const existing = new Set(rows.filter(({ stretch }) => stretch === null).map(({ id }) => id))
  const rowsOf = families.map((siblings) => new Map(siblings.map(({ id, rows }) => [id, rows])))
  for (const { stretch, id, start, value } of rows)
    if (stretch !== null && existing.has(id))
      rowsOf[stretch]?.get(id)?.push({ start: 1000 * start, value: BigInt(value) })
  return histories
}

type IdentifiedStretch = HistoryStretch & { id: number }

/** `stretch` is the index of a family: counters, and the same stretch of the same period. */
function selectTotals(
  siblings: readonly [IdentifiedStretch, ...IdentifiedStretch[]],
  stretch: number,
): string {
  const [{ period, from, to }] = siblings
  const columns = COLUMNS[period]
  const isIn = (start: string) =>
    `counter_id in (${list(siblings, ({ id }) => integer(id))})
            and ${start} >= ${startSecond(from)} and ${start} < ${startSecond(to)}`
  return `select ${stretch} as stretch, counter_id as id, start, value
           from counter_history force index (primary)
          where period = ${PERIOD_CODES[period]} and ${isIn('start')}
         union all
         select ${stretch}, counter_id, ${columns.start}, cast(sum(${columns.added}) as signed)
           from counter_value
          where ${isIn(columns.start)}
          group by counter_id, ${columns.start}`
}
