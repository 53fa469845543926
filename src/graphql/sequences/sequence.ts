import { joinNames, splitNames } from '../../core/names.ts'
import type { Nth } from '../../core/nth.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../../core/sequences/definition.ts'
import type { SequenceGroupKey, SequenceGroupState, SequenceState } from '../../core/sequences/store.ts'
import * as checks from '../arguments/checks.ts'
import { builder } from '../builder.ts'
import { connectionOf } from '../connection.ts'
import { Period } from '../counters/period.ts'
import { decodeGroupCursor, encodeGroupCursor } from '../cursors.ts'

/** A sequence group as read, or as returned by a change. What a change doesn't return is read on demand. */
export type GroupSource = SequenceGroupKey & Partial<SequenceGroupState>

export const Sequence = builder.objectRef<SequenceState>('Sequence')

export const SequenceGroup = builder.objectRef<GroupSource>('SequenceGroup')

export const groupArgument = {
  required: true,
  defaultValue: '',
  description: 'Name of the sequence group; empty: the unnamed one.',
  validate: checks.textOrEmpty,
} as const

export const prefixArgument = {
  required: true,
  defaultValue: '',
  description: 'Only names that start with this.',
  validate: checks.textOrEmpty,
} as const

builder.node(Sequence, {
  description: 'Issues numbers: 1, 2, 3 … unless defined otherwise. Created on first use.',
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
      description: 'First number of each sequence group, and of each period if it restarts.',
      resolve: (sequence) => definitionOf(sequence).startValue,
    }),
    step: t.field({
      type: 'SafeInt',
      description: 'Difference between consecutive numbers; negative counts down.',
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
      description: 'Whether it wraps around instead of failing with SEQUENCE_EXHAUSTED.',
      resolve: (sequence) => definitionOf(sequence).cycle,
    }),
    format: t.string({
      nullable: true,
      description: 'Such as `INV-{yyyy}-{value:5}`; null: `value`, in a named sequence group `group-value`.',
      resolve: (sequence) => definitionOf(sequence).format,
    }),
    restartEvery: t.field({
      type: Period,
      nullable: true,
      description: 'Restarts at `startValue` every such period; null: never.',
      resolve: (sequence) => definitionOf(sequence).restartEvery,
    }),
    allowRepeats: t.boolean({
      description: 'Whether texts may be reissued.',
      resolve: (sequence) => definitionOf(sequence).allowRepeats,
    }),
    timeZone: t.string({
      nullable: true,
      description: 'IANA time zone for dates and restarts.',
      resolve: async ({ namespace, definition }, _, { nth }) =>
        definition?.timeZone ?? (await nth.namespaces.read(namespace)).retention.timeZone,
    }),
    gapless: t.boolean({
      description: 'Whether numbers are reserved and confirmed, so that there are no gaps.',
      resolve: (sequence) => definitionOf(sequence).gapless,
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      description: 'One sequence group; the empty name is the unnamed one.',
      args: { name: t.arg.string(groupArgument) },
      resolve: ({ namespace, name: sequence }, { name: group }, { nth }) =>
        nth.sequences.readSequenceGroup({ namespace, sequence, group }),
    }),
    groups: t.connection(
      {
        type: SequenceGroup,
        nullable: true,
        description: 'Sequence groups that have issued numbers, by name.',
        args: { prefix: t.arg.string(prefixArgument) },
        validate: checks.page,
        resolve: ({ namespace, name }, { prefix, ...args }, context, info) =>
          connectionOf<GroupSource, string>(args, context, info, {
            list: (bounds) =>
              context.nth.sequences.listSequenceGroups({ namespace, name }, { prefix, ...bounds }),
            toCursor: ({ group }) => encodeGroupCursor(group),
            fromCursor: decodeGroupCursor,
          }),
      },
      { name: 'SequenceGroupConnection', description: 'A page of sequence groups.' },
      { name: 'SequenceGroupEdge', description: 'A sequence group in a list.' },
    ),
    createdAt: t.expose('createdAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it was first used or defined; null: neither yet.',
    }),
  }),
})

/** The definition of a sequence, or the defaults. The time zone of a nonexistent one is that of its namespace. */
function definitionOf({ definition }: SequenceState): SequenceDefinition {
  return definition ?? defaultSequenceDefinition('UTC')
}

builder.node(SequenceGroup, {
  description: "A separate series of numbers in a sequence: one board's tickets.",
  id: { resolve: ({ namespace, sequence, group }) => joinNames(namespace, sequence, group) },
  loadManyWithoutCache: (ids, { nth }) =>
    Promise.all(
      ids.map((id) => {
        const [namespace = '', sequence = '', group = ''] = splitNames(id)
        return nth.sequences.readSequenceGroup({ namespace, sequence, group })
      }),
    ),
  fields: (t) => ({
    name: t.exposeString('group', { description: 'Name of the sequence group.' }),
    sequence: t.field({
      type: Sequence,
      nullable: true,
      description: 'Its sequence.',
      resolve: ({ namespace, sequence: name }, _, { nth }) => nth.sequences.read({ namespace, name }),
    }),
    lastValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Last number issued, in a gapless sequence the furthest; null: none yet.',
      resolve: (group, _, { nth }) => known(group, 'lastValue', nth),
    }),
    lastFormatted: t.string({
      nullable: true,
      description: '`lastValue`, formatted.',
      resolve: (group, _, { nth }) => known(group, 'lastFormatted', nth),
    }),
    nextValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Next number to be issued; another caller may get it first. Null: exhausted.',
      resolve: (group, _, { nth }) => known(group, 'nextValue', nth),
    }),
    nextFormatted: t.string({
      nullable: true,
      description: '`nextValue`, formatted.',
      resolve: (group, _, { nth }) => known(group, 'nextFormatted', nth),
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        "Orders a sequence group's states: higher is newer. Client caches should keep the newer state; if equal, the later response. Otherwise opaque.",
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

type Told = Exclude<keyof SequenceGroupState, keyof SequenceGroupKey>

/** All fields of an object are resolved in one tick, so unknown ones share one read, and are of the same state. */
function known<Part extends Told>(
  group: GroupSource,
  part: Part,
  { sequences }: Nth,
): SequenceGroupState[Part] | Promise<SequenceGroupState[Part]> {
  const value = (group as Partial<SequenceGroupState>)[part]
  return value === undefined ? sequences.readSequenceGroup(group).then((read) => read[part]) : value
}

export const sequenceNameArgument = {
  required: true,
  description: 'Name of the sequence.',
  validate: checks.name,
} as const

export const sequenceNamespaceArgument = {
  required: true,
  defaultValue: 'default',
  description: 'Namespace of the sequence.',
  validate: checks.name,
} as const

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    nullable: true,
    description: 'Returns a sequence; if it was never used, the defaults.',
    args: { name: t.arg.string(sequenceNameArgument), namespace: t.arg.string(sequenceNamespaceArgument) },
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)
