import type { GraphQLResolveInfo } from 'graphql'
import { joinNames, splitNames } from '../core/names.ts'
import {
  formatNumber,
  type GroupState,
  nextValue,
  numbersOf,
  type SequenceNumbers,
  type SequenceState,
} from '../core/sequences.ts'
import { spend } from './budget.ts'
import { builder, type Context } from './builder.ts'
import * as checks from './checks.ts'
import { claimFor, idempotencyKeyArgument } from './idempotency.ts'

/** The longest block whose numbers are listed one by one. */
const MAX_LISTED = 10_000

const Sequence = builder.objectRef<SequenceState>('Sequence')

const SequenceGroup = builder.objectRef<GroupState>('SequenceGroup')

const groupArgument = {
  required: true,
  defaultValue: '',
  description: 'Name of the group; the empty one is the sequence without groups.',
  validate: checks.textOrEmpty,
} as const

builder.node(Sequence, {
  description: 'Deals numbers. Every valid name is a sequence: 1, 2, 3 …',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) =>
    Promise.all(
      ids.map((id) => {
        const [namespace = '', name = ''] = splitNames(id)
        return nth.sequences.read({ namespace, name })
      }),
    ),
  fields: (t) => ({
    namespace: t.exposeString('namespace', { description: 'Namespace it lives in.' }),
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    group: t.field({
      type: SequenceGroup,
      description: 'One group; the empty name is the sequence without groups.',
      args: { name: t.arg.string(groupArgument) },
      resolve: ({ namespace, name: sequence }, { name: group }, { nth }) =>
        nth.sequences.readGroup({ namespace, sequence, group }),
    }),
    createdAt: t.expose('createdAt', {
      type: 'DateTime',
      nullable: true,
      description: 'First use; null: none yet.',
    }),
  }),
})

builder.node(SequenceGroup, {
  description: "The numbers of one group: one board's tickets.",
  id: { resolve: ({ namespace, sequence, group }) => joinNames(namespace, sequence, group) },
  loadManyWithoutCache: (ids, { nth }) =>
    Promise.all(
      ids.map((id) => {
        const [namespace = '', sequence = '', group = ''] = splitNames(id)
        return nth.sequences.readGroup({ namespace, sequence, group })
      }),
    ),
  fields: (t) => ({
    name: t.exposeString('group', { description: 'Name of the group.' }),
    sequence: t.field({
      type: Sequence,
      description: 'The sequence it belongs to.',
      resolve: ({ namespace, sequence: name }, _, { nth }) => nth.sequences.read({ namespace, name }),
    }),
    lastValue: t.expose('lastValue', {
      type: 'SafeInt',
      nullable: true,
      description: 'Last number dealt; null: none yet.',
    }),
    lastFormatted: t.string({
      nullable: true,
      description: 'The same as text.',
      resolve: ({ group, lastValue }) => (lastValue === null ? null : formatNumber(group, lastValue)),
    }),
    nextValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'What would come next: a forecast. Null: exhausted.',
      resolve: nextValue,
    }),
    updatedAt: t.expose('updatedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When the last number was dealt; null: none yet.',
    }),
  }),
})

const SequenceNumbersRef = builder.objectRef<SequenceNumbers>('SequenceNumbers').implement({
  description: 'The numbers one call took.',
  fields: (t) => ({
    value: t.expose('value', { type: 'SafeInt', description: 'Your number; of a block, the first.' }),
    formatted: t.string({
      description: 'Your number as text: MYBOARD-1.',
      resolve: ({ key, value }) => formatNumber(key.group, value),
    }),
    count: t.exposeInt('count', { description: 'How many were taken.' }),
    step: t.expose('step', { type: 'SafeInt', description: 'From one to the next.' }),
    lastValue: t.expose('lastValue', { type: 'SafeInt', description: 'Last one of the block.' }),
    values: t.field({
      type: ['SafeInt'],
      nullable: true,
      description: 'All of them; null above 10 000: count from `value` by `step`.',
      resolve: (numbers, _, context, info) => listed(numbers, context, info),
    }),
    formattedValues: t.stringList({
      nullable: true,
      description: 'All of them as text; null above 10 000.',
      resolve: (numbers, _, context, info) =>
        listed(numbers, context, info)?.map((value) => formatNumber(numbers.key.group, value)) ?? null,
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When they were dealt.' }),
    replayed: t.boolean({
      description: 'An earlier call with this key took them; this is its answer.',
      resolve: ({ isReplayed }) => isReplayed,
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      description: 'The group now, for client caches. Null only beside an error of its own.',
      resolve: ({ key, lastValue, at, isReplayed }, _, { nth }): GroupState | Promise<GroupState> =>
        isReplayed ? nth.sequences.readGroup(key) : { ...key, lastValue, updatedAt: at },
    }),
  }),
})

function listed(numbers: SequenceNumbers, context: Context, info: GraphQLResolveInfo): number[] | null {
  if (numbers.count > MAX_LISTED) return null
  spend(context, numbers.count, info)
  return numbersOf(numbers)
}

const nameArgument = {
  required: true,
  description: 'Name of the sequence.',
  validate: checks.name,
} as const

const namespaceArgument = {
  required: true,
  defaultValue: 'default',
  description: 'Namespace the sequence lives in.',
  validate: checks.name,
} as const

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    description: 'One sequence, used or not.',
    args: { name: t.arg.string(nameArgument), namespace: t.arg.string(namespaceArgument) },
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)

builder.mutationField('nextInSequence', (t) =>
  t.field({
    type: SequenceNumbersRef,
    nullable: true,
    description: 'Takes the next number, or a block of up to 1 000 000.',
    args: {
      name: t.arg.string(nameArgument),
      group: t.arg.string(groupArgument),
      count: t.arg.int({
        required: true,
        defaultValue: 1,
        description: 'How many numbers to take, from 1 to 1 000 000.',
        validate: checks.count,
      }),
      namespace: t.arg.string(namespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) => {
      const { namespace, name: sequence, group, count } = args
      return context.nth.sequences.next({ namespace, sequence, group }, count, claimFor(args, context, info))
    },
  }),
)
