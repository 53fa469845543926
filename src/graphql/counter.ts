import type { CounterKey, CounterState } from '../core/counters.ts'
import { joinNames, splitNames } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'
import { spend } from './budget.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'

/** A counter that was read, or one known from a change: what that doesn't tell is read when it is asked for. */
export type CounterSource = Omit<CounterState, Unknown> & Partial<Pick<CounterState, Unknown>>

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
    description: 'One counter; 0 if never written.',
    args: { name: t.arg.string(counterNameArgument), namespace: t.arg.string(counterNamespaceArgument) },
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
      namespace: t.arg.string({
        ...counterNamespaceArgument,
        description: 'Namespace the counters live in.',
      }),
    },
    resolve: (_, { namespace, names }, context, info) => {
      spend(context, names.length, info)
      return context.nth.counters.readMany(names.map((name) => ({ namespace, name })))
    },
  }),
}))
