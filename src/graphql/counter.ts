import { type Bounds, UNBOUNDED } from '../core/bounds.ts'
import type { CounterKey, CounterState, Known } from '../core/counters.ts'
import type { Definition, Retention } from '../core/definition.ts'
import { DEFAULT_BUCKETS } from '../core/history.ts'
import { joinNames, splitNames } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'
import { inTurns } from '../core/turns.ts'
import { spend, spendHistory, spendTexts } from './budget.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'
import type { LeaderboardPlace } from './cursors.ts'
import { fieldsBeneath } from './fieldCount.ts'
import { Bucket, Period, TrackedPeriodRef } from './period.ts'

/** A counter that was read, or one known from a change: what that doesn't tell is read when it is asked for. */
export type CounterSource = Omit<CounterState, Unknown | 'revision'> &
  Partial<Pick<CounterState, Unknown>> & {
    /** Known of a change where it is asked. */
    revision: number | undefined
    /** Where a leaderboard has it. */
    listed?: { value: number; place: LeaderboardPlace }
  }

type Unknown = 'createdAt' | 'updatedAt'

export const Counter = builder.objectRef<CounterSource>('Counter')

export const Overflow = builder.enumType('Overflow', {
  description: 'What an addition does that would cross a bound.',
  values: {
    REJECT: { description: 'It is refused with LIMIT_REACHED.' },
    SATURATE: { description: 'It is applied as far as it fits; `appliedDelta` says how far.' },
  },
})

builder.node(Counter, {
  description: 'A named number. Every valid name is a counter.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.counters.readMany(ids.map(keyOf)),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    value: t.expose('value', {
      type: 'SafeInt',
      description: 'Present number; with slots above 1, their sum.',
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        'Orders the states of a counter: the higher one is newer; a client cache keeps that one. Opaque otherwise; equal: the later answer wins.',
      resolve: ({ revision }) => knownRevision(revision),
    }),
    valueIn: t.field({
      type: 'SafeInt',
      nullable: true,
      description:
        "Sum of what was added in the running period; a reset doesn't touch it. Null: neither this period nor a finer one is tracked.",
      args: {
        period: t.arg({ type: Period, required: true, description: 'Which period.' }),
      },
      resolve: async (counter, { period }, context, info) => {
        const { counters } = context.nth
        return counters.valueIn(await knownOf(counter, context.nth), period, (cost) =>
          spendHistory(context, cost, info),
        )
      },
    }),
    history: t.field({
      type: [Bucket],
      nullable: true,
      description:
        'What was added in each period, oldest first, empty ones 0. The `last` ones before `to`, or all from the one holding `from`. At most 5 000, and 50 000 in a request. A period that is not tracked is added up from finer ones; null: no finer one is tracked either.',
      args: {
        period: t.arg({ type: Period, required: true, description: 'Which periods.' }),
        last: t.arg.int({
          description: 'How many, up to 5 000; 30 by default. Not with `from`.',
          validate: checks.bucketCount,
        }),
        from: t.arg({ type: 'DateTime', description: 'An instant in the first one.' }),
        to: t.arg({
          type: 'DateTime',
          description: 'The last one begins before this instant. Default: up to the running one.',
        }),
      },
      validate: checks.historyRange,
      resolve: async (counter, { period, last, from, to }, context, info) => {
        const { counters } = context.nth
        const known = await knownOf(counter, context.nth)
        const range = { last: last ?? DEFAULT_BUCKETS, from, to }
        const totals = await counters.history(known, period, range, (cost) =>
          spendHistory(context, cost, info),
        )
        return totals && inTurns(totals, fieldsBeneath(info))
      },
    }),
    minValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Lowest value allowed; null: none.',
      resolve: ({ definition }) => boundsOf(definition).minValue,
    }),
    maxValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Highest value allowed; null: none. `maxValue - value` are left.',
      resolve: ({ definition }) => boundsOf(definition).maxValue,
    }),
    overflow: t.field({
      type: Overflow,
      description: 'What happens at a bound.',
      resolve: ({ definition }) => boundsOf(definition).overflow,
    }),
    slots: t.int({
      description:
        '1: exact. 2 to 1024: numbers not unique, no bounds, for counters that several processes change very often.',
      resolve: ({ definition }) => definition?.slots ?? 1,
    }),
    timeZone: t.string({
      nullable: true,
      description: 'IANA zone in which its periods begin.',
      resolve: async (counter, _, { nth }) => (await retentionOf(counter, nth)).timeZone,
    }),
    periods: t.field({
      type: [TrackedPeriodRef],
      nullable: true,
      description: 'Periods it keeps.',
      resolve: async (counter, _, { nth }) => [...(await retentionOf(counter, nth)).periods],
    }),
    createdAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'First write or definition; null: neither yet.',
      // A promise only where there is something to wait for: a list may have hundreds.
      resolve: (counter, _, { nth }) =>
        counter.createdAt === undefined ? readTime(counter, 'createdAt', nth) : counter.createdAt,
    }),
    updatedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'Last change of value; null: none yet.',
      resolve: (counter, _, { nth }) =>
        counter.updatedAt === undefined ? readTime(counter, 'updatedAt', nth) : counter.updatedAt,
    }),
  }),
})

/** It belongs to the state that is told with it, so it is never read later. */
function knownRevision(revision: number | undefined): number {
  if (revision === undefined) throw new Error('A change without the revision that was asked for')
  return revision
}

function boundsOf(definition: Definition | undefined): Bounds {
  return definition?.bounds ?? UNBOUNDED
}

/** What is kept of a counter; of one that isn't there, what its namespace says. */
async function retentionOf(
  { namespace, definition }: CounterSource,
  { namespaces }: Nth,
): Promise<Retention> {
  return definition ?? (await namespaces.read(namespace)).retention
}

async function knownOf(counter: CounterSource, nth: Nth): Promise<Known> {
  const { namespace, name, definition } = counter
  return { namespace, name, retention: await retentionOf(counter, nth), slots: definition?.slots ?? 1 }
}

function keyOf(id: string): CounterKey {
  const [namespace = '', name = ''] = splitNames(id)
  return { namespace, name }
}

async function readTime(key: CounterKey, which: Unknown, { counters }: Nth): Promise<Date | null> {
  return (await counters.read(key))[which]
}

/** How long the names of some counters of a namespace are, which each of their ids has in it. */
export function lengthsOf(namespace: string, names: readonly string[]): number[] {
  return names.map((name) => namespace.length + name.length)
}

export const counterNamespaceArgument = {
  required: true,
  defaultValue: 'default',
  description: 'Namespace the counter lives in.',
  validate: checks.name,
} as const

export const counterNameArgument = {
  required: true,
  description: 'Name of the counter.',
  validate: checks.name,
} as const

builder.queryFields((t) => ({
  counter: t.field({
    type: Counter,
    nullable: true,
    description: 'One counter; 0 if never written.',
    args: { name: t.arg.string(counterNameArgument), namespace: t.arg.string(counterNamespaceArgument) },
    resolve: (_, key, { nth }) => nth.counters.read(key),
  }),
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    description: 'Many counters, one database read, in the order asked for; 1 to 500 names, repeats allowed.',
    args: {
      names: t.arg.stringList({
        required: true,
        description: 'Names of the counters.',
        ...checks.holds(checks.MAX_ITEMS),
        validate: checks.names,
      }),
      namespace: t.arg.string({
        ...counterNamespaceArgument,
        description: 'Namespace the counters live in.',
      }),
    },
    resolve: async (_, { namespace, names }, context, info) => {
      spend(context, names.length, info)
      spendTexts(context, lengthsOf(namespace, names), info)
      const counters = await context.nth.counters.readMany(names.map((name) => ({ namespace, name })))
      return inTurns(counters, fieldsBeneath(info))
    },
  }),
}))
