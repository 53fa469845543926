import { NthError } from '../errors.ts'
import { batchReads } from '../eventLoop/batchReads.ts'
import { hasRoom, untilRoom } from '../eventLoop/ticks.ts'
import { joinNames } from '../names.ts'
import {
  type Bucket,
  calendarOf,
  HALF_MS,
  isOpened,
  LONGEST_MS,
  PARTS,
  type Period,
} from '../time/calendar.ts'
import { bucketsIn, type HistoryRange, MAX_BUCKETS, SHORT } from './historyRange.ts'
import { type HistorySource, historySourcesOf } from './historySources.ts'
import type { CounterKey, CounterRetention } from './state.ts'

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

/** Cost of a history. `rows`: the maximum number that is summed. */
export type HistoryCost = { buckets: number; rows: number }

/** Called with the cost before the read; may throw to refuse it. */
type MayCost = (cost: HistoryCost) => void

export function openHistory(
  readRows: (stretches: readonly HistoryStretch[]) => Promise<HistoryRow[]>,
  now: () => Date,
) {
  const stretches = batchReads(stretchText, async (asked: readonly HistoryStretch[]) => {
    const found = new Map(asked.map((one) => [stretchText(one), { ...one, rows: [] as HistoryRow[] }]))
    for (const row of await readRows(asked)) found.get(stretchText(row))?.rows.push(row)
    return [...found.values()]
  })

  async function read(counter: CounterRetention, period: Period, buckets: readonly Bucket[]) {
    const { namespace, name, retention } = counter
    const sums = buckets.map((bucket) => ({ ...bucket, sum: 0n }))
    const sources = historySourcesOf(retention, { period, ...stretchOf(buckets) }, now().getTime())
    const calendar = calendarOf(retention.timeZone)
    const found = await Promise.all(
      sources.map(({ period, from, to, since }) =>
        // Rows recorded in another time zone may start earlier.
        stretches.read({ namespace, name, period, from: Math.max(from - HALF_MS[period], since), to }),
      ),
    )
    for (const { period, rows } of found) {
      for (const { start, value } of rows) {
        // Unless a period starts there, the row was recorded in another time zone, and its middle decides.
        const isStart = calendar.bucketAt(period, start).start === start
        const total = bucketAt(sums, isStart ? start : start + HALF_MS[period])
        if (total) total.sum += value
        if (!hasRoom(0)) await untilRoom(0)
      }
    }
    const totals = sums.map(({ start, end, sum }): Total => ({ start, end, value: Number(sum) }))
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
    async history(counter: CounterRetention, period: Period, range: HistoryRange, mayCost?: MayCost) {
      if (!isTracked(counter, period)) return null
      const at = now().getTime()
      const isCounted = range.from == null && range.last <= MAX_BUCKETS
      const isShort = isCounted && range.last <= SHORT && isOpened(counter.retention.timeZone)
      // Short histories stay in one tick and share their statement. Others run one after another.
      if (!isShort) await untilRoom(SHORT)
      // Before the periods are computed, so that a request that is over its limit is refused at once.
      mayCost?.({ buckets: isCounted ? range.last : 0, rows: 0 })
      const buckets = await bucketsIn(calendarOf(counter.retention.timeZone), period, range, at)
      mayCost?.({ buckets: isCounted ? 0 : buckets.length, rows: rowsIn(counter, period, buckets, at) })
      return read(counter, period, buckets)
    },

    /** Total of the current period; null: neither it nor a finer one is tracked. */
    async valueIn(counter: CounterRetention, period: Period, mayCost?: MayCost) {
      if (!isTracked(counter, period)) return null
      const at = now().getTime()
      const running = calendarOf(counter.retention.timeZone).bucketAt(period, at)
      mayCost?.({ buckets: 1, rows: rowsIn(counter, period, [running], at) })
      const [total] = await read(counter, period, [running])
      return total?.value ?? 0
    },
  }
}

function isTracked({ retention }: CounterRetention, period: Period): boolean {
  return [period, ...PARTS[period]].some((part) => retention.periods.some((kept) => kept.period === part))
}

function stretchOf(buckets: readonly Bucket[]): { from: number; to: number } {
  return { from: buckets[0]?.start ?? 0, to: buckets.at(-1)?.end ?? 0 }
}

/** Maximum number of rows behind the totals of some periods. */
function rowsIn(counter: CounterRetention, period: Period, buckets: readonly Bucket[], now: number): number {
  const { retention, slots } = counter
  const sources = historySourcesOf(retention, { period, ...stretchOf(buckets) }, now)
  return sources.reduce((rows, { period, from, to }) => {
    const lengthMs = LONGEST_MS[period]
    const until = Math.min(to, now)
    // Each slot has one more.
    return rows + Math.max(0, Math.ceil((until - from) / lengthMs) + 1) + slots
  }, 0)
}

/** The bucket that contains an instant. They are consecutive. */
function bucketAt<B extends Bucket>(buckets: readonly B[], at: number): B | undefined {
  let [low, high] = [0, buckets.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const bucket = buckets[middle]
    if (!bucket || at < bucket.start) high = middle
    else if (at >= bucket.end) low = middle + 1
    else return bucket
  }
  return undefined
}

function stretchText({ namespace, name, period, from, to }: HistoryStretch): string {
  return joinNames(namespace, name, period, String(from), String(to))
}
