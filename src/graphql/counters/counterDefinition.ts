import { onName } from '../access/rights.ts'
import * as checks from '../arguments/checks.ts'
import { isRevisionSelected } from '../arguments/idempotency.ts'
import { builder } from '../builder.ts'
import { Counter, type CounterSource, counterArguments, Overflow } from './counter.ts'
import { CounterChangeRef, keyIn } from './counterChange.ts'
import { TrackedPeriodInput, withZone } from './period.ts'

const CounterDefinition = builder.inputType('CounterDefinitionInput', {
  description: 'Omitted: unchanged. Null: reset to the default.',
  extensions: { check: checks.definition },
  fields: (t) => ({
    minValue: t.field({ type: 'SafeInt', description: 'Lowest allowed value. Default: none.' }),
    maxValue: t.field({ type: 'SafeInt', description: 'Highest allowed value. Default: none.' }),
    overflow: t.field({ type: Overflow, description: 'What happens at a bound. Default: REJECT.' }),
    slots: t.int({
      description:
        'Rows that the value is split across, 1 to 1024. Default: 1, exact. Above 1: numbers not unique, and no bounds.',
    }),
    timeZone: t.string({
      description:
        "IANA time zone of its periods. Default: the namespace's. Existing totals count in the new zone's period that contains their midpoint.",
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      extensions: { maxItems: checks.MAX_PERIODS },
      description: "All periods whose totals it keeps; [] for none. Default: the namespace's.",
    }),
  }),
})

builder.mutationFields((t) => ({
  defineCounter: t.field({
    type: Counter,
    extensions: { right: onName('DEFINE') },
    description: 'Creates a counter or changes its definition, never its value.',
    args: {
      name: counterArguments.name,
      definition: t.arg({
        type: CounterDefinition,
        required: true,
        description: 'The changes; bounds must include the current value.',
      }),
      namespace: counterArguments.namespace,
    },
    async resolve(_, args, { nth }, info): Promise<CounterSource> {
      const change = withZone(args.definition)
      const options = { withRevision: isRevisionSelected(info) }
      const { key, value, definition, revision } = await nth.counters.define(keyIn(args), change, options)
      return { ...key, value, definition, revision }
    },
  }),
  deleteCounter: t.field({
    type: CounterChangeRef,
    extensions: { right: onName('WRITE') },
    description: 'Deletes value, definition and history; the name reads 0 again.',
    args: counterArguments,
    resolve: (_, key, { nth }, info) => nth.counters.delete(key, { withRevision: isRevisionSelected(info) }),
  }),
}))
