import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  SchemaMetaFieldDef,
  type SelectionSetNode,
  TypeMetaFieldDef,
} from 'graphql'
import { costOfText } from '../../graphql/fieldCount.ts'

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/**
 * Whether an operation's introspection returns more than `maxValues` values. They are resolved synchronously, and a
 * type has fields that have types: 5 kB could request 68 MB, and block all other requests.
 *
 * Counts by walking through the schema as the executor would, up to the limit. Deprecated and conditional fields count.
 * If a variable selects the type, all types count.
 */
export function asksTooMuchOfSchema(
  schema: GraphQLSchema,
  fragments: Fragments,
  operation: OperationDefinitionNode,
  { maxValues, maxDepth }: { maxValues: number; maxDepth: number },
): boolean {
  let left = maxValues
  let depth = 0

  function countFields(selectionSet: SelectionSetNode, count: (field: FieldNode) => void): void {
    // Only recursive fragments are that deep; another rule rejects them.
    if (depth > maxDepth) return
    depth += 1
    for (const selection of selectionSet.selections) {
      // Fragments count too, as each use of one is work.
      left -= 1
      if (selection.kind === Kind.FIELD) left -= costOfText((selection.alias ?? selection.name).value.length)
      if (left < 0) break
      if (selection.kind === Kind.FIELD) {
        count(selection)
        continue
      }
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? fragments[selection.name.value]?.selectionSet
          : selection.selectionSet
      if (inner) countFields(inner, count)
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
        const given: unknown = field.resolve?.(source, { includeDeprecated: true }, undefined, info)
        countIn(given, getNamedType(field.type).name, node)
      })
    }
  }

  countFields(operation.selectionSet, (node) => {
    if (node.name.value === SchemaMetaFieldDef.name) countIn(schema, '__Schema', node)
    if (node.name.value === TypeMetaFieldDef.name) countIn(typesMeant(schema, node), '__Type', node)
  })
  return left < 0
}

function typesMeant(schema: GraphQLSchema, { arguments: given = [] }: FieldNode): unknown {
  const [name] = given.map(({ value }) => value)
  return name?.kind === Kind.STRING ? schema.getType(name.value) : Object.values(schema.getTypeMap())
}
