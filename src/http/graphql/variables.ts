import {
  type DocumentNode,
  type GraphQLInputType,
  type GraphQLLeafType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  Kind,
  type OperationDefinitionNode,
  TypeInfo,
  typeFromAST,
  type VariableDefinitionNode,
  visit,
  visitWithTypeInfo,
} from 'graphql'

/** Why the value of a variable is invalid. */
export interface VariableFault {
  definition: VariableDefinitionNode
  /** Path within the value. */
  path: (string | number)[]
  /** The rest of a sentence that starts with the argument. */
  message: string
  limit?: number
}

/** Returns the first error in the variables of an operation. */
export type VariableCheck = (
  variables: Readonly<Record<string, unknown>> | null | undefined,
) => VariableFault | undefined

/** Maximum items in all lists in the variables of one request. */
export const MAX_VARIABLE_ITEMS = 10_000

/**
 * Creates the check of an operation's variables, which runs before they are coerced.
 *
 * Coercion processes a list of any length, and creates an error with a stack for each wrong item, up to 50 in
 * graphql-js and without limit in graphql-jit: a request of 1 MB took 8 s and 500 MB. Here lengths are checked before
 * items, and the first error is the only one. Omitted fields get their default values.
 */
export function createVariableCheck(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): VariableCheck {
  const { variableDefinitions = [] } = operation
  const types = variableDefinitions.map((definition) => typeFromAST(schema, definition.type))
  const limits = types.some((type) => type && isListType(isNonNullType(type) ? type.ofType : type))
    ? listLimits(schema, document)
    : undefined
  const checks = variableDefinitions.flatMap((definition, index) => {
    const type = types[index]
    const name = definition.variable.name.value
    return isInputType(type) ? [{ definition, name, check: checkOf(type, limits?.get(name)) }] : []
  })

  return (variables) => {
    const count = { items: 0 }
    for (const { definition, name, check } of checks) {
      const value = variables && Object.hasOwn(variables, name) ? variables[name] : undefined
      if (value === undefined && definition.defaultValue) continue
      const fault = check(value, count)
      if (fault) return { ...fault, definition }
    }
    return undefined
  }
}

type Fault = Omit<VariableFault, 'definition'>
type Check = (value: unknown, count: { items: number }) => Fault | undefined

/** Maximum items in a list, as declared by its argument or input field. */
export function maxItemsOf({ extensions }: { extensions: Readonly<Record<string, unknown>> }): number {
  return typeof extensions.maxItems === 'number' ? extensions.maxItems : MAX_VARIABLE_ITEMS
}

function checkOf(type: GraphQLInputType, maxItems = MAX_VARIABLE_ITEMS): Check {
  if (isNonNullType(type)) {
    const check = checkOf(type.ofType, maxItems)
    return (value, count) =>
      value == null ? fault(`is required: its type is "${type}"`) : check(value, count)
  }
  const check = isListType(type)
    ? checkOfList(checkOf(type.ofType), maxItems)
    : isInputObjectType(type)
      ? checkOfObject(
          type.name,
          Object.values(type.getFields()).map((field) => ({
            name: field.name,
            defaultValue: field.defaultValue,
            isRequired: isRequiredInputField(field),
            // Created on demand, because types may be recursive.
            check: later(() => checkOf(field.type, maxItemsOf(field))),
          })),
        )
      : checkOfLeaf(type)
  return (value, count) => (value == null ? undefined : check(value, count))
}

function later(make: () => Check): Check {
  let made: Check | undefined
  return (value, count) => {
    made ??= make()
    return made(value, count)
  }
}

function checkOfList(check: Check, maxItems: number): Check {
  return (value, count) => {
    if (!Array.isArray(value)) return check(value, count)
    // From JSON.parse.
    const items: unknown[] = value
    count.items += items.length
    if (items.length > maxItems) return tooLong(`must have at most ${maxItems} items`, items.length, maxItems)
    if (count.items > MAX_VARIABLE_ITEMS) {
      const all = `exceeds the limit of ${MAX_VARIABLE_ITEMS} items in all lists together`
      return tooLong(all, items.length, MAX_VARIABLE_ITEMS)
    }
    for (let index = 0; index < items.length; index += 1) {
      const found = check(items[index], count)
      if (found) return beneath(index, found)
    }
    return undefined
  }
}

interface CheckedField {
  name: string
  defaultValue: unknown
  isRequired: boolean
  check: Check
}

function checkOfObject(typeName: string, fields: readonly CheckedField[]): Check {
  const names = new Set(fields.map(({ name }) => name))
  return (value, count) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return fault(`must be an object of the type "${typeName}"`)
    // From JSON.parse.
    const given = value as Record<string, unknown>
    for (const { name, defaultValue, isRequired, check } of fields) {
      const part = Object.hasOwn(given, name) ? given[name] : undefined
      if (part === undefined && isRequired) return fault(`is missing the field "${name}"`)
      if (part === undefined && defaultValue !== undefined) {
        // graphql-jit doesn't apply it to non-null fields, and reports an error for each.
        given[name] = defaultValue
        continue
      }
      const found = check(part, count)
      if (found) return beneath(name, found)
    }
    for (const name in given) {
      if (!names.has(name)) return fault(shortened(`has an unknown field "${name}"; type: "${typeName}"`))
    }
    return undefined
  }
}

function checkOfLeaf(type: GraphQLLeafType): Check {
  return (value) => {
    if (typeof value === 'object') return fault(`must be a single value of the type "${type.name}"`)
    // Parsing would compare it with all values to suggest one.
    if (isEnumType(type)) {
      return typeof value === 'string' && type.getValue(value)
        ? undefined
        : fault(`is not a valid value of the type "${type.name}"`)
    }
    try {
      return type.parseValue(value) === undefined
        ? fault(`is not a valid value of the type "${type.name}"`)
        : undefined
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return fault(shortened(`is not a valid value of the type "${type.name}": ${reason}`))
    }
  }
}

function fault(message: string): Fault {
  return { path: [], message }
}

function tooLong(message: string, length: number, limit: number): Fault {
  return { path: [], message: `${message}; it has ${length}`, limit }
}

function beneath(key: string | number, { path, ...rest }: Fault): Fault {
  return { ...rest, path: [key, ...path] }
}

const LONGEST_MESSAGE = 300

/** Truncates a message that contains a long value. */
function shortened(message: string): string {
  return message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message
}

/** Maximum length of the lists in variables: the smallest limit of all uses of a variable. */
function listLimits(schema: GraphQLSchema, document: DocumentNode): Map<string, number> {
  const limits = new Map<string, number>()
  const types = new TypeInfo(schema)
  visit(
    document,
    visitWithTypeInfo(types, {
      VariableDefinition: () => false,
      Variable({ name: { value: name } }, _key, parent) {
        const isField = parent && 'kind' in parent && parent.kind === Kind.OBJECT_FIELD
        const holder = getNamedType(types.getParentInputType())
        const place =
          isField && isInputObjectType(holder) ? holder.getFields()[parent.name.value] : types.getArgument()
        if (place) limits.set(name, Math.min(maxItemsOf(place), limits.get(name) ?? MAX_VARIABLE_ITEMS))
      },
    }),
  )
  return limits
}
