import { DEFAULT_BUCKETS, type Total } from '../repository/history.ts'
import type { Nth } from '../repository/nth.ts'
import { type Period as CalendarPeriod, timeZoneNamed } from '../rules/calendar.ts'
import {
  type CounterRetention,
  type CounterState,
  type PeriodChoice,
  type Retention,
  type TrackedPeriod,
  UNBOUNDED,
} from '../rules/counter.ts'
import { joinNames } from '../rules/names.ts'
import * as checks from './arguments.ts'
import { keyOf } from './arguments.ts'
import { builder, keyArguments, namespaceArgument } from './builder.ts'
import type { Context } from './context.ts'
import type { LeaderboardPosition } from './lists.ts'
import { onName, onNames } from './rights.ts'
import { chargeList, historyCharge, room } from './selections.ts'

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

const Bucket = builder.objectRef<Total>('Bucket').implement({
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

/** A counter as read, or as returned by a change. What a change doesn't return is read on demand. */
export type CounterSource = Omit<CounterState, Instant | 'revision'> &
  Partial<Pick<CounterState, Instant>> & {
    /** After a change: undefined unless it was selected. */
    revision: number | undefined
    /** Its value and position in a leaderboard. */
    listed?: { value: number; position: LeaderboardPosition }
  }

type Instant = 'createdAt' | 'updatedAt'

export const Counter = builder.objectRef<CounterSource>('Counter')

export const Overflow = builder.enumType('Overflow', {
  description: 'What happens to an addition that would exceed a bound.',
  values: {
    REJECT: { description: 'Rejected with LIMIT_REACHED.' },
    SATURATE: { description: 'Applied up to the bound; `appliedDelta` is what was added.' },
  },
})

builder.node(Counter, {
  description: 'A named number, created on first use. Every valid name can be read.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.counters.readMany(ids.map(keyOf)),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    value: t.expose('value', {
      type: 'SafeInt',
      description: 'Current value; with several slots, their sum.',
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        "Orders a counter's states: higher is newer. Client caches should keep the newer state; if equal, the later response. Otherwise opaque.",
      resolve({ revision }) {
        // A revision belongs to the state that it is returned with, so it is never read later.
        if (revision === undefined) throw new Error('A change without the revision that was requested')
        return revision
      },
    }),
    valueIn: t.field({
      type: 'SafeInt',
      nullable: true,
      description:
        'Total added in the current period, unaffected by resets. Null: neither this period nor a finer one is tracked.',
      args: { period },
      resolve: (counter, { period }, context, info) =>
        withRetention(counter, context.nth, (retention) =>
          context.nth.counters.valueIn(retention, period, historyCharge(context, info)),
        ),
    }),
    history: t.field({
      type: [Bucket],
      nullable: true,
      description:
        'Total added in each period, oldest first, 0 if empty: the `last` periods before `to`, or all from the one that contains `from`. At most 2 500, and 15 000 per request. Periods that are not tracked are computed from finer ones; null: no finer one is tracked either.',
      args: {
        period,
        last: t.arg.int({
          description: 'Number of periods, 0 to 2 500. Default: 30. Not with `from`.',
          extensions: { check: checks.bucketCount },
        }),
        from: t.arg({ type: 'DateTime', description: 'An instant in the first period.' }),
        to: t.arg({
          type: 'DateTime',
          description: 'The last period starts before this instant. Default: the current period is the last.',
        }),
      },
      extensions: { check: checks.historyRange },
      resolve: (counter, { period, last, from, to }, context, info) =>
        withRetention(counter, context.nth, (retention) => {
          const range = { last: last ?? DEFAULT_BUCKETS, from, to }
          return context.nth.counters.history(retention, period, range, historyCharge(context, info))
        }),
    }),
    minValue: t.field(bound('minValue', 'Lowest allowed value; null: none.')),
    maxValue: t.field(bound('maxValue', 'Highest allowed value; null: none. Remaining: `maxValue - value`.')),
    overflow: t.field({
      type: Overflow,
      description: 'What happens at a bound.',
      resolve: ({ definition }) => (definition?.bounds ?? UNBOUNDED).overflow,
    }),
    slots: t.int({
      description:
        'Rows that the value is split across. 1: exact. 2 to 1024: numbers not unique, no bounds; for counters that several processes change very often.',
      resolve: ({ definition }) => definition?.slots ?? 1,
    }),
    timeZone: t.string(retained('timeZone', 'IANA time zone of its periods.', retentionOf)),
    periods: t.field({
      type: [TrackedPeriodRef],
      ...retained('periods', 'Periods whose totals it keeps.', retentionOf),
    }),
    createdAt: t.field(instant('createdAt', 'When it was first written or defined; null: neither yet.')),
    updatedAt: t.field(instant('updatedAt', 'When its value last changed; null: never.')),
  }),
})

function bound(name: 'minValue' | 'maxValue', description: string) {
  const resolve = ({ definition }: CounterSource) => (definition?.bounds ?? UNBOUNDED)[name]
  return { type: 'SafeInt', nullable: true, description, resolve } as const
}

/** Retention of a counter; of a nonexistent one, that of its namespace. */
async function retentionOf({ namespace, definition }: CounterSource, { namespaces }: Nth) {
  return definition ?? (await namespaces.read(namespace)).retention
}

/** Reads something with the retention of a counter, which itself is read only if it isn't known. */
function withRetention<Result>(
  counter: CounterSource,
  nth: Nth,
  read: (retention: CounterRetention) => Promise<Result>,
): Promise<Result> {
  const { namespace, name, definition } = counter
  if (definition) return read({ namespace, name, retention: definition, slots: definition.slots })
  return retentionOf(counter, nth).then((retention) => read({ namespace, name, retention, slots: 1 }))
}

/** Returns a promise only if a read is needed: a list may have hundreds of items. */
function instant(field: Instant, description: string) {
  const resolve = (counter: CounterSource, _: unknown, { nth }: Context) => {
    const value = counter[field]
    return value === undefined ? nth.counters.read(counter).then((read) => read[field]) : value
  }
  return { type: 'DateTime', nullable: true, description, resolve } as const
}

export const counterArguments = keyArguments('counter')

export const countersNamespace = namespaceArgument('Namespace of the counters.')

builder.queryFields((t) => ({
  counter: t.field({
    type: Counter,
    extensions: { right: onName('READ') },
    description: 'Returns a counter; its value is 0 if it was never written.',
    args: counterArguments,
    resolve: (_, key, { nth }) => nth.counters.read(key),
  }),
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    extensions: { right: onNames() },
    description: 'Returns 1 to 500 counters by one database read, in the requested order. Names may repeat.',
    args: {
      names: t.arg.stringList({
        required: true,
        description: 'Names of the counters.',
        extensions: { maxItems: checks.MAX_ITEMS, check: checks.names },
      }),
      namespace: countersNamespace,
    },
    resolve: async (_, { namespace, names }, context, info) => {
      const idLengths = names.map((name) => namespace.length + name.length)
      const values = chargeList(context, names.length, info, idLengths)
      await room(context, values)
      const counters = await context.nth.counters.readMany(names.map((name) => ({ namespace, name })))
      await room(context, values)
      return counters
    },
  }),
}))
