import type { CounterChange, CounterKey, CounterState } from '../core/counters.ts'
import { joinNames, splitNames } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'
import { spend } from './budget.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'

/** A counter that was read, or one known from a change: that one's creation is read when it is asked for. */
type CounterSource = Omit<CounterState, 'createdAt'> & Partial<Pick<CounterState, 'createdAt'>>

export const Counter = builder.objectRef<CounterSource>('Counter')

builder.node(Counter, {
  description: 'A named number. Every valid name is a counter.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.counters.readMany(ids.map(keyOf)),
  fields: (t) => ({
    namespace: t.exposeString('namespace', { description: 'Namespace it lives in.' }),
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    value: t.expose('value', { type: 'SafeInt', description: 'Present number.' }),
    createdAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'First write; null: none yet.',
      // A promise only where there is something to wait for: a list may have hundreds.
      resolve: (counter, _, { nth }) =>
        counter.createdAt === undefined ? readCreatedAt(counter, nth) : counter.createdAt,
    }),
    updatedAt: t.expose('updatedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'Last change of value; null: none yet.',
    }),
  }),
})

function keyOf(id: string): CounterKey {
  const [namespace = '', name = ''] = splitNames(id)
  return { namespace, name }
}

async function readCreatedAt(key: CounterKey, { counters }: Nth): Promise<Date | null> {
  return (await counters.read(key)).createdAt
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
      description: 'What was really added; null for reset, which sets.',
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it counted.' }),
    counter: t.field({
      type: Counter,
      nullable: true,
      description:
        'The counter, for client caches: with this `value`. Null only beside an error of its own; the change stands.',
      resolve: ({ key, value, at }): CounterSource => ({ ...key, value, updatedAt: at }),
    }),
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

builder.mutationFields((t) => ({
  increment: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Adds 1 and tells you your number.',
    args: { name: t.arg.string(nameArgument), namespace: t.arg.string(namespaceArgument) },
    resolve: (_, key, { nth }) => nth.counters.incrementBy(key, 1),
  }),
  incrementBy: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Adds any number, also negative or 0.',
    args: {
      name: t.arg.string(nameArgument),
      delta: t.arg({ type: 'SafeInt', required: true, description: 'How much to add.' }),
      namespace: t.arg.string(namespaceArgument),
    },
    resolve: (_, { delta, ...key }, { nth }) => nth.counters.incrementBy(key, delta),
  }),
  reset: t.field({
    type: CounterChangeRef,
    nullable: true,
    description: 'Sets the value.',
    args: {
      name: t.arg.string(nameArgument),
      to: t.arg({ type: 'SafeInt', required: true, defaultValue: 0, description: 'The value to set.' }),
      namespace: t.arg.string(namespaceArgument),
    },
    resolve: (_, { to, ...key }, { nth }) => nth.counters.reset(key, to),
  }),
}))
