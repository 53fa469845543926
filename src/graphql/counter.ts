import type { CounterChange, CounterKey, CounterState, ResetSummary } from '../core/counters.ts'
import { joinNames, splitNames } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'
import { spend } from './budget.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'
import { claimFor, idempotencyKeyArgument } from './idempotency.ts'

/** A counter that was read, or one known from a change: what that doesn't tell is read when it is asked for. */
type CounterSource = Omit<CounterState, Unknown> & Partial<Pick<CounterState, Unknown>>

type Unknown = 'createdAt' | 'updatedAt'

export const Counter = builder.objectRef<CounterSource>('Counter')

const Overflow = builder.enumType('Overflow', {
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
    namespace: t.exposeString('namespace', { description: 'Namespace it lives in.' }),
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    value: t.expose('value', { type: 'SafeInt', description: 'Present number.' }),
    minValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Lowest value allowed; null: none.',
      resolve: ({ bounds }) => bounds.minValue,
    }),
    maxValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Highest value allowed; null: none. `maxValue - value` are left.',
      resolve: ({ bounds }) => bounds.maxValue,
    }),
    overflow: t.field({
      type: Overflow,
      description: 'What happens at a bound.',
      resolve: ({ bounds }) => bounds.overflow,
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

function keyOf(id: string): CounterKey {
  const [namespace = '', name = ''] = splitNames(id)
  return { namespace, name }
}

async function readTime(key: CounterKey, which: Unknown, { counters }: Nth): Promise<Date | null> {
  return (await counters.read(key))[which]
}

const CounterChangeRef = builder.objectRef<CounterChange>('CounterChange').implement({
  description: 'What one call did.',
  fields: (t) => ({
    value: t.expose('value', {
      type: 'SafeInt',
      description:
        'The number this very call produced: you are buyer number `value`. Unique if the counter only counts up.',
    }),
    previousValue: t.expose('previousValue', { type: 'SafeInt', description: 'The number just before.' }),
    appliedDelta: t.expose('appliedDelta', {
      type: 'SafeInt',
      nullable: true,
      description: 'What was really added; null for reset and delete, which set.',
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it counted.' }),
    replayed: t.boolean({
      description: 'An earlier call with this key counted; this is its answer.',
      resolve: ({ isReplayed }) => isReplayed,
    }),
    counter: t.field({
      type: Counter,
      nullable: true,
      description:
        'The counter, for client caches: with this `value`, or the present one if replayed. Null only beside an error of its own; the change stands.',
      resolve: (change, _, { nth }) =>
        change.isReplayed ? nth.counters.read(change.key) : counterAfter(change),
    }),
  }),
})

function counterAfter({ key, value, at, bounds, isDeletion }: CounterChange): CounterSource {
  if (isDeletion) return { ...key, value, bounds, createdAt: null, updatedAt: null }
  return { ...key, value, bounds, updatedAt: at }
}

const ResetSummaryRef = builder.objectRef<ResetSummary>('ResetSummary').implement({
  description: 'What resetAll did.',
  fields: (t) => ({
    resetCount: t.exposeInt('resetCount', { description: 'Counters set.' }),
    refusedCount: t.exposeInt('refusedCount', {
      description: 'Counters left alone because `to` is outside their bounds.',
    }),
  }),
})

const CounterDelta = builder.inputType('CounterDelta', {
  description: 'A counter, and how much to add to it.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'Name of the counter.' }),
    delta: t.field({ type: 'SafeInt', required: true, defaultValue: 1, description: 'How much.' }),
  }),
})

const CounterDefinition = builder.inputType('CounterDefinition', {
  description: 'Left out: stays as it is. Null: back to the default.',
  fields: (t) => ({
    minValue: t.field({ type: 'SafeInt', description: 'Lowest value allowed. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest value allowed. Default: none.' }),
    overflow: t.field({ type: Overflow, description: 'What happens at a bound. Default: REJECT.' }),
  }),
})

const namespaceArgument = {
  required: true,
  defaultValue: 'default',
  description: 'Namespace the counter lives in.',
  validate: checks.name,
} as const

const nameArgument = {
  required: true,
  description: 'Name of the counter.',
  validate: checks.name,
} as const

builder.queryFields((t) => ({
  counter: t.field({
    type: Counter,
    description: 'One counter; 0 if never written.',
    args: { name: t.arg.string(nameArgument), namespace: t.arg.string(namespaceArgument) },
    resolve: (_, key, { nth }) => nth.counters.read(key),
  }),
  counters: t.field({
    type: [Counter],
    description: 'Many counters, one database read, in the order asked for; 1 to 500 names, repeats allowed.',
    args: {
      names: t.arg.stringList({
        required: true,
        description: 'Names of the counters.',
        validate: checks.names,
      }),
      namespace: t.arg.string({ ...namespaceArgument, description: 'Namespace the counters live in.' }),
    },
    resolve: (_, { namespace, names }, context, info) => {
      spend(context, names.length, info)
      return context.nth.counters.readMany(names.map((name) => ({ namespace, name })))
    },
  }),
}))

const toArgument = {
  type: 'SafeInt',
  required: true,
  defaultValue: 0,
  description: 'The value to set.',
} as const

builder.mutationFields((t) => ({
  increment: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Adds 1 and tells you your number.',
    args: {
      name: t.arg.string(nameArgument),
      namespace: t.arg.string(namespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.incrementBy(keyIn(args), 1, claimFor(args, context, info)),
  }),
  incrementBy: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Adds any number, also negative or 0.',
    args: {
      name: t.arg.string(nameArgument),
      delta: t.arg({ type: 'SafeInt', required: true, description: 'How much to add.' }),
      namespace: t.arg.string(namespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.incrementBy(keyIn(args), args.delta, claimFor(args, context, info)),
  }),
  incrementMany: t.field({
    type: [CounterChangeRef],
    nullable: true,
    description: 'Up to 1 000 changes, all or none; answers in the order given.',
    args: {
      changes: t.arg({
        type: [CounterDelta],
        required: true,
        description:
          'What to add to which counters, 1 to 1 000 of them; the same counter may be there again.',
        validate: checks.changes,
      }),
      namespace: t.arg.string({ ...namespaceArgument, description: 'Namespace the counters live in.' }),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) => {
      // Before anything is counted: what is too much must not be found out afterwards.
      spend(context, args.changes.length, info)
      return context.nth.counters.incrementMany(args.namespace, args.changes, claimFor(args, context, info))
    },
  }),
  reset: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Sets the value, to any within its bounds.',
    args: {
      name: t.arg.string(nameArgument),
      to: t.arg(toArgument),
      namespace: t.arg.string(namespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.reset(keyIn(args), args.to, claimFor(args, context, info)),
  }),
  resetAll: t.field({
    type: ResetSummaryRef,
    nullable: true,
    description: 'Sets every counter of a namespace, in steps, not at one instant; a repeat sets them again.',
    args: {
      namespace: t.arg.string({
        required: true,
        description: 'Namespace the counters live in.',
        validate: checks.name,
      }),
      prefix: t.arg.string({
        required: true,
        defaultValue: '',
        description: 'Only counters whose names begin with this.',
        validate: checks.textOrEmpty,
      }),
      to: t.arg(toArgument),
    },
    resolve: (_, { namespace, prefix, to }, { nth }) => nth.counters.resetAll(namespace, prefix, to),
  }),
  defineCounter: t.field({
    type: Counter,
    nullable: true,
    description: 'Makes a counter or changes its definition, never its value.',
    args: {
      name: t.arg.string(nameArgument),
      definition: t.arg({
        type: CounterDefinition,
        required: true,
        description: 'What is to change; the present value must fit it.',
        validate: checks.definition,
      }),
      namespace: t.arg.string(namespaceArgument),
    },
    async resolve(_, args, { nth }): Promise<CounterSource> {
      const { key, value, bounds } = await nth.counters.define(keyIn(args), args.definition)
      return { ...key, value, bounds }
    },
  }),
  deleteCounter: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Forgets value and definition; the name reads 0 again.',
    args: { name: t.arg.string(nameArgument), namespace: t.arg.string(namespaceArgument) },
    resolve: (_, args, { nth }) => nth.counters.delete(keyIn(args)),
  }),
}))

function keyIn({ namespace, name }: CounterKey): CounterKey {
  return { namespace, name }
}
