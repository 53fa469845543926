import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  type SelectionSetNode,
} from 'graphql'

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/** Characters of a response name that cost as much as one value: each item of a list repeats them. */
const CHARACTERS_OF_A_VALUE = 40

/** Cost of a text beyond one value. */
export function costOfText(length: number): number {
  return Math.floor(length / CHARACTERS_OF_A_VALUE)
}

/** Number of fields in a selection, with fragments counted at each use. Long response names count more. */
export function fieldCount(selectionSet: SelectionSetNode | undefined, fragments: Fragments): number {
  return summed(selectionSet, fragments, counted, costOfName)
}

/** Number of fields selected in each object that a field returns; 1 for a scalar. */
export function fieldsBeneath({ fieldNodes, fragments }: Asked): number {
  return Math.max(
    1,
    fieldNodes.reduce((sum, { selectionSet }) => sum + fieldCount(selectionSet, fragments), 0),
  )
}

/** Cached because each item of a list needs it. A selection belongs to one document, so its fragments never change. */
const counted = new WeakMap<SelectionSetNode, number>()

function costOfName({ alias, name }: FieldNode): number {
  return 1 + costOfText((alias ?? name).value.length)
}

/** Fields that may need a read for each item of a list, and the additional values that they count as. */
const READS = new Map([
  ['history', 20],
  ['valueIn', 20],
  ['createdAt', 5],
  ['updatedAt', 5],
  ['timeZone', 5],
  ['sequence', 5],
  ['group', 5],
])

/** Number of values selected in each object that a field returns; 1 for a scalar. */
export function valuesBeneath({ fieldNodes, fragments }: Asked): number {
  const costOf = (field: FieldNode) => costOfName(field) + (READS.get(field.name.value) ?? 0)
  const count = fieldNodes.reduce(
    (sum, { selectionSet }) => sum + summed(selectionSet, fragments, valued, costOf),
    0,
  )
  return Math.max(1, count)
}

const valued = new WeakMap<SelectionSetNode, number>()

/**
 * Total cost of the fields in a selection. Each selection is visited once, so the work is proportional to the document,
 * however large the total is.
 */
function summed(
  selectionSet: SelectionSetNode | undefined,
  fragments: Fragments,
  known: WeakMap<SelectionSetNode, number>,
  costOf: (field: FieldNode) => number,
): number {
  if (selectionSet === undefined) return 0
  const found = known.get(selectionSet)
  if (found !== undefined) return found
  // Another rule rejects recursive fragments; here they must only terminate.
  known.set(selectionSet, 0)
  let sum = 0
  for (const selection of selectionSet.selections) {
    const isSpread = selection.kind === Kind.FRAGMENT_SPREAD
    const inner = isSpread ? fragments[selection.name.value]?.selectionSet : selection.selectionSet
    sum += summed(inner, fragments, known, costOf)
    if (selection.kind === Kind.FIELD) sum += costOf(selection)
  }
  known.set(selectionSet, sum)
  return sum
}

/** Depth of a selection, including its fragments. */
export function selectionDepth(
  selectionSet: SelectionSetNode | undefined,
  fragments: Fragments,
  known = new Map<SelectionSetNode, number>(),
): number {
  if (selectionSet === undefined) return 0
  const found = known.get(selectionSet)
  if (found !== undefined) return found
  known.set(selectionSet, 0)
  let depth = 0
  for (const selection of selectionSet.selections) {
    const inner =
      selection.kind === Kind.FRAGMENT_SPREAD
        ? fragments[selection.name.value]?.selectionSet
        : selection.selectionSet
    depth = Math.max(depth, 1 + selectionDepth(inner, fragments, known))
  }
  known.set(selectionSet, depth)
  return depth
}

/** The fragments of a document, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Fragments {
  const fragments = definitions.filter((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  return Object.fromEntries(fragments.map((fragment) => [fragment.name.value, fragment]))
}

/** The part of a resolver's `info` that describes a selection. */
type Asked = Pick<GraphQLResolveInfo, 'fieldNodes' | 'fragments'>

/** How often a field is selected directly below another one, under any alias. Conditional selections count. */
export function timesAsked(name: string, { fieldNodes, fragments }: Asked): number {
  return fieldNodes.reduce(
    (sum, { selectionSet }) => sum + (selectionSet ? (countsIn(selectionSet, fragments).get(name) ?? 0) : 0),
    0,
  )
}

/** Whether a field is selected anywhere below another one, under any alias. Conditional selections count. */
export function isAskedBeneath(name: string, { fieldNodes, fragments }: Asked): boolean {
  return fieldNodes.some(
    ({ selectionSet }) => selectionSet && namesBeneath(selectionSet, fragments).has(name),
  )
}

const namesKnown = new WeakMap<SelectionSetNode, ReadonlySet<string>>()

/** Names of all fields in a selection, on every level. */
function namesBeneath(selectionSet: SelectionSetNode, fragments: Fragments): ReadonlySet<string> {
  const known = namesKnown.get(selectionSet)
  if (known) return known
  const names = new Set<string>()
  namesKnown.set(selectionSet, names)
  for (const selection of selectionSet.selections) {
    if (selection.kind === Kind.FIELD) names.add(selection.name.value)
    const inner =
      selection.kind === Kind.FRAGMENT_SPREAD
        ? fragments[selection.name.value]?.selectionSet
        : selection.selectionSet
    if (inner) for (const name of namesBeneath(inner, fragments)) names.add(name)
  }
  return names
}

const countsByName = new WeakMap<SelectionSetNode, ReadonlyMap<string, number>>()

/** How often a selection contains each field directly, including its fragments. */
function countsIn(selectionSet: SelectionSetNode, fragments: Fragments): ReadonlyMap<string, number> {
  const known = countsByName.get(selectionSet)
  if (known) return known
  const counts = new Map<string, number>()
  const add = (name: string, count: number) => counts.set(name, (counts.get(name) ?? 0) + count)
  for (const selection of selectionSet.selections) {
    if (selection.kind === Kind.FIELD) {
      add(selection.name.value, 1)
      continue
    }
    const inner =
      selection.kind === Kind.FRAGMENT_SPREAD
        ? fragments[selection.name.value]?.selectionSet
        : selection.selectionSet
    if (inner) for (const [name, count] of countsIn(inner, fragments)) add(name, count)
  }
  countsByName.set(selectionSet, counts)
  return counts
}
