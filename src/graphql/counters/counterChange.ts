import type { GraphQLResolveInfo } from 'graphql'
import { type CallOptions, type CounterChange, MAX_CHANGES } from '../../core/counters/counters.ts'
import type { ResetSummary } from '../../core/counters/resetAll.ts'
import type { CounterKey } from '../../core/counters/state.ts'
import { deliverInTicks } from '../../core/eventLoop/ticks.ts'
import * as checks from '../arguments/checks.ts'
import { claimFor, idempotencyKeyArgument } from '../arguments/idempotency.ts'
import { builder, type Context } from '../builder.ts'
import { countSelected, fieldsBelow, isSelectedBelow } from '../selections.ts'
import { spend } from '../valueBudget.ts'
import {
  Counter,
  type CounterSource,
  counterNameArgument,
  counterNamespaceArgument,
  idLengths,
  Overflow,
} from './counter.ts'
import { Period, TrackedPeriodInput, withZone } from './period.ts'

/** A change and, in `incrementMany`, the last change of the same call to the same counter. */
interface ChangeSource extends CounterChange {
  last?: CounterChange | undefined
}

const CounterChangeRef = builder.objectRef<ChangeSource>('CounterChange').implement({
  description: 'Result of a change to a counter.',
  fields: (t) => ({
    value: t.expose('value', {
      type: 'SafeInt',
      description:
        'The value after this call: you are buyer number `value`. Unique if the counter is exact and only counts up.',
    }),
    previousValue: t.expose('previousValue', { type: 'SafeInt', description: 'The value before this call.' }),
    appliedDelta: t.expose('appliedDelta', {
      type: 'SafeInt',
      nullable: true,
      description: 'What was actually added; null for reset and delete.',
    }),
    valueIn: t.field({
      type: 'SafeInt',
      nullable: true,
      description:
        "Total of the current period, including this call: the 12th this month. Null: this period isn't tracked, or the counter was deleted.",
      args: { period: t.arg({ type: Period, required: true, description: 'The period.' }) },
      resolve: ({ valuesIn }, { period }) => valuesIn?.[period] ?? null,
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was applied; determines the period.' }),
    replayed: t.boolean({
      description: 'Whether this is the result of an earlier call with the same key.',
      resolve: ({ isReplayed }) => isReplayed,
    }),
    counter: t.field({
      type: Counter,
      nullable: true,
      description:
        "The counter after this call, for client caches. Its `value` differs from the change's own if `incrementMany` changes the counter again, or if the call is replayed: then it is read now. Null only with an error of its own; the change was applied.",
      resolve: (change, _, { nth }) =>
        change.isReplayed ? nth.counters.read(change.key) : counterAfter(change.last ?? change),
    }),
  }),
})

function counterAfter({ key, value, at, definition, revision, isDeletion }: CounterChange): CounterSource {
  if (isDeletion) return { ...key, value, definition, revision, createdAt: null, updatedAt: null }
  return { ...key, value, definition, revision, updatedAt: at }
}

/** A cache may keep any of several states of a counter in one response, so each change has the last one. */
function withLast(changes: readonly CounterChange[]): ChangeSource[] {
  const last = new Map(changes.map((change) => [change.key.name, change]))
  return changes.map((change) => ({ ...change, last: last.get(change.key.name) }))
}

const countValueIn = countSelected('valueIn')
const isRevisionSelected = isSelectedBelow('revision')

/** The options of a mutation, from its arguments and selection. */
function callOptions(
  args: Parameters<typeof claimFor>[0],
  context: Context,
  info: GraphQLResolveInfo,
): CallOptions {
  return {
    claim: claimFor(args, context, info),
    wantsPeriodValues: countValueIn(info) > 0,
    withRevision: isRevisionSelected(info),
  }
}

const ResetSummaryRef = builder.objectRef<ResetSummary>('ResetSummary').implement({
  description: 'Result of resetAll.',
  fields: (t) => ({
    resetCount: t.exposeInt('resetCount', { description: 'Number of counters set.' }),
    refusedCount: t.exposeInt('refusedCount', {
      description: 'Number of counters left unchanged because `to` is outside their bounds.',
    }),
  }),
})

const CounterDelta = builder.inputType('CounterDeltaInput', {
  description: 'An addition to a counter.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'Name of the counter.' }),
    delta: t.field({ type: 'SafeInt', required: true, defaultValue: 1, description: 'How much to add.' }),
  }),
})

const CounterDefinition = builder.inputType('CounterDefinitionInput', {
  description: 'Omitted: unchanged. Null: reset to the default.',
  fields: (t) => ({
    minValue: t.field({ type: 'SafeInt', description: 'Lowest allowed value. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest allowed value. Default: none.' }),
    overflow: t.field({ type: Overflow, description: 'What happens at a bound. Default: REJECT.' }),
    slots: t.int({
      description:
        'Rows that the value is split across, 1 to 1024. Default: 1, exact. Above 1: numbers not unique, and no bounds.',
    }),
    timeZone: t.string({
      description:
        "IANA time zone of its periods. Default: the namespace's. Existing totals count in the new zone's period that contains their midpoint.",
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      ...checks.holds(checks.MAX_PERIODS),
      description: "All periods whose totals it keeps; [] for none. Default: the namespace's.",
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
    description: 'Adds 1 and returns your number.',
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
    description: 'Adds any number, including negative ones and 0.',
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
    description: 'Applies 1 to 1 000 changes, all or none; returns them in the given order.',
    args: {
      changes: t.arg({
        type: [CounterDelta],
        required: true,
        description: '1 to 1 000 additions; the same counter may occur several times.',
        ...checks.holds(MAX_CHANGES),
        validate: checks.changes,
      }),
      namespace: t.arg.string({
        ...counterNamespaceArgument,
        description: 'Namespace of the counters.',
      }),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: async (_, args, context, info) => {
      const { namespace, changes } = args
      // Before anything is applied: a request beyond its budget must change nothing.
      const names = changes.map(({ name }) => name)
      spend(context, changes.length, info, idLengths(namespace, names))
      const options = callOptions(args, context, info)
      const done = await context.nth.counters.incrementMany(namespace, changes, options)
      return deliverInTicks(withLast(done), fieldsBelow(info))
    },
  }),
  reset: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Sets the value, which must be within the bounds; history is unchanged.',
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
    description: 'Sets every counter of a namespace, in batches, not atomically; a repeat sets them again.',
    args: {
      namespace: t.arg.string({
        required: true,
        description: 'Namespace of the counters.',
        validate: checks.name,
      }),
      prefix: t.arg.string({
        required: true,
        defaultValue: '',
        description: 'Only counters whose names start with this.',
        validate: checks.textOrEmpty,
      }),
      to: t.arg(toArgument),
    },
    resolve: (_, { namespace, prefix, to }, { nth }) => nth.counters.resetAll(namespace, prefix, to),
  }),
  defineCounter: t.field({
    type: Counter,
    nullable: true,
    description: 'Creates a counter or changes its definition, never its value.',
    args: {
      name: t.arg.string(counterNameArgument),
      definition: t.arg({
        type: CounterDefinition,
        required: true,
        description: 'The changes; bounds must include the current value.',
        validate: checks.definition,
      }),
      namespace: t.arg.string(counterNamespaceArgument),
    },
    async resolve(_, args, { nth }, info): Promise<CounterSource> {
      const change = withZone(args.definition)
      const withRevision = isRevisionSelected(info)
      const defined = await nth.counters.define(keyIn(args), change, { withRevision })
      const { key, value, definition, revision } = defined
      return { ...key, value, definition, revision }
    },
  }),
  deleteCounter: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Deletes value, definition and history; the name reads 0 again.',
    args: { name: t.arg.string(counterNameArgument), namespace: t.arg.string(counterNamespaceArgument) },
    resolve: (_, args, { nth }, info) =>
      nth.counters.delete(keyIn(args), { withRevision: isRevisionSelected(info) }),
  }),
}))

function keyIn({ namespace, name }: CounterKey): CounterKey {
  return { namespace, name }
}
