import {
  type DocumentNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  type SelectionSetNode,
} from 'graphql'

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/** A selection belongs to one document, so its fragments never change. Each item of a list asks for its count. */
const counted = new WeakMap<SelectionSetNode, number>()

/**
 * How many fields a selection asks for, those of its fragments counted at each use. Each selection is looked
 * at once, so the work is in proportion to the document, whatever the number is.
 */
export function fieldCount(selectionSet: SelectionSetNode | undefined, fragments: Fragments): number {
  if (selectionSet === undefined) return 0
  const found = counted.get(selectionSet)
  if (found !== undefined) return found
  // A fragment that uses itself is refused by another rule; here it must only come to an end.
  counted.set(selectionSet, 0)
  let count = 0
  for (const selection of selectionSet.selections) {
    if (selection.kind === Kind.FRAGMENT_SPREAD) {
      count += fieldCount(fragments[selection.name.value]?.selectionSet, fragments)
    } else {
      count += (selection.kind === Kind.FIELD ? 1 : 0) + fieldCount(selection.selectionSet, fragments)
    }
  }
  counted.set(selectionSet, count)
  return count
}

/** How many levels a selection has, those of fragments included. */
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

/** Where fields are asked for, as a resolver is told. */
type Asked = Pick<GraphQLResolveInfo, 'fieldNodes' | 'fragments'>

/** How many fields are asked for in each thing that a field gives; 1 for a plain value. */
export function fieldsBeneath({ fieldNodes, fragments }: Asked): number {
  const count = fieldNodes.reduce((sum, { selectionSet }) => sum + fieldCount(selectionSet, fragments), 0)
  return Math.max(1, count)
}

/** How many times a field is asked for in what another one gives, under any alias, if only under a condition. */
export function timesAsked(name: string, { fieldNodes, fragments }: Asked): number {
  return fieldNodes.reduce(
    (sum, { selectionSet }) => sum + (selectionSet ? (countsIn(selectionSet, fragments).get(name) ?? 0) : 0),
    0,
  )
}

const countsByName = new WeakMap<SelectionSetNode, ReadonlyMap<string, number>>()

/** How many times a selection has each field itself, those of its fragments included. */
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
