import { onName } from '../access/rights.ts'
import * as checks from '../arguments/checks.ts'
import { builder } from '../builder.ts'
import { Period, withZone } from '../counters/period.ts'
import { Sequence, sequenceArguments } from './sequence.ts'

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
        'Restart at `startValue` every such period; the format must show it, unless `allowRepeats`. Default: never.',
    }),
    allowRepeats: t.boolean({ description: 'Whether texts may be reissued. Default: false.' }),
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
