import * as checks from '../arguments/checks.ts'
import { builder } from '../builder.ts'
import { Namespace, namespaceName } from './namespace.ts'
import { TrackedPeriodInput, withZone } from './period.ts'

const NamespaceDefinition = builder.inputType('NamespaceDefinitionInput', {
  description: 'Omitted: unchanged. Null: reset to the default.',
  fields: (t) => ({
    timeZone: t.string({ description: 'IANA time zone of new counters and sequences. Default: UTC.' }),
    periods: t.field({
      type: [TrackedPeriodInput],
      extensions: { maxItems: checks.MAX_PERIODS },
      description:
        'All periods whose totals new counters keep; [] for none. Default: HOUR for 90 days, DAY and MONTH forever.',
    }),
  }),
})

builder.mutationField('defineNamespace', (t) =>
  t.field({
    type: Namespace,
    nullable: true,
    description: 'Sets the defaults for new counters and sequences in a namespace.',
    args: {
      name: namespaceName,
      definition: t.arg({
        type: NamespaceDefinition,
        required: true,
        description: 'The changes.',
        validate: checks.namespaceDefinition,
      }),
    },
    resolve: (_, { name, definition }, { nth }) => nth.namespaces.define(name, withZone(definition)),
  }),
)
