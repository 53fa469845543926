import {
  type Bucket,
  type Calendar,
  calendarOf,
  FIRST_INSTANT,
  HALF_MS,
  LAST_INSTANT,
  LONGEST_MS,
  PARTS,
  type Period,
} from '../rules/calendar.ts'
import type { CounterKey, CounterRetention } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import { joinNames } from '../rules/names.ts'
import { type HistorySource, historySourcesOf } from '../rules/periods.ts'
import { batchReads } from './batches.ts'

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
export interface HistoryStretch extends CounterKey, HistorySource {}

/** The total of a period that starts in a time range, or a part of it: there may be several such rows. */
export interface HistoryRow extends HistoryStretch {
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

const free: Charge = () => () => undefined

export function openHistory(
  readRows: (stretches: readonly HistoryStretch[]) => Promise<HistoryRow[]>,
  now: () => Date,
) {
  const stretches = batchReads(stretchText, async (asked: readonly HistoryStretch[]) => {
    const found = new Map(asked.map((one) => [stretchText(one), { ...one, rows: [] as HistoryRow[] }]))
    for (const row of await readRows(asked)) found.get(stretchText(row))?.rows.push(row)
    return [...found.values()]
  })

  async function read(
    counter: CounterRetention,
    period: Period,
    buckets: readonly Bucket[],
    room: ReturnType<Charge>,
  ) {
    const { namespace, name, retention } = counter
    const sums = new Map(buckets.map(({ start }) => [start, 0n]))
    const sources = historySourcesOf(
      retention,
      { period, from: buckets[0]?.start ?? 0, to: buckets.at(-1)?.end ?? 0 },
      now().getTime(),
    )
    const calendar = calendarOf(retention.timeZone)
    const found = await Promise.all(
      sources.map(({ period, from, to, since }) =>
        // Rows recorded in another time zone may start earlier.
        stretches.read({ namespace, name, period, from: Math.max(from - HALF_MS[period], since), to }),
      ),
    )
    await room()
    for (const source of found) {
      for (const { start, value } of source.rows) {
        // Unless a period starts there, the row was recorded in another time zone, and its middle decides.
        const isStart = calendar.bucketAt(source.period, start).start === start
        const bucket = calendar.bucketAt(period, isStart ? start : start + HALF_MS[source.period])
        const sum = sums.get(bucket.start)
        if (sum !== undefined) sums.set(bucket.start, sum + value)
      }
    }
    const totals = buckets.map((bucket): Total => ({ ...bucket, value: Number(sums.get(bucket.start)) }))
    if (totals.every(({ value }) => Number.isSafeInteger(value))) return totals
    throw new NthError('OUT_OF_RANGE', `The total of a ${period} is outside the safe integer range.`)
  }

  return {
    /**
     * The totals of a counter's periods in a range, oldest first. All histories requested in one event loop tick share
     * one statement.
     *
     * @returns null if neither the period nor a finer one is tracked
     * @throws {NthError} BAD_USER_INPUT for a range that is too long or too far away
     */
    async history(counter: CounterRetention, period: Period, range: HistoryRange, charge = free) {
      if (!isTracked(counter, period)) return null
      const at = now().getTime()
      const room = charge(costOf(counter, period, range, at))
      await room()
      return read(counter, period, bucketsIn(calendarOf(counter.retention.timeZone), period, range, at), room)
    },

    /** Total of the current period; null: neither it nor a finer one is tracked. */
    async valueIn(counter: CounterRetention, period: Period, charge = free) {
      if (!isTracked(counter, period)) return null
      const at = now().getTime()
      const room = charge(costOf(counter, period, { last: 1 }, at))
      await room()
      const running = calendarOf(counter.retention.timeZone).bucketAt(period, at)
      const [total] = await read(counter, period, [running], room)
      return total?.value ?? 0
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

function isTracked({ retention }: CounterRetention, period: Period): boolean {
  return [period, ...PARTS[period]].some((part) => retention.periods.some((kept) => kept.period === part))
}

/** Cost of a history. Its periods aren't computed yet, so a request beyond a limit is refused at once. */
function costOf({ retention, slots }: CounterRetention, period: Period, range: HistoryRange, now: number) {
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
