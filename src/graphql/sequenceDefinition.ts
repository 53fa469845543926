import { builder } from './builder.ts'
import * as checks from './checks.ts'
import { Period, withZone } from './period.ts'
import { Sequence, sequenceNameArgument, sequenceNamespaceArgument } from './sequence.ts'

const SequenceDefinitionInput = builder.inputType('SequenceDefinitionInput', {
  description: 'Left out: stays as it is. Null: back to the default.',
  fields: (t) => ({
    startValue: t.field({
      type: 'SafeInt',
      description: 'First number of each group, and of each period if it begins again. Default: 1.',
    }),
    step: t.field({
      type: 'SafeInt',
      description: 'From one number to the next; negative counts down. Default: 1. Not 0.',
    }),
    minValue: t.field({ type: 'SafeInt', description: 'Lowest number. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest number. Default: none.' }),
    cycle: t.boolean({
      description:
        'Begin again at the other end, `minValue` or else `startValue` (downwards, `maxValue`), instead of SEQUENCE_EXHAUSTED. Default: false.',
    }),
    format: t.string({
      description:
        'How numbers are written, with {value} or {value:5} (five digits) once, and {group}, {yyyy}, {yy}, {MM}, {dd}, {HH} and {week} (2026-W01); {{ and }} are braces. Default: `value`, in a named group `group-value`.',
    }),
    restartEvery: t.field({
      type: Period,
      description:
        'Begin again at `startValue` with each period; the format must then show the period. Default: never.',
    }),
    allowRepeats: t.boolean({ description: 'Whether texts may be reissued. Default: false.' }),
    timeZone: t.string({ description: "IANA zone for dates and restarts. Default: the namespace's." }),
    gapless: t.boolean({
      description:
        'Whether numbers are reserved and confirmed, without gaps, not taken. Default: false. Fixed once numbers were issued.',
    }),
  }),
})

builder.mutationFields((t) => ({
  defineSequence: t.field({
    type: Sequence,
    nullable: true,
    description:
      'Makes a sequence or changes its definition. Refused where numbers could be issued that look like earlier ones, unless `allowRepeats`.',
    args: {
      name: t.arg.string(sequenceNameArgument),
      definition: t.arg({
        type: SequenceDefinitionInput,
        required: true,
        description: 'What is to change.',
        validate: checks.sequenceDefinition,
      }),
      namespace: t.arg.string(sequenceNamespaceArgument),
    },
    resolve: (_, { namespace, name, definition }, { nth }) =>
      nth.sequences.define({ namespace, name }, withZone(definition)),
  }),
  deleteSequence: t.field({
    type: Sequence,
    nullable: true,
    description:
      'Forgets a sequence with all its groups and reservations: its numbers would begin again. Gives the sequence as it is then: the defaults.',
    args: { name: t.arg.string(sequenceNameArgument), namespace: t.arg.string(sequenceNamespaceArgument) },
    resolve: (_, { namespace, name }, { nth }) => nth.sequences.delete({ namespace, name }),
  }),
}))
