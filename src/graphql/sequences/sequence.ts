import { joinNames, splitNames } from '../../core/names.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../../core/sequences/definition.ts'
import type { SequenceGroupKey, SequenceGroupState, SequenceState } from '../../core/sequences/store.ts'
import * as checks from '../arguments/checks.ts'
import { nameArgument, namespaceArgument, prefixArgument, textArgument } from '../arguments/names.ts'
import { builder } from '../builder.ts'
import { connectionOf } from '../connection.ts'
import { Period } from '../counters/period.ts'
import { sequenceGroupCursors } from '../cursors.ts'

/** A sequence group as read, or as returned by a change. What a change doesn't return is read on demand. */
export type SequenceGroupSource = SequenceGroupKey & Partial<SequenceGroupState>

export const Sequence = builder.objectRef<SequenceState>('Sequence')

export const SequenceGroup = builder.objectRef<SequenceGroupSource>('SequenceGroup')

export const sequenceNameArgument = nameArgument('Name of the sequence.')
export const sequenceNamespaceArgument = namespaceArgument('Namespace of the sequence.')
export const sequenceGroupArgument = textArgument('Name of the sequence group; empty: the unnamed one.')

builder.node(Sequence, {
  description: 'Issues numbers: 1, 2, 3 … unless defined otherwise. Created on first use.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadWithoutCache(id, { nth }) {
    const [namespace = '', name = ''] = splitNames(id)
    return nth.sequences.read({ namespace, name })
  },
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    startValue: t.field({
      type: 'SafeInt',
      description: 'First number of each sequence group, and of each period if it restarts.',
      resolve: fromDefinition('startValue'),
    }),
    step: t.field({
      type: 'SafeInt',
      description: 'Difference between consecutive numbers; negative counts down.',
      resolve: fromDefinition('step'),
    }),
    minValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Lowest number; null: none.',
      resolve: fromDefinition('minValue'),
    }),
    maxValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Highest number; null: none.',
      resolve: fromDefinition('maxValue'),
    }),
    cycle: t.boolean({
      description: 'Whether it wraps around instead of failing with SEQUENCE_EXHAUSTED.',
      resolve: fromDefinition('cycle'),
    }),
    format: t.string({
      nullable: true,
      description: 'Such as `INV-{yyyy}-{value:5}`; null: `value`, in a named sequence group `group-value`.',
      resolve: fromDefinition('format'),
    }),
    restartEvery: t.field({
      type: Period,
      nullable: true,
      description: 'Restarts at `startValue` every such period; null: never.',
      resolve: fromDefinition('restartEvery'),
    }),
    allowRepeats: t.boolean({
      description: 'Whether texts may be reissued.',
      resolve: fromDefinition('allowRepeats'),
    }),
    timeZone: t.string({
      nullable: true,
      description: 'IANA time zone for dates and restarts.',
      resolve: async ({ namespace, definition }, _, { nth }) =>
        definition?.timeZone ?? (await nth.namespaces.read(namespace)).retention.timeZone,
    }),
    gapless: t.boolean({
      description: 'Whether numbers are reserved and confirmed, so that there are no gaps.',
      resolve: fromDefinition('gapless'),
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      description: 'One sequence group; the empty name is the unnamed one.',
      args: { name: t.arg.string(sequenceGroupArgument) },
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
          connectionOf<SequenceGroupSource, string>(args, context, info, {
            list: (bounds) =>
              context.nth.sequences.listSequenceGroups({ namespace, name }, { prefix, ...bounds }),
            toCursor: ({ group }) => sequenceGroupCursors.encode(group),
            fromCursor: sequenceGroupCursors.decode,
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

/** A part of a sequence's definition, or its default. The time zone of a nonexistent one is that of its namespace. */
function fromDefinition<Part extends keyof SequenceDefinition>(part: Part) {
  return ({ definition }: SequenceState) => (definition ?? defaultSequenceDefinition('UTC'))[part]
}

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    nullable: true,
    description: 'Returns a sequence; if it was never used, the defaults.',
    args: { name: t.arg.string(sequenceNameArgument), namespace: t.arg.string(sequenceNamespaceArgument) },
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)
