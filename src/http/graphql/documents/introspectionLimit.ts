import {
  type FieldNode,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from 'graphql'
import { costOfText, type Fragments, responseName, selectionSetOf } from '../../../graphql/selections.ts'

/** Maximum values returned by introspection. Tools request 4 000 of this schema. */
export const MAX_SCHEMA_VALUES = 20_000

/** Levels of fields after which counting stops: only recursive fragments are that deep; another rule rejects them. */
const MAX_COUNTED_DEPTH = 100

/**
 * Whether an operation's introspection returns too many values. They are resolved synchronously, and a type has fields
 * that have types: 5 kB could request 68 MB, and block all other requests. Walks through the schema as the executor
 * would, up to the limit; counts deprecated and conditional fields, and all types if a variable selects the type.
 */
export function introspectsTooMuch(schema: GraphQLSchema, fragments: Fragments, root: SelectionSetNode) {
  let left = MAX_SCHEMA_VALUES
  let depth = 0

  function countFields(selectionSet: SelectionSetNode, count: (field: FieldNode) => void): void {
    if (depth > MAX_COUNTED_DEPTH) return
    depth += 1
    for (const selection of selectionSet.selections) {
      // Fragments count too, as each use of one is work.
      left -= 1
      if (selection.kind === Kind.FIELD) left -= costOfText(responseName(selection).length)
      if (left < 0) break
      const inner = selectionSetOf(selection, fragments)
      if (selection.kind === Kind.FIELD) count(selection)
      else if (inner) countFields(inner, count)
    }
    depth -= 1
  }

  /** Counts what a field returns: an object of the schema, or a list of them. */
  function countIn(value: unknown, typeName: string, { selectionSet }: FieldNode): void {
    const type = schema.getType(typeName)
    if (!selectionSet || !isObjectType(type) || value == null) return
    const fields = type.getFields()
    for (const source of Array.isArray(value) ? value : [value]) {
      if (left < 0) return
      countFields(selectionSet, (node) => {
        const field = fields[node.name.value]
        if (!field || !node.selectionSet) return
        // The resolvers of introspection use nothing else.
        const info = { schema } as GraphQLResolveInfo
        const result: unknown = field.resolve?.(source, { includeDeprecated: true }, undefined, info)
        countIn(result, getNamedType(field.type).name, node)
      })
    }
  }

  countFields(root, (node) => {
    if (node.name.value === '__schema') countIn(schema, '__Schema', node)
    if (node.name.value !== '__type') return
    const name = node.arguments?.[0]?.value
    const types = name?.kind === Kind.STRING ? schema.getType(name.value) : Object.values(schema.getTypeMap())
    countIn(types, '__Type', node)
  })
  return left < 0
}
