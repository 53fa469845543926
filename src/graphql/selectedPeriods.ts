import { type ExecutionArgs, Kind, visit } from 'graphql'
import { PERIODS, type Period } from '../core/time/calendar.ts'

/** Fields whose value depends on the time. */
const FIELDS = ['valueIn', 'history']

/** The periods whose totals an operation selects. */
export function selectedPeriods({ document, variableValues }: ExecutionArgs): Period[] {
  const selected = new Set<unknown>()
  visit(document, {
    Field({ name, arguments: given = [] }) {
      if (!FIELDS.includes(name.value)) return
      const period = given.find((argument) => argument.name.value === 'period')?.value
      if (period?.kind === Kind.ENUM) selected.add(period.value)
      if (period?.kind === Kind.VARIABLE) selected.add(variableValues?.[period.name.value])
    },
    // Of a document with several operations, those of all: an event too many does no harm.
    VariableDefinition({ defaultValue }) {
      if (defaultValue?.kind === Kind.ENUM) selected.add(defaultValue.value)
    },
  })
  return PERIODS.filter((period) => selected.has(period))
}
