import type { ResetSummary } from '../../core/counters/resetAll.ts'
import { nameArgument, textArgument } from '../arguments/names.ts'
import { builder } from '../builder.ts'
import { toArgument } from './counterChange.ts'

const ResetSummaryRef = builder.objectRef<ResetSummary>('ResetSummary').implement({
  description: 'Result of resetAll.',
  fields: (t) => ({
    resetCount: t.exposeInt('resetCount', { description: 'Number of counters set.' }),
    refusedCount: t.exposeInt('refusedCount', {
      description: 'Number of counters left unchanged because `to` is outside their bounds.',
    }),
  }),
})

builder.mutationField('resetAll', (t) =>
  t.field({
    type: ResetSummaryRef,
    nullable: true,
    description: 'Sets every counter of a namespace, in batches, not atomically; a repeat sets them again.',
    args: {
      namespace: t.arg.string(nameArgument('Namespace of the counters.')),
      prefix: t.arg.string(textArgument('Only counters whose names start with this.')),
      to: t.arg(toArgument),
    },
    resolve: (_, { namespace, prefix, to }, { nth }) => nth.counters.resetAll(namespace, prefix, to),
  }),
)
