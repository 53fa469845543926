import type { PeriodChoice, Retention, TrackedPeriod } from '../../core/counters/definition.ts'
import type { Nth } from '../../core/nth.ts'
import type { Total } from '../../repository/history.ts'
import { type Period as CalendarPeriod, timeZoneNamed } from '../../rules/calendar.ts'
import { builder } from '../builder.ts'
import type { Context } from '../context.ts'

export const Period = builder.enumType('Period', {
  description: "Calendar period in the counter's or sequence's time zone.",
  values: {
    HOUR: { description: 'Ends at the next full hour of local time, or at a clock change.' },
    DAY: { description: 'Calendar day: 23 or 25 hours at a clock change.' },
    WEEK: { description: 'Starts on Monday.' },
    MONTH: { description: 'Calendar month.' },
    YEAR: { description: 'Calendar year.' },
  } satisfies Record<CalendarPeriod, { description: string }>,
})

export const { period } = builder.args((t) => ({
  period: t.field({ type: Period, required: true, description: 'The period.' }),
}))

export const TrackedPeriodRef = builder.objectRef<TrackedPeriod>('TrackedPeriod').implement({
  description: 'A period whose totals are kept.',
  fields: (t) => ({
    period: t.expose('period', { type: Period, description: 'The period.' }),
    keepDays: t.exposeInt('keepDays', {
      nullable: true,
      description: 'Days that a bucket is kept after its end; null: forever.',
    }),
  }),
})

export const Bucket = builder.objectRef<Total>('Bucket').implement({
  description: 'One bar of a chart: the total of one period.',
  fields: (t) => ({
    start: t.expose('start', { type: 'DateTime', description: 'Start, inclusive.' }),
    end: t.expose('end', { type: 'DateTime', description: 'End, exclusive.' }),
    value: t.expose('value', { type: 'SafeInt', description: 'Total added in this period.' }),
  }),
})

export const TrackedPeriodInput = builder.inputRef<PeriodChoice>('TrackedPeriodInput').implement({
  description: 'A period whose totals are to be kept.',
  fields: (t) => ({
    period: t.field({ type: Period, required: true, description: 'The period.' }),
    keepDays: t.int({ description: 'Days to keep a bucket after its end, 1 to 36 500; null: forever.' }),
  }),
})

/** A part of a retention that may have to be read. */
export function retained<Source, Part extends keyof Retention>(
  part: Part,
  description: string,
  retentionOf: (source: Source, nth: Nth) => Promise<Retention>,
) {
  const resolve = async (source: Source, _: unknown, { nth }: Context) =>
    (await retentionOf(source, nth))[part]
  return { nullable: true, description, resolve } as const
}

/** Returns a definition with its time zone spelled as in the IANA database. */
export function withZone<D extends { timeZone?: string | null | undefined }>(definition: D): D {
  const { timeZone } = definition
  return timeZone ? { ...definition, timeZone: timeZoneNamed(timeZone) } : definition
}
