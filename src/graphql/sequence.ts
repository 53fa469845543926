import type { Nth } from '../repository/nth.ts'
import type { PageByName } from '../rules/counter.ts'
import { joinNames } from '../rules/names.ts'
import type { SequenceGroupKey, SequenceGroupState, SequenceState } from '../rules/sequence.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../rules/sequenceDefinition.ts'
import * as checks from './arguments.ts'
import { keyOf, sequenceGroupKeyOf } from './arguments.ts'
import { builder, exposed, keyArguments, orNull, parts, textArgument } from './builder.ts'
import { Period, withZone } from './counter.ts'
import { listedByName, pageByName, sequenceGroupCursors } from './lists.ts'
import { none, onName } from './rights.ts'
import { chargeApart } from './selections.ts'

/** A sequence group as read, or as returned by a change. What a change doesn't return is read on demand. */
export type SequenceGroupSource = SequenceGroupKey &
  Partial<Omit<SequenceGroupState, 'revision'>> & { revision?: number | undefined }

export const Sequence = builder.objectRef<SequenceState>('Sequence')
export const SequenceGroup = builder.objectRef<SequenceGroupSource>('SequenceGroup')

export const sequenceArguments = keyArguments('sequence')

export const group = textArgument('The name of the sequence group. The unnamed one has an empty name.')

builder.node(Sequence, {
  description: 'A source of numbers: 1, 2, 3 … unless you define it otherwise. It is created on first use.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.sequences.readMany(ids.map(keyOf)),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'The name, exactly as it was written.' }),
    ...parts(t, definitionOf, {
      startValue: ['SafeInt', 'The first number of each sequence group, and of each period if it restarts.'],
      step: ['SafeInt', 'The difference between consecutive numbers. A negative step counts down.'],
      minValue: [orNull('SafeInt'), 'The lowest number. Null means that there is none.'],
      maxValue: [orNull('SafeInt'), 'The highest number. Null means that there is none.'],
      cycle: ['Boolean', 'Whether it wraps around at its end, instead of failing with SEQUENCE_EXHAUSTED.'],
      format: [
        orNull('String'),
        'The format of its numbers, such as `INV-{yyyy}-{value:5}`. Null means `value`, or `group-value` in a named sequence group.',
      ],
      restartEvery: [
        orNull(Period),
        'The period in which it restarts at `startValue`. Null means that it never restarts.',
      ],
      allowRepeats: ['Boolean', 'Whether the same text may be issued again.'],
    }),
    timeZone: t.string({
      nullable: true,
      description: 'The IANA time zone of dates and restarts. Null only if it could not be read.',
      resolve: async ({ namespace, definition }, _, { nth }) =>
        (definition ?? (await nth.namespaces.read(namespace))).timeZone,
    }),
    ...parts(t, definitionOf, {
      gapless: ['Boolean', 'Whether numbers are reserved and then confirmed, so that no gaps remain.'],
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      extensions: { right: none('reached with its sequence') },
      description: 'Returns a sequence group. Null only if it could not be read.',
      args: { name: group },
      async resolve({ namespace, name: sequence }, { name: group }, context, info) {
        await chargeApart(context, info)
        return context.nth.sequences.readSequenceGroup({ namespace, sequence, group })
      },
    }),
    groups: t.connection(
      {
        ...listedByName(none('reached with its sequence')),
        type: SequenceGroup,
        description:
          'The sequence groups that have issued numbers, by name. Null only if they could not be read, or if an argument is invalid.',
        resolve({ namespace, name }, args, context, info) {
          const { nth, owner } = context
          const list = (page: PageByName) =>
            nth.sequences.listSequenceGroups({ namespace, name }, page, owner)
          return pageByName(args, context, info, list, ({ group }) => group, sequenceGroupCursors)
        },
      },
      { name: 'SequenceGroupConnection', description: 'A page of sequence groups.' },
      { name: 'SequenceGroupEdge', description: 'A sequence group in a list.' },
    ),
    ...exposed(t, {
      createdAt: [orNull('DateTime'), 'When it was first used or defined. Null means never.'],
    }),
  }),
})

/** The definition of a sequence; of one that doesn't exist, the defaults. */
function definitionOf({ definition }: SequenceState): SequenceDefinition {
  return definition ?? defaultSequenceDefinition('UTC')
}

builder.node(SequenceGroup, {
  description: 'A separate series of numbers in a sequence, such as the tickets of one board.',
  id: { resolve: ({ namespace, sequence, group }) => joinNames(namespace, sequence, group) },
  loadManyWithoutCache: (ids, { nth }) => nth.sequences.readSequenceGroups(ids.map(sequenceGroupKeyOf)),
  fields: (t) => ({
    name: t.exposeString('group', { description: 'The name of the sequence group.' }),
    sequence: t.field({
      type: Sequence,
      nullable: true,
      extensions: { right: none('reached with its sequence group') },
      description: 'Its sequence. Null only if it could not be read.',
      async resolve({ namespace, sequence: name }, _, context, info) {
        await chargeApart(context, info)
        return context.nth.sequences.read({ namespace, name })
      },
    }),
    ...parts(t, (group: SequenceGroupSource, { sequences }: Nth) => sequences.readSequenceGroup(group), {
      lastValue: [
        orNull('SafeInt'),
        'The last number issued. In a gapless sequence, it is the furthest one. Null means that there is none yet.',
      ],
      lastFormatted: [orNull('String'), 'The formatted `lastValue`. Null means that there is none yet.'],
      nextValue: [
        orNull('SafeInt'),
        'The number that comes next. Another caller may get it first. Null means that the sequence is exhausted.',
      ],
      nextFormatted: [
        orNull('String'),
        'The formatted `nextValue`. Null means that the sequence is exhausted.',
      ],
      revision: [
        'SafeInt',
        'Orders the states of this sequence group. Of two states, the one with the higher revision is newer; if both have the same revision, keep the later response.',
      ],
      updatedAt: [orNull('DateTime'), 'When the last number was issued. Null means never.'],
    }),
  }),
})

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    extensions: { right: onName('READ') },
    description: 'Returns a sequence. If it was never used, it has the defaults.',
    args: sequenceArguments,
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)

const SequenceDefinitionInput = builder.inputType('SequenceDefinitionInput', {
  description: 'Changes to a definition. An omitted field stays as it is, and null restores the default.',
  fields: (t) => ({
    startValue: t.field({
      type: 'SafeInt',
      description:
        'The first number of each sequence group, and of each period if it restarts. The default is 1.',
    }),
    step: t.field({
      type: 'SafeInt',
      description:
        'The difference between consecutive numbers. A negative step counts down, and 0 is invalid. The default is 1.',
    }),
    minValue: t.field({ type: 'SafeInt', description: 'The lowest number. By default, there is none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'The highest number. By default, there is none.' }),
    cycle: t.boolean({
      description:
        'Whether it wraps around at its end, instead of failing with SEQUENCE_EXHAUSTED. It continues with the bound at the other end, or with `startValue` if there is none. The default is false.',
    }),
    format: t.string({
      description:
        'The format of its numbers, such as `INV-{yyyy}-{value:5}`. It contains {value} once, or {value:5} for five digits. It may contain {group}, {yyyy}, {yy}, {MM}, {dd}, {HH} and {week}, which is a text such as 2026-W01. Write {{ and }} for braces. Without {group}, only the unnamed sequence group issues numbers, unless `allowRepeats` is set. The default is `value`, or `group-value` in a named sequence group.',
    }),
    restartEvery: t.field({
      type: Period,
      description:
        'The period in which it restarts at `startValue`. The format must show the period, unless `allowRepeats` is set. By default, it never restarts.',
    }),
    allowRepeats: t.boolean({
      description: 'Whether the same text may be issued again. The default is false.',
    }),
    timeZone: t.string({
      description: "The IANA time zone of dates and restarts. The default is the namespace's.",
    }),
    gapless: t.boolean({
      description:
        'Whether numbers are reserved and then confirmed, so that no gaps remain. You cannot change this once numbers were issued. The default is false.',
    }),
  }),
})

builder.mutationFields((t) => ({
  defineSequence: t.field({
    type: Sequence,
    extensions: { right: onName('DEFINE') },
    description:
      'Creates a sequence, or changes its definition. It fails if an earlier text could be issued again, unless `allowRepeats` is set.',
    args: {
      name: sequenceArguments.name,
      definition: t.arg({
        type: SequenceDefinitionInput,
        required: true,
        description: 'The changes.',
        extensions: { check: checks.sequenceDefinition },
      }),
      namespace: sequenceArguments.namespace,
    },
    resolve: (_, { namespace, name, definition }, { nth, owner }) =>
      nth.sequences.define({ namespace, name }, withZone(definition), owner),
  }),
  deleteSequence: t.field({
    type: Sequence,
    extensions: { right: onName('WRITE') },
    description:
      'Deletes a sequence with all its sequence groups and reservations, and returns it with the defaults. Its numbers then restart. It fails if numbers of a gapless sequence were confirmed, unless `allowRepeats` is set.',
    args: sequenceArguments,
    resolve: (_, key, { nth, owner }) => nth.sequences.delete(key, owner),
  }),
}))
