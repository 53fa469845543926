import { PERIODS, timeZoneNamed } from '../core/calendar.ts'
import type { PeriodChoice, TrackedPeriod } from '../core/definition.ts'
import type { Total } from '../core/history.ts'
import { builder } from './builder.ts'

const descriptions = {
  HOUR: 'Until the clock shows the next full hour, or is changed.',
  DAY: 'Of 23 or 25 hours where the clock is changed.',
  WEEK: 'From Monday.',
  MONTH: 'Calendar month.',
  YEAR: 'Calendar year.',
}

export const Period = builder.enumType('Period', {
  description: "Calendar period in the counter's or sequence's zone.",
  values: Object.fromEntries(
    PERIODS.map((period) => [period, { description: descriptions[period] }]),
    // `fromEntries` forgets which keys there are.
  ) as Record<(typeof PERIODS)[number], { description: string }>,
})

export const TrackedPeriodRef = builder.objectRef<TrackedPeriod>('TrackedPeriod').implement({
  description: 'A period that is kept.',
  fields: (t) => ({
    period: t.expose('period', { type: Period, description: 'Which.' }),
    keepDays: t.exposeInt('keepDays', {
      nullable: true,
      description: 'How many days its buckets are kept after their end; null: for ever.',
    }),
  }),
})

export const Bucket = builder.objectRef<Total>('Bucket').implement({
  description: 'One bar of a chart.',
  fields: (t) => ({
    start: t.field({
      type: 'DateTime',
      description: 'Its first instant.',
      resolve: ({ start }) => new Date(start),
    }),
    end: t.field({
      type: 'DateTime',
      description: 'The first instant after it.',
      resolve: ({ end }) => new Date(end),
    }),
    value: t.expose('value', { type: 'SafeInt', description: 'What was added in it.' }),
  }),
})

export const TrackedPeriodInput = builder.inputRef<PeriodChoice>('TrackedPeriodInput').implement({
  description: 'A period to keep.',
  fields: (t) => ({
    period: t.field({ type: Period, required: true, description: 'Which.' }),
    keepDays: t.int({ description: 'How many days after their end, 1 to 36 500; null: for ever.' }),
  }),
})

/** A definition with the name of its time zone as the database of zones writes it. */
export function withZone<D extends { timeZone?: string | null | undefined }>(definition: D): D {
  const { timeZone } = definition
  return timeZone ? { ...definition, timeZone: timeZoneNamed(timeZone) } : definition
}
