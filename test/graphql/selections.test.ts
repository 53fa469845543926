import { type DocumentNode, type FieldNode, Kind, parse } from 'graphql'
import { expect, it } from 'vitest'
import { countSelected, fragmentsOf } from '../../src/graphql/selections.ts'

/** What the resolver of a document's first field receives about it. */
function infoOf(document: DocumentNode): Parameters<ReturnType<typeof countSelected>>[0] {
  const fieldNodes: FieldNode[] = document.definitions.flatMap((node) =>
    node.kind === Kind.OPERATION_DEFINITION
      ? node.selectionSet.selections.filter((selection) => selection.kind === Kind.FIELD)
      : [],
  )
  return { fieldNodes, fragments: fragmentsOf(document) }
}

it('counts how often each field is selected, by its name and not by its selection', () => {
  const info = infoOf(
    parse(
      '{ one { a: x ...F ... { x y } } } fragment F on One { b: x inner { y z } ...G } fragment G on One { x }',
    ),
  )
  for (let times = 0; times < 2; times += 1) {
    expect(['x', 'y', 'z', 'inner'].map((name) => [name, countSelected(name)(info)])).toEqual([
      ['x', 4],
      ['y', 1],
      ['z', 0],
      ['inner', 1],
    ])
  }
})
