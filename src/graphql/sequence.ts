import { joinNames, splitNames } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../core/sequenceDefinition.ts'
import type { GroupKey, GroupState, SequenceState } from '../core/sequenceStore.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'
import { connectionOf } from './connection.ts'
import { decodeGroupCursor, encodeGroupCursor } from './cursors.ts'
import { Period } from './period.ts'

/** A group that was read, or one known from a change: what that doesn't tell is read when it is asked for. */
export type GroupSource = GroupKey & Partial<GroupState>

export const Sequence = builder.objectRef<SequenceState>('Sequence')

export const SequenceGroup = builder.objectRef<GroupSource>('SequenceGroup')

export const groupArgument = {
  required: true,
  defaultValue: '',
  description: 'Name of the group; the empty one is the sequence without groups.',
  validate: checks.textOrEmpty,
} as const

export const prefixArgument = {
  required: true,
  defaultValue: '',
  description: 'Only names that begin with this.',
  validate: checks.textOrEmpty,
} as const

builder.node(Sequence, {
  description: 'Issues numbers. Every valid name is a sequence: 1, 2, 3 … until defined otherwise.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) =>
    Promise.all(
      ids.map((id) => {
        const [namespace = '', name = ''] = splitNames(id)
        return nth.sequences.read({ namespace, name })
      }),
    ),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    startValue: t.field({
      type: 'SafeInt',
      description: 'First number of each group, and of each period if it begins again.',
      resolve: (sequence) => definitionOf(sequence).startValue,
    }),
    step: t.field({
      type: 'SafeInt',
      description: 'From one number to the next; negative counts down.',
      resolve: (sequence) => definitionOf(sequence).step,
    }),
    minValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Lowest number; null: none.',
      resolve: (sequence) => definitionOf(sequence).minValue,
    }),
    maxValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Highest number; null: none.',
      resolve: (sequence) => definitionOf(sequence).maxValue,
    }),
    cycle: t.boolean({
      description: 'Begin again at the other end instead of SEQUENCE_EXHAUSTED.',
      resolve: (sequence) => definitionOf(sequence).cycle,
    }),
    format: t.string({
      nullable: true,
      description: 'Such as `INV-{yyyy}-{value:5}`; null: `value`, in a named group `group-value`.',
      resolve: (sequence) => definitionOf(sequence).format,
    }),
    restartEvery: t.field({
      type: Period,
      nullable: true,
      description: 'Begin again at `startValue` with each period; null: never.',
      resolve: (sequence) => definitionOf(sequence).restartEvery,
    }),
    allowRepeats: t.boolean({
      description: 'Repeated texts are wanted.',
      resolve: (sequence) => definitionOf(sequence).allowRepeats,
    }),
    timeZone: t.string({
      nullable: true,
      description: 'IANA zone for dates and restarts.',
      resolve: async ({ namespace, definition }, _, { nth }) =>
        definition?.timeZone ?? (await nth.namespaces.read(namespace)).retention.timeZone,
    }),
    gapless: t.boolean({
      description: 'Numbers are reserved and confirmed, without gaps, not taken.',
      resolve: (sequence) => definitionOf(sequence).gapless,
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      description: 'One group; the empty name is the sequence without groups.',
      args: { name: t.arg.string(groupArgument) },
      resolve: ({ namespace, name: sequence }, { name: group }, { nth }) =>
        nth.sequences.readGroup({ namespace, sequence, group }),
    }),
    groups: t.connection(
      {
        type: SequenceGroup,
        nullable: true,
        description: 'Groups that have issued numbers, by name.',
        args: { prefix: t.arg.string(prefixArgument) },
        validate: checks.page,
        resolve: ({ namespace, name }, { prefix, ...args }, context, info) =>
          connectionOf<GroupSource, string>(args, context, info, {
            list: (bounds) => context.nth.sequences.listGroups({ namespace, name }, { prefix, ...bounds }),
            toCursor: ({ group }) => encodeGroupCursor(group),
            fromCursor: decodeGroupCursor,
          }),
      },
      { name: 'SequenceGroupConnection', description: 'A page of a list of groups.' },
      { name: 'SequenceGroupEdge', description: 'A group in a list.' },
    ),
    createdAt: t.expose('createdAt', {
      type: 'DateTime',
      nullable: true,
      description: 'First use or definition; null: neither yet.',
    }),
  }),
})

/** What a sequence is; the zone of one that isn't there is its namespace's. */
function definitionOf({ definition }: SequenceState): SequenceDefinition {
  return definition ?? defaultSequenceDefinition('UTC')
}

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
      nullable: true,
      description: 'The sequence it belongs to.',
      resolve: ({ namespace, sequence: name }, _, { nth }) => nth.sequences.read({ namespace, name }),
    }),
    lastValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Last number issued, of a gapless sequence the furthest; null: none yet.',
      resolve: (group, _, { nth }) => known(group, 'lastValue', nth),
    }),
    lastFormatted: t.string({
      nullable: true,
      description: 'The same as text.',
      resolve: (group, _, { nth }) => known(group, 'lastFormatted', nth),
    }),
    nextValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'What would come next: a forecast, as others may take it first. Null: exhausted.',
      resolve: (group, _, { nth }) => known(group, 'nextValue', nth),
    }),
    nextFormatted: t.string({
      nullable: true,
      description: 'The same as text.',
      resolve: (group, _, { nth }) => known(group, 'nextFormatted', nth),
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        'Orders the states of a group: the higher one is newer; a client cache keeps that one. Opaque otherwise; equal: the later answer wins.',
      resolve: (group, _, { nth }) => known(group, 'revision', nth),
    }),
    updatedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When the last number was issued; null: none yet.',
      resolve: (group, _, { nth }) => known(group, 'updatedAt', nth),
    }),
  }),
})

type Told = Exclude<keyof GroupState, keyof GroupKey>

/** The fields of an object are asked for in one turn: what isn't known of it comes of one read, and is of one state. */
function known<Part extends Told>(
  group: GroupSource,
  part: Part,
  { sequences }: Nth,
): GroupState[Part] | Promise<GroupState[Part]> {
  const value = (group as Partial<GroupState>)[part]
  return value === undefined ? sequences.readGroup(group).then((read) => read[part]) : value
}

export const sequenceNameArgument = {
  required: true,
  description: 'Name of the sequence.',
  validate: checks.name,
} as const

export const sequenceNamespaceArgument = {
  required: true,
  defaultValue: 'default',
  description: 'Namespace the sequence lives in.',
  validate: checks.name,
} as const

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    nullable: true,
    description: 'One sequence; never used: the defaults.',
    args: { name: t.arg.string(sequenceNameArgument), namespace: t.arg.string(sequenceNamespaceArgument) },
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)
