import type { GraphQLResolveInfo } from 'graphql'
import type { CallOptions, CounterChange, ResetSummary } from '../repository/counters.ts'
import type { CounterKey } from '../rules/counter.ts'
import * as checks from './arguments.ts'
import { callOptions, type KeyedArguments } from './arguments.ts'
import {
  builder,
  exposed,
  idempotencyKey,
  nameArgument,
  orNull,
  requiredSubject,
  subject,
  textArgument,
} from './builder.ts'
import type { Context } from './context.ts'
import {
  Counter,
  type CounterSource,
  counterArguments,
  countersArguments,
  Overflow,
  Period,
  PeriodLimitInput,
  period,
  TrackedPeriodInput,
  withZone,
} from './counter.ts'
import { on, onName, onSubject, PREFIXED, toAdd, toIncrement } from './rights.ts'
import { chargedList, chargeSubject, countSelected } from './selections.ts'

/** A change and, in `incrementMany`, the last change of the same call to the same counter. */
interface ChangeSource extends CounterChange {
  last?: CounterChange | undefined
}

export const CounterChangeRef = builder.objectRef<ChangeSource>('CounterChange').implement({
  description: 'The result of a change to a counter.',
  fields: (t) => ({
    ...exposed(t, {
      value: [
        'SafeInt',
        'The value after this call: you are buyer number `value`. For a subject that had counted before, it is the value after its first call. It is unique if the counter has one slot and only counts up; after `uncount`, numbers repeat.',
      ],
      previousValue: [
        'SafeInt',
        'The value before this call. For a subject that had counted before, the value before its first call.',
      ],
      appliedDelta: [
        orNull('SafeInt'),
        'What was added. 0 if the subject had counted before, or if a bound let `uncount` subtract nothing. Null for a reset and for a deletion.',
      ],
    }),
    valueIn: t.field({
      type: 'SafeInt',
      nullable: true,
      description:
        'The total of the current period, including this call: the 12th this month. Null if this period is not tracked, and for a deletion.',
      args: { period },
      resolve: ({ valuesIn }, { period }) => valuesIn?.[period] ?? null,
    }),
    ...exposed(t, {
      at: ['DateTime', 'When the change was applied. This determines its period.'],
    }),
    alreadyCounted: t.exposeBoolean('isAlreadyCounted', {
      description:
        'Whether the subject had counted before. If so, `value`, `previousValue`, `valueIn` and `at` are those of its first call.',
    }),
    replayed: t.exposeBoolean('isReplayed', {
      description:
        'Whether this is the result of an earlier call with the same idempotency key, or of an earlier confirmation of the same hold.',
    }),
    counter: t.field({
      type: Counter,
      nullable: true,
      extensions: { right: on('READ', 'its name', ({ parent }) => parent.key) },
      description:
        'The counter after this call, for client caches. If `incrementMany` changes it several times, this is its last state. If the call is replayed, or its subject had counted before, this is its current state. Null only if it could not be read; the change itself was applied.',
      resolve: (change, _, { nth }) =>
        change.isReplayed || change.isAlreadyCounted
          ? nth.counters.read(change.key)
          : counterAfter(change.last ?? change),
    }),
  }),
})

builder.objectField(Counter, 'changeOf', (t) =>
  t.field({
    type: CounterChangeRef,
    nullable: true,
    extensions: { right: onSubject('ADD', ({ parent }) => parent) },
    description:
      'The result of the first call of this subject. Null if it has not counted. A key for pages needs `onceOnly` for this, and reads only what pages counted. Not available in subscriptions.',
    args: { subject: requiredSubject('Who counted.') },
    async resolve(counter, { subject }, context, info) {
      await chargeSubject(context, info)
      return context.nth.counters.changeOf(counter, subject, context.owner)
    },
  }),
)

const ResetSummaryRef = builder.objectRef<ResetSummary>('ResetSummary').implement({
  description: 'The result of `resetAll`.',
  fields: (t) =>
    exposed(t, {
      resetCount: ['Int', 'How many counters were set.'],
      refusedCount: ['Int', 'How many counters were skipped, because `to` is outside their bounds.'],
    }),
})

function counterAfter({
  key,
  value,
  at,
  definition,
  revision,
  held,
  isDeletion,
}: CounterChange): CounterSource {
  const { namespace, name } = key
  if (held) return { namespace, name, value, definition, revision, held: held.up, heldDown: held.down }
  if (isDeletion) return { namespace, name, value, definition, revision, createdAt: null, updatedAt: null }
  return { namespace, name, value, definition, revision, updatedAt: at }
}

/** A cache may keep any of several states of a counter in one response, so each change has the last one. */
function withLast(changes: readonly CounterChange[]): readonly ChangeSource[] {
  const last = new Map<string, CounterChange>()
  for (const change of changes) last.set(change.key.name, change)
  if (last.size === changes.length) return changes
  return changes.map((change) => ({ ...change, last: last.get(change.key.name) }))
}

const countValueIn = countSelected('valueIn')

function changeOptions(args: KeyedArguments, context: Context, info: GraphQLResolveInfo): CallOptions {
  return callOptions(args, context, info, countValueIn(info) > 0)
}

export const CounterDelta = builder.inputType('CounterDeltaInput', {
  description: 'An addition to a counter.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'The name of the counter.' }),
    delta: t.field({
      type: 'SafeInt',
      required: true,
      defaultValue: 1,
      description: 'How much to add. It may be negative.',
    }),
  }),
})

const { name, namespace } = counterArguments

const { to } = builder.args((t) => ({
  to: t.field({ type: 'SafeInt', required: true, defaultValue: 0, description: 'The value to set.' }),
}))

builder.mutationFields((t) => ({
  increment: t.field({
    type: CounterChangeRef,
    extensions: { right: toIncrement },
    description:
      'Adds 1, and returns your number. With a `subject`, it adds 1 only the first time in each `oncePer` of the counter.',
    args: { name, namespace, subject, idempotencyKey },
    resolve(_, args, context, info) {
      const options = changeOptions(args, context, info)
      if (args.subject == null) return context.nth.counters.incrementBy(keyIn(args), 1, options)
      return context.nth.counters.countOnce(keyIn(args), args.subject, options)
    },
  }),
  uncount: t.field({
    type: CounterChangeRef,
    nullable: true,
    extensions: { right: onSubject('ADD', ({ args }) => keyIn(args)) },
    description:
      'Takes back what a subject counted, such as a like: subtracts 1 now, also from the current periods. The subject may then count again. If a bound refuses to subtract, as after a reset to the minimum, `appliedDelta` is 0, and the subject may still count again. Null if it has not counted. A key for pages needs `onceOnly` for this, and takes back only what pages counted.',
    args: { name, subject: requiredSubject('Who counted.'), namespace, idempotencyKey },
    resolve: (_, args, context, info) =>
      context.nth.counters.uncount(keyIn(args), args.subject, changeOptions(args, context, info)),
  }),
  incrementBy: t.field({
    type: CounterChangeRef,
    extensions: { right: toAdd('the name, for 1 to `maxDelta` in one request. Other amounts need WRITE') },
    description: 'Adds any number, which may be negative or 0.',
    args: {
      name,
      delta: t.arg({ type: 'SafeInt', required: true, description: 'How much to add. It may be negative.' }),
      namespace,
      idempotencyKey,
    },
    resolve: (_, args, context, info) =>
      context.nth.counters.incrementBy(keyIn(args), args.delta, changeOptions(args, context, info)),
  }),
  incrementMany: t.field({
    type: [CounterChangeRef],
    extensions: { right: toAdd('each name, for 1 to `maxDelta` in one request. Other amounts need WRITE') },
    description: 'Makes 1 to 1 000 additions, all or none, and returns their results in the same order.',
    args: {
      changes: t.arg({
        type: [CounterDelta],
        required: true,
        description: '1 to 1 000 additions. The same counter may occur several times.',
        extensions: { check: checks.changes },
      }),
      namespace: countersArguments.namespace,
      idempotencyKey,
    },
    resolve: async (_, args, context, info) => {
      const { namespace, changes } = args
      const lengths = changes.map(({ name }) => namespace.length + name.length)
      // Charged before anything is applied: a request beyond its budget must change nothing.
      const done = await chargedList(context, info, lengths, () =>
        context.nth.counters.incrementMany(namespace, changes, changeOptions(args, context, info)),
      )
      return withLast(done)
    },
  }),
  reset: t.field({
    type: CounterChangeRef,
    extensions: { right: onName('WRITE'), check: checks.reset },
    description:
      'Sets the value, which must be within the bounds. The history does not change. Subjects that have counted stay counted, unless `forgetSubjects` is true. With `expectedValue` or `expectedRevision`, it fails with CONFLICT if the counter differs.',
    args: {
      name,
      to,
      expectedValue: t.arg({
        type: 'SafeInt',
        description: 'Set the value only if the current one is this.',
      }),
      expectedRevision: t.arg({
        type: 'SafeInt',
        description:
          'Set the value only if the current `revision` is this, so no change is overwritten. For a counter that was never changed, use `expectedValue: 0`. Counters with several slots refuse it.',
      }),
      forgetSubjects: t.arg({
        type: 'Boolean',
        required: true,
        defaultValue: false,
        description: 'Whether every subject may count again.',
      }),
      namespace,
      idempotencyKey,
    },
    resolve(_, args, context, info) {
      const options = changeOptions(args, context, info)
      const expected = { value: args.expectedValue, revision: args.expectedRevision }
      return context.nth.counters.reset(keyIn(args), args.to, options, expected, args.forgetSubjects)
    },
  }),
  resetAll: t.field({
    type: ResetSummaryRef,
    extensions: {
      right: on('WRITE', PREFIXED, ({ args: { namespace, prefix } }) => ({ namespace, prefix })),
      audited: ({ resetCount }: ResetSummary) => ({ count: resetCount }),
    },
    description:
      'Sets every counter of a namespace, in batches. It is not atomic, and a repeat sets the counters again.',
    args: {
      namespace: nameArgument('The namespace of the counters.'),
      prefix: textArgument('Only counters whose names start with this text.'),
      to,
    },
    resolve: (_, { namespace, prefix, to }, { nth, owner }) =>
      nth.counters.resetAll(namespace, prefix, to, owner),
  }),
}))

function keyIn({ namespace, name }: CounterKey): CounterKey {
  return { namespace, name }
}

const CounterDefinition = builder.inputType('CounterDefinitionInput', {
  description: 'Changes to a definition. An omitted field stays as it is, and null restores the default.',
  fields: (t) => ({
    minValue: t.field({
      type: 'SafeInt',
      description: 'The lowest allowed value. By default, there is none.',
    }),
    maxValue: t.field({
      type: 'SafeInt',
      description: 'The highest allowed value. By default, there is none.',
    }),
    overflow: t.field({
      type: Overflow,
      description: 'What happens at a bound, or at a limit of `maxIn`. The default is REJECT.',
    }),
    maxIn: t.field({
      type: [PeriodLimitInput],
      description:
        'How much may be added in each period of its time zone. Each must be one of its `periods`. A limit refuses additions only, also where it is below what is used. By default, there are none.',
    }),
    slots: t.int({
      description:
        'The number of rows to spread the value over, 1 to 1024. The default is 1. With more, the numbers of callers are not unique, and bounds and limits are not possible.',
    }),
    oncePer: t.field({
      type: Period,
      description:
        'How often a subject counts: once in each such period of the time zone. By default, once ever. If you change it or the time zone, subjects may count again.',
    }),
    timeZone: t.string({
      description:
        "The IANA time zone of its periods. The default is the namespace's. If you change it, each existing total moves to the period of the new zone that contains its midpoint.",
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      description: "All periods whose totals it keeps, or [] for none. The default is the namespace's.",
    }),
  }),
})

builder.mutationFields((t) => ({
  defineCounter: t.field({
    type: Counter,
    extensions: { right: onName('DEFINE') },
    description: 'Creates a counter, or changes its definition. It never changes the value.',
    args: {
      name: counterArguments.name,
      definition: t.arg({
        type: CounterDefinition,
        required: true,
        description: 'The changes. Bounds must include the current value, with what is held.',
        extensions: { check: checks.definition },
      }),
      namespace: counterArguments.namespace,
    },
    async resolve(_, args, context, info): Promise<CounterSource> {
      const [change, options] = [withZone(args.definition), callOptions(args, context, info)]
      const defined = await context.nth.counters.define(keyIn(args), change, options)
      const { key, value, definition, revision, held } = defined
      return { ...key, value, definition, revision, ...(held && { held: held.up, heldDown: held.down }) }
    },
  }),
  deleteCounter: t.field({
    type: CounterChangeRef,
    extensions: { right: onName('WRITE') },
    description: 'Deletes the value, the definition and the history. The name then reads 0 again.',
    args: counterArguments,
    resolve: (_, key, context, info) => context.nth.counters.delete(key, callOptions(key, context, info)),
  }),
}))
