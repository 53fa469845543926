import type { GraphQLResolveInfo } from 'graphql'
import { type CallOptions, type CounterChange, type CounterKey, MAX_CHANGES } from '../core/counters.ts'
import type { ResetSummary } from '../core/resetting.ts'
import { inTurns } from '../core/turns.ts'
import { spend, spendTexts } from './budget.ts'
import { builder, type Context } from './builder.ts'
import * as checks from './checks.ts'
import {
  Counter,
  type CounterSource,
  counterNameArgument,
  counterNamespaceArgument,
  lengthsOf,
  Overflow,
} from './counter.ts'
import { fieldsBeneath, isAskedBeneath, timesAsked } from './fieldCount.ts'
import { claimFor, idempotencyKeyArgument } from './idempotency.ts'
import { Period, TrackedPeriodInput, withZone } from './period.ts'

/** A change and, of a cart, the last one in it to the same counter. */
interface ChangeSource extends CounterChange {
  last?: CounterChange | undefined
}

const CounterChangeRef = builder.objectRef<ChangeSource>('CounterChange').implement({
  description: 'What one call did.',
  fields: (t) => ({
    value: t.expose('value', {
      type: 'SafeInt',
      description:
        'The number this very call produced: you are buyer number `value`. Unique if the counter is exact and only counts up.',
    }),
    previousValue: t.expose('previousValue', { type: 'SafeInt', description: 'The number just before.' }),
    appliedDelta: t.expose('appliedDelta', {
      type: 'SafeInt',
      nullable: true,
      description: 'What was really added; null for reset and delete, which set.',
    }),
    valueIn: t.field({
      type: 'SafeInt',
      nullable: true,
      description:
        "This call's number in the running period: the 12th this month. Null: that period isn't tracked.",
      args: { period: t.arg({ type: Period, required: true, description: 'Which period.' }) },
      resolve: ({ valuesIn }, { period }) => valuesIn?.[period] ?? null,
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it counted; decides the period.' }),
    replayed: t.boolean({
      description: 'An earlier call with this key counted; this is its answer.',
      resolve: ({ isReplayed }) => isReplayed,
    }),
    counter: t.field({
      type: Counter,
      nullable: true,
      description:
        "The counter, for client caches, as this call left it. Its `value` differs from the change's own where a cart changes the counter again, and where the call is replayed: then it is read now. Null only beside an error of its own; the change stands.",
      resolve: (change, _, { nth }) =>
        change.isReplayed ? nth.counters.read(change.key) : counterAfter(change.last ?? change),
    }),
  }),
})

function counterAfter({ key, value, at, definition, revision, isDeletion }: CounterChange): CounterSource {
  if (isDeletion) return { ...key, value, definition, revision, createdAt: null, updatedAt: null }
  return { ...key, value, definition, revision, updatedAt: at }
}

/** A cache that is given several states of a counter at once keeps any of them: so each change has the last one. */
function withLast(changes: readonly CounterChange[]): ChangeSource[] {
  const last = new Map(changes.map((change) => [change.key.name, change]))
  return changes.map((change) => ({ ...change, last: last.get(change.key.name) }))
}

/** The options of a mutation, from its arguments and selection. */
function callOptions(
  args: Parameters<typeof claimFor>[0],
  context: Context,
  info: GraphQLResolveInfo,
): CallOptions {
  const wantsPeriodValues = timesAsked('valueIn', info) > 0
  return {
    claim: claimFor(args, context, info),
    wantsPeriodValues,
    withRevision: isAskedBeneath('revision', info),
  }
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

const CounterDelta = builder.inputType('CounterDeltaInput', {
  description: 'A counter, and how much to add to it.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'Name of the counter.' }),
    delta: t.field({ type: 'SafeInt', required: true, defaultValue: 1, description: 'How much.' }),
  }),
})

const CounterDefinition = builder.inputType('CounterDefinitionInput', {
  description: 'Left out: stays as it is. Null: back to the default.',
  fields: (t) => ({
    minValue: t.field({ type: 'SafeInt', description: 'Lowest value allowed. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest value allowed. Default: none.' }),
    overflow: t.field({ type: Overflow, description: 'What happens at a bound. Default: REJECT.' }),
    slots: t.int({
      description:
        'Over how many rows the value is spread. Default: 1, exact. Above 1: up to 1024, numbers not unique, and no bounds.',
    }),
    timeZone: t.string({
      description:
        "IANA zone in which its periods begin. Default: the namespace's. What was kept counts in the period of the new zone that its middle lies in.",
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      ...checks.holds(checks.MAX_PERIODS),
      description: "The whole list of periods to keep, [] for none. Default: the namespace's.",
    }),
  }),
})

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
      name: t.arg.string(counterNameArgument),
      namespace: t.arg.string(counterNamespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.incrementBy(keyIn(args), 1, callOptions(args, context, info)),
  }),
  incrementBy: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Adds any number, also negative or 0.',
    args: {
      name: t.arg.string(counterNameArgument),
      delta: t.arg({ type: 'SafeInt', required: true, description: 'How much to add.' }),
      namespace: t.arg.string(counterNamespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.incrementBy(keyIn(args), args.delta, callOptions(args, context, info)),
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
        ...checks.holds(MAX_CHANGES),
        validate: checks.changes,
      }),
      namespace: t.arg.string({
        ...counterNamespaceArgument,
        description: 'Namespace the counters live in.',
      }),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: async (_, args, context, info) => {
      const { namespace, changes } = args
      // Before anything is counted: what is too much must not be found out afterwards.
      spend(context, changes.length, info)
      const names = changes.map(({ name }) => name)
      spendTexts(context, lengthsOf(namespace, names), info)
      const options = callOptions(args, context, info)
      const done = await context.nth.counters.incrementMany(namespace, changes, options)
      return inTurns(withLast(done), fieldsBeneath(info))
    },
  }),
  reset: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Sets the value, to any within its bounds; history stays.',
    args: {
      name: t.arg.string(counterNameArgument),
      to: t.arg(toArgument),
      namespace: t.arg.string(counterNamespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.reset(keyIn(args), args.to, callOptions(args, context, info)),
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
      name: t.arg.string(counterNameArgument),
      definition: t.arg({
        type: CounterDefinition,
        required: true,
        description: 'What is to change; the present value must fit it.',
        validate: checks.definition,
      }),
      namespace: t.arg.string(counterNamespaceArgument),
    },
    async resolve(_, args, { nth }, info): Promise<CounterSource> {
      const change = withZone(args.definition)
      const withRevision = isAskedBeneath('revision', info)
      const defined = await nth.counters.define(keyIn(args), change, { withRevision })
      const { key, value, definition, revision } = defined
      return { ...key, value, definition, revision }
    },
  }),
  deleteCounter: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Forgets value, definition and history; the name reads 0 again.',
    args: { name: t.arg.string(counterNameArgument), namespace: t.arg.string(counterNamespaceArgument) },
    resolve: (_, args, { nth }, info) =>
      nth.counters.delete(keyIn(args), { withRevision: isAskedBeneath('revision', info) }),
  }),
}))

function keyIn({ namespace, name }: CounterKey): CounterKey {
  return { namespace, name }
}
