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
  description: 'A calendar period in the time zone of a counter or sequence.',
  values: {
    HOUR: { description: 'An hour of the local clock. It ends early if the clock changes.' },
    DAY: { description: 'A calendar day. It has 23 or 25 hours when the clock changes.' },
    WEEK: { description: 'A calendar week, which starts on Monday.' },
    MONTH: { description: 'A calendar month.' },
    YEAR: { description: 'A calendar year.' },
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
      description: 'How many days a total is kept after its period ends. Null means forever.',
    }),
  }),
})

const Bucket = builder.objectRef<Total>('Bucket').implement({
  description: 'The total of one period, such as a bar of a chart.',
  fields: (t) => ({
    start: t.expose('start', { type: 'DateTime', description: 'The start of the period, inclusive.' }),
    end: t.expose('end', { type: 'DateTime', description: 'The end of the period, exclusive.' }),
    value: t.expose('value', { type: 'SafeInt', description: 'What was added in this period.' }),
  }),
})

export const TrackedPeriodInput = builder.inputRef<PeriodChoice>('TrackedPeriodInput').implement({
  description: 'A period whose totals are to be kept.',
  fields: (t) => ({
    period: t.field({ type: Period, required: true, description: 'The period.' }),
    keepDays: t.int({
      description: 'How many days to keep a total after its period ends, 1 to 36 500. Null means forever.',
    }),
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
    REJECT: { description: 'The addition fails with LIMIT_REACHED.' },
    SATURATE: { description: 'The addition stops at the bound. `appliedDelta` is what was added.' },
  },
})

builder.node(Counter, {
  description: 'A named number. You do not create counters: any valid name can be read and changed.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.counters.readMany(ids.map(keyOf)),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'The name, exactly as it was written.' }),
    value: t.expose('value', {
      type: 'SafeInt',
      description: 'The current value. With several slots, it is their sum.',
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        'Orders the states of this counter. Of two states, the one with the higher revision is newer; if both have the same revision, keep the later response.',
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
        'What was added in the current period. A reset does not change it. Null if neither this period nor a finer one is tracked.',
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
        'What was added in each period, oldest first, including empty ones: the `last` periods before `to`, or all from the one that contains `from`. A field returns at most 2 500, and a request about 15 000. A period that is not tracked is computed from finer ones. Null if none of them is tracked.',
      args: {
        period,
        last: t.arg.int({
          description:
            'The number of periods, 0 to 2 500. The default is 30. It cannot be combined with `from`.',
          extensions: { check: checks.bucketCount },
        }),
        from: t.arg({ type: 'DateTime', description: 'An instant in the first period.' }),
        to: t.arg({
          type: 'DateTime',
          description:
            'The last period starts before this instant. By default, the current period is the last.',
        }),
      },
      extensions: { check: checks.historyRange },
      resolve: (counter, { period, last, from, to }, context, info) =>
        withRetention(counter, context.nth, (retention) => {
          const range = { last: last ?? DEFAULT_BUCKETS, from, to }
          return context.nth.counters.history(retention, period, range, historyCharge(context, info))
        }),
    }),
    minValue: t.field(bound('minValue', 'The lowest allowed value. Null means that there is none.')),
    maxValue: t.field(
      bound(
        'maxValue',
        'The highest allowed value. Null means that there is none. `maxValue - value` is what remains.',
      ),
    ),
    overflow: t.field({
      type: Overflow,
      description: 'What happens at a bound.',
      resolve: ({ definition }) => (definition ?? UNBOUNDED).overflow,
    }),
    slots: t.int({
      description:
        'The number of rows that the value is spread over. With 1, the numbers of callers are exact. With 2 to 1024, they are not unique, and bounds are not possible.',
      resolve: ({ definition }) => definition?.slots ?? 1,
    }),
    timeZone: t.string(retained('timeZone', 'The IANA time zone of its periods.', retentionOf)),
    periods: t.field({
      type: [TrackedPeriodRef],
      ...retained('periods', 'The periods whose totals it keeps.', retentionOf),
    }),
    createdAt: t.field(instant('createdAt', 'When it was first changed or defined. Null means never.')),
    updatedAt: t.field(instant('updatedAt', 'When its value last changed. Null means never.')),
  }),
})

function bound(name: 'minValue' | 'maxValue', description: string) {
  const resolve = ({ definition }: CounterSource) => (definition ?? UNBOUNDED)[name]
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

export const countersNamespace = namespaceArgument('The namespace of the counters.')

builder.queryFields((t) => ({
  counter: t.field({
    type: Counter,
    extensions: { right: onName('READ') },
    description: 'Returns a counter. Its value is 0 if it was never changed.',
    args: counterArguments,
    resolve: (_, key, { nth }) => nth.counters.read(key),
  }),
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    extensions: { right: onNames() },
    description:
      'Returns 1 to 500 counters, in the requested order, with one read of the database. Names may repeat.',
    args: {
      names: t.arg.stringList({
        required: true,
        description: 'The names of the counters.',
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
