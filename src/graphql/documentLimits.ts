import {
  type DocumentNode,
  type FieldNode,
  GraphQLError,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
  Kind,
  parse,
  type SelectionSetNode,
  specifiedRules,
  validate,
} from 'graphql'
import { errorOf } from '../rules/errors.ts'
import { costOfText, fieldCount, fieldsIn, fragmentsOf, responseName, selectionDepth } from './selections.ts'

/** Maximum tokens of a document: 600 fields with arguments. Some rules take time in proportion to its square. */
export const MAX_TOKENS = 10_000

/** Maximum lines. graphql-js counts them again to locate each error: ten errors after 450 000 lines took 0.4 s. */
export const MAX_LINES = 10_000

/** Maximum operations and fragments: each fragment is compared with each other one for conflicting fields. */
export const MAX_DEFINITIONS = 200

/** Maximum uses of a response name in a selection: each is compared with each other one. */
export const MAX_REPEATS = 50
const REPEATED = 'The document selects the same field too many times.'

/** Maximum reported errors of a document. Each is located by a search from the start. */
const MAX_ERRORS = 10

/** Maximum fields in an operation, with fragments counted at each use. */
export const MAX_FIELDS = 10_000

/** Maximum levels of fields and fragments. A response with thousands could not be serialized as JSON. */
export const MAX_DEPTH = 100

/** Maximum length of an alias, in characters. A list repeats it for each item. */
export const MAX_ALIAS_LENGTH = 255

/** Maximum values returned by introspection. Tools request 4 000 of this schema. */
export const MAX_SCHEMA_VALUES = 20_000
const TOO_MUCH_SCHEMA = `Introspection may return at most ${MAX_SCHEMA_VALUES} values in one request.`

/** Parses a document unless it is too large. */
export function parseBounded(...[source, options]: Parameters<typeof parse>) {
  const text = typeof source === 'string' ? source : source.body
  if (text.split(/\r\n|[\n\r]/, MAX_LINES + 1).length > MAX_LINES) {
    throw new GraphQLError(`Syntax Error: A document may have at most ${MAX_LINES} lines.`)
  }
  const document = unlessTooDeep(() => parse(source, { ...options, maxTokens: MAX_TOKENS }))
  if (document === undefined) throw new GraphQLError('Syntax Error: Document is nested too deeply.')
  if (document.definitions.length <= MAX_DEFINITIONS) return document
  throw new GraphQLError(
    `Syntax Error: A document may have at most ${MAX_DEFINITIONS} operations and fragments.`,
  )
}

/** What graphql-js returns; undefined: it is recursive, and the values, types or fields are nested too deeply for it. */
function unlessTooDeep<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Validates a document unless it is too large: some rules take time proportional to a product of counts. */
export function validateBounded(...[schema, document, rules, options]: Parameters<typeof validate>) {
  const fault = sizeFault(document)
  if (fault !== undefined) return [new GraphQLError(fault)]
  const allRules = [...(rules ?? specifiedRules), aliasLengthRule]
  const errors = unlessTooDeep(() =>
    validate(schema, document, allRules, { ...options, maxErrors: MAX_ERRORS }),
  )
  if (errors === undefined) return [new GraphQLError('The document is nested too deeply.')]
  if (errors.length === 0)
    return introspectsTooMuch(schema, document) ? [new GraphQLError(TOO_MUCH_SCHEMA)] : errors
  // graphql-js stops comparing too many fields with this error, whose message does not help.
  const isAborted = errors.some(({ message }) => message === 'Validation aborted.')
  return isAborted ? [new GraphQLError(REPEATED)] : errors
}

const aliasLengthRule: (typeof specifiedRules)[number] = (context) => ({
  Field({ alias }) {
    if (!alias || alias.value.length <= MAX_ALIAS_LENGTH) return
    const message = `An alias may have at most ${MAX_ALIAS_LENGTH} characters; one has ${alias.value.length}.`
    context.reportError(new GraphQLError(message, { nodes: alias }))
  },
})

/** Why a document is too large. Nested fragments can make a short one select exponentially many fields. */
function sizeFault(document: DocumentNode): string | undefined {
  const fragments = fragmentsOf(document)
  for (const definition of document.definitions) {
    if ('selectionSet' in definition && repeatsFields(definition.selectionSet)) return REPEATED
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue
    const { selectionSet } = definition
    if (fieldCount(selectionSet, fragments) > MAX_FIELDS) {
      return `An operation may select at most ${MAX_FIELDS} fields.`
    }
    if (selectionDepth(selectionSet, fragments) > MAX_DEPTH) {
      return `Fields and fragments may be nested at most ${MAX_DEPTH} levels deep.`
    }
  }
  return undefined
}

function repeatsFields({ selections }: SelectionSetNode): boolean {
  const times = new Map<string, number>()
  return selections.some((selection) => {
    if (selection.kind === Kind.FRAGMENT_SPREAD) return false
    if (selection.kind === Kind.FIELD) {
      const count = (times.get(responseName(selection)) ?? 0) + 1
      if (count > MAX_REPEATS) return true
      times.set(responseName(selection), count)
    }
    return selection.selectionSet !== undefined && repeatsFields(selection.selectionSet)
  })
}

/**
 * Whether the introspection of a valid document returns too many values. They are resolved synchronously, and a type has
 * fields that have types: 5 kB could request 68 MB, and block all other requests. Traverses the schema as the executor
 * would, up to the limit; counts deprecated and conditional fields, and all types if a variable selects the type.
 */
function introspectsTooMuch(schema: GraphQLSchema, document: DocumentNode): boolean {
  const fragments = fragmentsOf(document)
  let left = MAX_SCHEMA_VALUES

  /** Counts what a field returns: an object of the schema, or a list of them. */
  function count(value: unknown, typeName: string, { selectionSet }: FieldNode): void {
    const type = schema.getType(typeName)
    const sources = [value].flat()
    if (!isObjectType(type) || value == null || sources.length === 0) return
    const fields = type.getFields()
    const nodes = fieldsIn(selectionSet, fragments)
    for (const source of sources) {
      for (const node of nodes) {
        left -= 1 + costOfText(responseName(node).length)
        if (left < 0) return
        const field = fields[node.name.value]
        if (!field || !node.selectionSet) continue
        // The resolvers of introspection use nothing else.
        const info = { schema } as GraphQLResolveInfo
        const result: unknown = field.resolve?.(source, { includeDeprecated: true }, undefined, info)
        count(result, getNamedType(field.type).name, node)
      }
    }
  }

  const selections = document.definitions.flatMap((definition) =>
    definition.kind === Kind.OPERATION_DEFINITION ? fieldsIn(definition.selectionSet, fragments) : [],
  )
  for (const node of selections) {
    const name = node.arguments?.[0]?.value
    const types = name?.kind === Kind.STRING ? schema.getType(name.value) : Object.values(schema.getTypeMap())
    if (node.name.value === '__schema') count(schema, '__Schema', node)
    if (node.name.value === '__type') count(types, '__Type', node)
  }
  return left < 0
}

/** Why a text is no document that can be executed, as the predicate of a sentence about it; undefined: it is one. */
export function documentFault(schema: GraphQLSchema, text: string): string | undefined {
  let fault: Error | undefined
  try {
    fault = validateBounded(schema, parseBounded(text))[0]
  } catch (error) {
    // The document can't be parsed.
    fault = errorOf(error)
  }
  return fault && `is not valid: ${fault.message.replace(/\.$/, '')}`
}
