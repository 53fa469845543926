import {
  type DocumentNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  type SelectionSetNode,
} from 'graphql'

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/**
 * How many fields a selection asks for, those of its fragments counted at each use. Each selection is looked
 * at once, so the work is in proportion to the document, whatever the number is.
 */
export function fieldCount(
  selectionSet: SelectionSetNode | undefined,
  fragments: Fragments,
  known = new Map<SelectionSetNode, number>(),
): number {
  if (selectionSet === undefined) return 0
  const counted = known.get(selectionSet)
  if (counted !== undefined) return counted
  // A fragment that uses itself is refused by another rule; here it must only come to an end.
  known.set(selectionSet, 0)
  let count = 0
  for (const selection of selectionSet.selections) {
    if (selection.kind === Kind.FRAGMENT_SPREAD) {
      count += fieldCount(fragments[selection.name.value]?.selectionSet, fragments, known)
    } else {
      count += (selection.kind === Kind.FIELD ? 1 : 0) + fieldCount(selection.selectionSet, fragments, known)
    }
  }
  known.set(selectionSet, count)
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

/** How many fields are asked for in each thing that a field gives; 1 for a plain value. */
export function fieldsBeneath({ fieldNodes, fragments }: GraphQLResolveInfo): number {
  const counts = fieldNodes.map(({ selectionSet }) => fieldCount(selectionSet, fragments))
  return Math.max(
    1,
    counts.reduce((sum, count) => sum + count, 0),
  )
}

const asked = new WeakMap<SelectionSetNode, boolean>()

/** Whether a field is asked for in what another one gives, if only under a condition. */
export function asksFor(name: string, { fieldNodes, fragments }: GraphQLResolveInfo): boolean {
  return fieldNodes.some(({ selectionSet }) => {
    if (!selectionSet) return false
    const known = asked.get(selectionSet)
    if (known !== undefined) return known
    const isAsked = holds(name, selectionSet, fragments)
    asked.set(selectionSet, isAsked)
    return isAsked
  })
}

function holds(name: string, selectionSet: SelectionSetNode | undefined, fragments: Fragments): boolean {
  if (!selectionSet) return false
  return selectionSet.selections.some((selection) => {
    if (selection.kind === Kind.FIELD) return selection.name.value === name
    const inner =
      selection.kind === Kind.FRAGMENT_SPREAD
        ? fragments[selection.name.value]?.selectionSet
        : selection.selectionSet
    return holds(name, inner, fragments)
  })
}
