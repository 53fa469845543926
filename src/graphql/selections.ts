import {
  type DocumentNode,
  type ExecutionArgs,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
  visit,
} from 'graphql'
import { PERIODS, type Period } from '../rules/calendar.ts'

export type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/** The fragments of a document, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Fragments {
  const fragments = definitions.filter((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  return Object.fromEntries(fragments.map((fragment) => [fragment.name.value, fragment]))
}

/** What is selected below a field, or within a fragment. */
export function selectionSetOf(selection: SelectionNode, fragments: Fragments): SelectionSetNode | undefined {
  return selection.kind === Kind.FRAGMENT_SPREAD
    ? fragments[selection.name.value]?.selectionSet
    : selection.selectionSet
}

/** The fields of an operation, with those in fragments. */
export function rootFields(selectionSet: SelectionSetNode | undefined, fragments: Fragments): FieldNode[] {
  return (selectionSet?.selections ?? []).flatMap((selection) =>
    selection.kind === Kind.FIELD ? [selection] : rootFields(selectionSetOf(selection, fragments), fragments),
  )
}

/** Name of a field in the response. */
export function responseName({ alias, name }: FieldNode): string {
  return (alias ?? name).value
}

/** Characters of a text that cost as much as one value. */
const CHARACTERS_OF_A_VALUE = 20

/** Cost of a text beyond one value. */
export function costOfText(length: number): number {
  return Math.floor(length / CHARACTERS_OF_A_VALUE)
}

/** Number of fields in a selection, with fragments counted at each use. Long response names count more. */
export const fieldCount = createMeasure(
  (sum, field, below) => sum + below + (field ? 1 + costOfText(responseName(field).length) : 0),
)

/** Levels of fields and fragments in a selection. */
export const selectionDepth = createMeasure((depth, _, below) => Math.max(depth, 1 + below))

/** The part of a resolver's `info` that describes a selection. */
type Info = Pick<GraphQLResolveInfo, 'fieldNodes' | 'fragments'>

/** Creates a measure of how often a field is selected directly below another one, under any alias. */
export function countSelected(name: string): SelectionMeasure {
  return createMeasure((sum, field, below) =>
    field ? sum + (field.name.value === name ? 1 : 0) : sum + below,
  )
}

type SelectionMeasure = ReturnType<typeof createMeasure>

/**
 * Creates a measure that folds a selection: `add` gets the result so far, the field (undefined: a fragment), and the
 * measure of what is selected below it. Conditional selections count.
 *
 * Each selection is visited once, so the work is proportional to the document, however often its fragments are used.
 * Results are cached, because each item of a list needs them; a selection belongs to one document, so its fragments
 * never change.
 */
export function createMeasure(add: (result: number, field: FieldNode | undefined, below: number) => number) {
  const cached = new WeakMap<SelectionSetNode, number>()
  return function measure(selectionSet: SelectionSetNode | undefined, fragments: Fragments): number {
    if (selectionSet === undefined) return 0
    const found = cached.get(selectionSet)
    if (found !== undefined) return found
    // Another rule rejects recursive fragments; here they must only terminate.
    cached.set(selectionSet, 0)
    let result = 0
    for (const selection of selectionSet.selections) {
      const field = selection.kind === Kind.FIELD ? selection : undefined
      result = add(result, field, measure(selectionSetOf(selection, fragments), fragments))
    }
    cached.set(selectionSet, result)
    return result
  }
}

/** The measure of all that is selected below a field. */
export function sumBelow(measure: SelectionMeasure, { fieldNodes, fragments }: Info): number {
  let sum = 0
  for (const { selectionSet } of fieldNodes) sum += measure(selectionSet, fragments)
  return sum
}

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
