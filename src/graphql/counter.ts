import type { GraphQLResolveInfo } from 'graphql'
import type { CounterValue } from '../repository/counterReads.ts'
import { DEFAULT_BUCKETS, MAX_BUCKETS, type Total } from '../repository/history.ts'
import type { Nth } from '../repository/nth.ts'
import { type Period as CalendarPeriod, timeZoneNamed } from '../rules/calendar.ts'
import {
  type PeriodChoice,
  type PeriodLimit,
  type Retention,
  type TrackedPeriod,
  UNBOUNDED,
} from '../rules/counter.ts'
import { assertInvariant } from '../rules/errors.ts'
import { joinNames } from '../rules/names.ts'
import * as checks from './arguments.ts'
import { keyOf } from './arguments.ts'
import { addEnum, builder, exposed, keyArguments, namespaceArgument, orNull, parts } from './builder.ts'
import type { LeaderboardPosition } from './lists.ts'
import { onName, onNames } from './rights.ts'
import { chargedList, countSelected, historyCharge } from './selections.ts'

export const Period = addEnum('Period', 'A calendar period in the time zone of a counter or sequence.', {
  HOUR: 'An hour of the local clock. It ends early if the clock changes.',
  DAY: 'A calendar day. It has 23 or 25 hours when the clock changes.',
  WEEK: 'A calendar week, which starts on Monday.',
  MONTH: 'A calendar month.',
  YEAR: 'A calendar year.',
} satisfies Record<CalendarPeriod, string>)

export const { period } = builder.args((t) => ({
  period: t.field({ type: Period, required: true, description: 'The period.' }),
}))

export const TrackedPeriodRef = builder.objectRef<TrackedPeriod>('TrackedPeriod').implement({
  description: 'A period whose totals are kept.',
  fields: (t) =>
    exposed(t, {
      period: [Period, 'The period.'],
      keepDays: [orNull('Int'), 'How many days a total is kept after its period ends. Null means forever.'],
    }),
})

interface LimitState extends PeriodLimit {
  used: number
  held: number
  resetsAt: Date
}

const PeriodLimitRef = builder.objectRef<LimitState>('PeriodLimit').implement({
  description: 'How much may be added to a counter in each period.',
  fields: (t) =>
    exposed(t, {
      period: [Period, 'The period.'],
      max: ['SafeInt', 'How much may be added in each such period.'],
      used: [
        'SafeInt',
        'The total of the current period, as `valueIn`: subtractions give back, and a reset does not change it. It may be above `max` if the limit was set later.',
      ],
      held: ['SafeInt', 'The additions that open holds take.'],
      resetsAt: ['DateTime', 'When the current period ends.'],
    }),
})

const Bucket = builder.objectRef<Total>('Bucket').implement({
  description: 'The total of one period, such as a bar of a chart.',
  fields: (t) =>
    exposed(t, {
      start: ['DateTime', 'The start of the period, inclusive.'],
      end: ['DateTime', 'The end of the period, exclusive.'],
      value: ['SafeInt', 'The total of this period.'],
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

export const PeriodLimitInput = builder.inputRef<PeriodLimit>('PeriodLimitInput').implement({
  description: 'How much may be added in each period.',
  fields: (t) => ({
    period: t.field({ type: Period, required: true, description: 'The period.' }),
    max: t.field({ type: 'SafeInt', required: true, description: 'How much may be added in each, from 0.' }),
  }),
})

/** Returns a definition with its time zone spelled as in the IANA database. */
export function withZone<D extends { timeZone?: string | null | undefined }>(definition: D): D {
  const { timeZone } = definition
  return timeZone ? { ...definition, timeZone: timeZoneNamed(timeZone) } : definition
}

/** A counter as read, or as returned by a change. The times that it lacks are read on demand. */
export interface CounterSource extends CounterValue {
  /** Undefined unless it was selected. */
  revision?: number | undefined
  /** The counter's value, position and place on a leaderboard. */
  listed?: { value: number; position: LeaderboardPosition; place: () => Promise<number | null> }
}

export const Counter = builder.objectRef<CounterSource>('Counter')

export const Overflow = addEnum('Overflow', 'What happens to an addition that would exceed a bound.', {
  REJECT: 'The addition fails with LIMIT_REACHED.',
  SATURATE: 'The addition stops at the bound. `appliedDelta` is what was added.',
})

builder.node(Counter, {
  description: 'A named number. You do not create counters: any valid name can be read and changed.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.counters.readMany(ids.map(keyOf)),
  fields: (t) => ({
    ...exposed(t, {
      name: ['String', 'The name, exactly as it was written.'],
      value: ['SafeInt', 'The current value. With several slots, it is their sum.'],
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
        'The total of the current period. A reset does not change it. Null if neither this period nor a finer one is tracked.',
      args: { period },
      resolve: (counter, { period }, context, info) =>
        context.nth.counters.valueIn(counter, period, historyCharge(context, info), context.owner),
    }),
    limits: t.field({
      type: [PeriodLimitRef],
      description: 'Its limits by period, as in `maxIn` of its definition, finest first.',
      async resolve(counter, _, context, info) {
        const { maxIn = [] } = counter.definition ?? {}
        const { held } = maxIn.length > 0 ? await heldOf(counter, context.nth) : NOT_HELD
        return Promise.all(
          maxIn.map(async ({ period, max }) => {
            const charge = historyCharge(context, info)
            const totals = await context.nth.counters.history(
              counter,
              period,
              { last: 1 },
              charge,
              context.owner,
            )
            const [current] = totals ?? []
            assertInvariant(current !== undefined, 'a period with a limit is tracked')
            return { period, max, used: current.value, held, resetsAt: new Date(current.end) }
          }),
        )
      },
    }),
    history: t.field({
      type: [Bucket],
      nullable: true,
      description:
        'The total of each period, oldest first, including empty ones: the `last` periods before `to`, or all from the one that contains `from`. A field returns at most 2 500, and a request about 15 000. A period that is not tracked is computed from finer ones. Null if none of them is tracked.',
      args: {
        period,
        last: t.arg.int({
          description:
            'The number of periods, 0 to 2 500. The default is 30. It cannot be combined with `from`.',
          extensions: { check: checks.between(0, MAX_BUCKETS) },
        }),
        from: t.arg({ type: 'DateTime', description: 'An instant in the first period.' }),
        to: t.arg({
          type: 'DateTime',
          description:
            'The last period starts before this instant. By default, the current period is the last.',
        }),
      },
      extensions: { check: checks.historyRange },
      resolve(counter, { period, last, from, to }, context, info) {
        const range = { last: last ?? DEFAULT_BUCKETS, from, to }
        const charge = historyCharge(context, info)
        return context.nth.counters.history(counter, period, range, charge, context.owner)
      },
    }),
    ...parts(t, ({ definition }: CounterSource) => definition ?? UNBOUNDED, {
      minValue: [orNull('SafeInt'), 'The lowest allowed value. Null means that there is none.'],
      maxValue: [
        orNull('SafeInt'),
        'The highest allowed value. Null means that there is none. `maxValue - value - held` is what remains.',
      ],
      overflow: [Overflow, 'What happens at a bound.'],
      oncePer: [
        orNull(Period),
        'How often a subject counts: once in each such period. Null means once ever.',
      ],
      slots: [
        'Int',
        'The number of rows that the value is spread over. With 1, the numbers of callers are exact. With 2 to 1024, they are not unique, and bounds are not possible.',
      ],
    }),
    ...parts(t, heldOf, {
      held: [
        'SafeInt',
        'The additions that open holds take, and that are not counted yet. `maxValue - value - held` is what can be added.',
      ],
      heldDown: ['SafeInt', 'The subtractions that open holds take, as a positive number.'],
    }),
    ...parts(t, retentionOf, {
      timeZone: [orNull('String'), 'The IANA time zone of its periods. Null only if it could not be read.'],
      periods: [
        orNull([TrackedPeriodRef]),
        'The periods whose totals it keeps. Null only if they could not be read.',
      ],
    }),
    ...parts(t, (counter: CounterSource, { counters }: Nth) => counters.read(counter), {
      createdAt: [orNull('DateTime'), 'When it was first changed or defined. Null means never.'],
      updatedAt: [orNull('DateTime'), 'When its value last changed. Null means never.'],
    }),
  }),
})

const NOT_HELD = { held: 0, heldDown: 0 }

/** What is held of a counter. Nothing is read if it was never held. */
function heldOf(
  { held, heldDown, ...counter }: CounterSource,
  { counters }: Nth,
): typeof NOT_HELD | Promise<typeof NOT_HELD> {
  if (held !== undefined && heldDown !== undefined) return { held, heldDown }
  return counter.definition?.hasHolds ? counters.read(counter) : NOT_HELD
}

/** Retention of a counter; for a nonexistent one, the retention of its namespace. */
function retentionOf(
  { namespace, definition }: CounterSource,
  { namespaces }: Nth,
): Retention | Promise<Retention> {
  return definition ?? namespaces.read(namespace)
}

export const counterArguments = keyArguments('counter')

/** The arguments that name several counters. */
export const countersArguments = builder.args((t) => ({
  names: t.stringList({
    required: true,
    description: 'The names of the counters.',
    extensions: { check: checks.names },
  }),
  namespace: namespaceArgument('The namespace of the counters.'),
}))

const countBesidesValue = countSelected('revision', 'createdAt', 'updatedAt', 'held', 'heldDown', 'limits')

/** The reads that return what is selected, and little more. */
function readsOf(info: GraphQLResolveInfo, { counters }: Nth) {
  return countBesidesValue(info) > 0 ? counters : counters.values
}

builder.queryFields((t) => ({
  counter: t.field({
    type: Counter,
    extensions: { right: onName('READ') },
    description: 'Returns a counter. Its value is 0 if it was never changed.',
    args: counterArguments,
    resolve: (_, key, { nth }, info) => readsOf(info, nth).read(key),
  }),
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    extensions: { right: onNames },
    description:
      'Returns 1 to 500 counters, in the requested order. They are read together. Names may repeat. A counter that you may not read is null and has an error.',
    args: countersArguments,
    resolve(_, { namespace, names }, context, info) {
      const lengths = names.map((name) => namespace.length + name.length)
      const keys = names.map((name) => ({ namespace, name }))
      return chargedList(context, info, lengths, () => readsOf(info, context.nth).readMany(keys))
    },
  }),
}))
