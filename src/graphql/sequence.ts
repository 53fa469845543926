import type { Page } from '../rules/counter.ts'
import { joinNames } from '../rules/names.ts'
import type { SequenceGroupKey, SequenceGroupState, SequenceState } from '../rules/sequence.ts'
import { defaultSequenceDefinition, type SequenceDefinition } from '../rules/sequenceDefinition.ts'
import * as checks from './arguments.ts'
import { keyOf, sequenceGroupKeyOf } from './arguments.ts'
import { builder, keyArguments, textArgument } from './builder.ts'
import type { Context } from './context.ts'
import { Period, withZone } from './counter.ts'
import { connectionOf, listedByName, sequenceGroupCursors } from './lists.ts'
import { none, onName } from './rights.ts'

/** A sequence group as read, or as returned by a change. What a change doesn't return is read on demand. */
export type SequenceGroupSource = SequenceGroupKey & Partial<SequenceGroupState>

export const Sequence = builder.objectRef<SequenceState>('Sequence')
export const SequenceGroup = builder.objectRef<SequenceGroupSource>('SequenceGroup')

export const sequenceArguments = keyArguments('sequence')

export const group = textArgument('Name of the sequence group; empty: the unnamed one.')

builder.node(Sequence, {
  description: 'Issues numbers: 1, 2, 3 … unless defined otherwise. Created on first use.',
  id: { resolve: ({ namespace, name }) => joinNames(namespace, name) },
  loadManyWithoutCache: (ids, { nth }) => nth.sequences.readMany(ids.map(keyOf)),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    startValue: t.field(
      part(
        'startValue',
        'SafeInt',
        'First number of each sequence group, and of each period if it restarts.',
      ),
    ),
    step: t.field(part('step', 'SafeInt', 'Difference between consecutive numbers; negative counts down.')),
    minValue: t.field({ ...part('minValue', 'SafeInt', 'Lowest number; null: none.'), nullable: true }),
    maxValue: t.field({ ...part('maxValue', 'SafeInt', 'Highest number; null: none.'), nullable: true }),
    cycle: t.field(
      part('cycle', 'Boolean', 'Whether it wraps around instead of failing with SEQUENCE_EXHAUSTED.'),
    ),
    format: t.string({
      nullable: true,
      description: 'Such as `INV-{yyyy}-{value:5}`; null: `value`, in a named sequence group `group-value`.',
      resolve: ({ definition }) => definition?.format ?? null,
    }),
    restartEvery: t.field({
      ...part('restartEvery', Period, 'Restarts at `startValue` when such a period begins; null: never.'),
      nullable: true,
    }),
    allowRepeats: t.field(
      part('allowRepeats', 'Boolean', 'Whether the same formatted text may be issued twice.'),
    ),
    timeZone: t.string({
      nullable: true,
      description: 'IANA time zone for dates and restarts.',
      resolve: async ({ namespace, definition }, _, { nth }) =>
        definition?.timeZone ?? (await nth.namespaces.read(namespace)).retention.timeZone,
    }),
    gapless: t.field(
      part('gapless', 'Boolean', 'Whether numbers are reserved and confirmed, so that there are no gaps.'),
    ),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      extensions: { right: none('reached with its sequence') },
      description: 'One sequence group; the empty name is the unnamed one.',
      args: { name: group },
      resolve: ({ namespace, name: sequence }, { name: group }, { nth }) =>
        nth.sequences.readSequenceGroup({ namespace, sequence, group }),
    }),
    groups: t.connection(
      {
        ...listedByName,
        type: SequenceGroup,
        extensions: { ...listedByName.extensions, right: none('reached with its sequence') },
        description: 'Sequence groups that have issued numbers, by name.',
        resolve({ namespace, name }, { prefix, ...args }, context, info) {
          const { sequences } = context.nth
          const list = (page: Page<string>) =>
            sequences.listSequenceGroups({ namespace, name }, { prefix, ...page })
          return connectionOf(args, context, info, sequenceGroupCursors, list, ({ group }) => group)
        },
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

/** A part of a sequence's definition, or its default. */
function part<Part extends keyof SequenceDefinition, Type extends 'SafeInt' | 'Boolean' | typeof Period>(
  name: Part,
  type: Type,
  description: string,
) {
  const resolve = ({ definition }: SequenceState) => (definition ?? defaultSequenceDefinition('UTC'))[name]
  return { type, description, resolve }
}

builder.node(SequenceGroup, {
  description: "A separate series of numbers in a sequence: one board's tickets.",
  id: { resolve: ({ namespace, sequence, group }) => joinNames(namespace, sequence, group) },
  loadManyWithoutCache: (ids, { nth }) => nth.sequences.readSequenceGroups(ids.map(sequenceGroupKeyOf)),
  fields: (t) => ({
    name: t.exposeString('group', { description: 'Name of the sequence group.' }),
    sequence: t.field({
      type: Sequence,
      nullable: true,
      extensions: { right: none('reached with its sequence group') },
      description: 'Its sequence.',
      resolve: ({ namespace, sequence: name }, _, { nth }) => nth.sequences.read({ namespace, name }),
    }),
    lastValue: t.field({
      ...state('lastValue', 'SafeInt'),
      description: 'Last number issued, in a gapless sequence the furthest; null: none yet.',
    }),
    lastFormatted: t.field({ ...state('lastFormatted', 'String'), description: '`lastValue`, formatted.' }),
    nextValue: t.field({
      ...state('nextValue', 'SafeInt'),
      description: 'Next number to be issued; another caller may get it first. Null: exhausted.',
    }),
    nextFormatted: t.field({ ...state('nextFormatted', 'String'), description: '`nextValue`, formatted.' }),
    revision: t.field({
      ...state('revision', 'SafeInt'),
      nullable: false,
      description:
        "Orders a sequence group's states: higher is newer. Client caches should keep the newer state; if equal, the later response. Otherwise opaque.",
    }),
    updatedAt: t.field({
      ...state('updatedAt', 'DateTime'),
      description: 'When the last number was issued; null: none yet.',
    }),
  }),
})

/** A part of a sequence group. All fields are resolved in one tick, so missing ones share one read of one state. */
function state<
  Part extends Exclude<keyof SequenceGroupState, keyof SequenceGroupKey>,
  Type extends 'SafeInt' | 'String' | 'DateTime',
>(name: Part, type: Type) {
  const resolve = (group: SequenceGroupSource, _: unknown, { nth }: Context) => {
    const value = (group as Partial<SequenceGroupState>)[name]
    return value === undefined ? nth.sequences.readSequenceGroup(group).then((read) => read[name]) : value
  }
  return { type, nullable: true as const, resolve }
}

builder.queryField('sequence', (t) =>
  t.field({
    type: Sequence,
    extensions: { right: onName('READ') },
    description: 'Returns a sequence; if it was never used, the defaults.',
    args: sequenceArguments,
    resolve: (_, key, { nth }) => nth.sequences.read(key),
  }),
)

const SequenceDefinitionInput = builder.inputType('SequenceDefinitionInput', {
  description: 'Omitted: unchanged. Null: reset to the default.',
  extensions: { check: checks.sequenceDefinition },
  fields: (t) => ({
    startValue: t.field({
      type: 'SafeInt',
      description: 'First number of each sequence group, and of each period if it restarts. Default: 1.',
    }),
    step: t.field({
      type: 'SafeInt',
      description: 'Difference between consecutive numbers; negative counts down. Default: 1. Not 0.',
    }),
    minValue: t.field({ type: 'SafeInt', description: 'Lowest number. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest number. Default: none.' }),
    cycle: t.boolean({
      description:
        'Wrap around to `minValue` (downwards, `maxValue`), or else `startValue`, instead of failing with SEQUENCE_EXHAUSTED. Default: false.',
    }),
    format: t.string({
      description:
        'Format of numbers, with {value} or {value:5} (five digits) once, and {group}, {yyyy}, {yy}, {MM}, {dd}, {HH} and {week} (2026-W01); {{ and }} are braces. Default: `value`, in a named sequence group `group-value`.',
    }),
    restartEvery: t.field({
      type: Period,
      description:
        'Restart at `startValue` when such a period begins. The format must show the period, unless `allowRepeats`. Default: never.',
    }),
    allowRepeats: t.boolean({
      description: 'Whether the same formatted text may be issued twice. Default: false.',
    }),
    timeZone: t.string({ description: "IANA time zone for dates and restarts. Default: the namespace's." }),
    gapless: t.boolean({
      description:
        'Whether numbers are reserved and confirmed, so that there are no gaps. Default: false. Fixed once numbers were issued.',
    }),
  }),
})

builder.mutationFields((t) => ({
  defineSequence: t.field({
    type: Sequence,
    extensions: { right: onName('DEFINE') },
    description:
      'Creates a sequence or changes its definition. Rejected if an earlier text could be reissued, unless `allowRepeats`.',
    args: {
      name: sequenceArguments.name,
      definition: t.arg({ type: SequenceDefinitionInput, required: true, description: 'The changes.' }),
      namespace: sequenceArguments.namespace,
    },
    resolve: (_, { namespace, name, definition }, { nth }) =>
      nth.sequences.define({ namespace, name }, withZone(definition)),
  }),
  deleteSequence: t.field({
    type: Sequence,
    extensions: { right: onName('WRITE') },
    description:
      'Deletes a sequence with all its sequence groups and reservations; its numbers restart. Returns it with the defaults.',
    args: sequenceArguments,
    resolve: (_, key, { nth }) => nth.sequences.delete(key),
  }),
}))
