import { joinNames, splitNames } from '../../core/names.ts'
import type { SequenceGroupKey, SequenceGroupState } from '../../core/sequences/store.ts'
import { builder, type Context } from '../builder.ts'
import { Sequence, SequenceGroup, type SequenceGroupSource } from './sequence.ts'

builder.node(SequenceGroup, {
  description: "A separate series of numbers in a sequence: one board's tickets.",
  id: { resolve: ({ namespace, sequence, group }) => joinNames(namespace, sequence, group) },
  loadWithoutCache(id, { nth }) {
    const [namespace = '', sequence = '', group = ''] = splitNames(id)
    return nth.sequences.readSequenceGroup({ namespace, sequence, group })
  },
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
      resolve: fromState('lastValue'),
    }),
    lastFormatted: t.string({
      nullable: true,
      description: '`lastValue`, formatted.',
      resolve: fromState('lastFormatted'),
    }),
    nextValue: t.field({
      type: 'SafeInt',
      nullable: true,
      description: 'Next number to be issued; another caller may get it first. Null: exhausted.',
      resolve: fromState('nextValue'),
    }),
    nextFormatted: t.string({
      nullable: true,
      description: '`nextValue`, formatted.',
      resolve: fromState('nextFormatted'),
    }),
    revision: t.field({
      type: 'SafeInt',
      description:
        "Orders a sequence group's states: higher is newer. Client caches should keep the newer state; if equal, the later response. Otherwise opaque.",
      resolve: fromState('revision'),
    }),
    updatedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When the last number was issued; null: none yet.',
      resolve: fromState('updatedAt'),
    }),
  }),
})

/** All fields of an object are resolved in one tick, so missing ones share one read, and are of the same state. */
function fromState<Part extends Exclude<keyof SequenceGroupState, keyof SequenceGroupKey>>(part: Part) {
  return (group: SequenceGroupSource, _: unknown, { nth }: Context) => {
    const value = (group as Partial<SequenceGroupState>)[part]
    return value === undefined ? nth.sequences.readSequenceGroup(group).then((read) => read[part]) : value
  }
}
