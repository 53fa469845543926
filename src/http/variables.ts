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

/** What is wrong with the value of a variable. */
export interface VariableFault {
  definition: VariableDefinitionNode
  /** Where, within the value. */
  path: (string | number)[]
  /** The rest of a sentence that says where. */
  message: string
  limit?: number
}

/** Finds the first fault in the variables that an operation is given. */
export type VariableCheck = (
  variables: Readonly<Record<string, unknown>> | null | undefined,
) => VariableFault | undefined

/** The most items that all lists in the variables of one request may have. */
export const MAX_VARIABLE_ITEMS = 10_000

/**
 * Makes the check of an operation's variables, which comes before they are coerced.
 *
 * Coercion goes through a list of any length, and makes an error with a stack for each wrong item, up to 50 in
 * graphql-js and without end in graphql-jit: a request of 1 MB took 8 s and 500 MB. Here lengths are looked at
 * before items, and the first fault is the only one. Fields that are left out get their default values.
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

/** The most items that a list may have, as its argument or input field declares it. */
export function maxItemsOf({ extensions }: { extensions: Readonly<Record<string, unknown>> }): number {
  return typeof extensions.maxItems === 'number' ? extensions.maxItems : MAX_VARIABLE_ITEMS
}

function checkOf(type: GraphQLInputType, maxItems = MAX_VARIABLE_ITEMS): Check {
  if (isNonNullType(type)) {
    const check = checkOf(type.ofType, maxItems)
    return (value, count) =>
      value == null ? fault(`is of the type "${type}", and must be given`) : check(value, count)
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
            // Made when it is needed, as types may hold one another.
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
    // What JSON.parse gave.
    const items: unknown[] = value
    count.items += items.length
    if (items.length > maxItems) return tooLong(`must hold at most ${maxItems} items`, items.length, maxItems)
    if (count.items > MAX_VARIABLE_ITEMS) {
      const all = `takes the lists in the variables beyond ${MAX_VARIABLE_ITEMS} items in all`
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
      return fault(`must be an object, as the type "${typeName}" is one`)
    // What JSON.parse gave.
    const given = value as Record<string, unknown>
    for (const { name, defaultValue, isRequired, check } of fields) {
      const part = Object.hasOwn(given, name) ? given[name] : undefined
      if (part === undefined && isRequired) return fault(`lacks the field "${name}"`)
      if (part === undefined && defaultValue !== undefined) {
        // graphql-jit gives it to no field that may not be null, and takes each for an error.
        given[name] = defaultValue
        continue
      }
      const found = check(part, count)
      if (found) return beneath(name, found)
    }
    for (const name in given) {
      if (!names.has(name)) return fault(shortened(`has a field "${name}", which "${typeName}" has not`))
    }
    return undefined
  }
}

function checkOfLeaf(type: GraphQLLeafType): Check {
  return (value) => {
    if (typeof value === 'object') return fault(`must be a single value of the type "${type.name}"`)
    // Parsing would compare it with all values, to suggest one.
    if (isEnumType(type)) {
      return typeof value === 'string' && type.getValue(value)
        ? undefined
        : fault(`is no value of the type "${type.name}"`)
    }
    try {
      return type.parseValue(value) === undefined
        ? fault(`is no value of the type "${type.name}"`)
        : undefined
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return fault(shortened(`is no value of the type "${type.name}": ${reason}`))
    }
  }
}

function fault(message: string): Fault {
  return { path: [], message }
}

function tooLong(message: string, length: number, limit: number): Fault {
  return { path: [], message: `${message}; it holds ${length}`, limit }
}

function beneath(key: string | number, { path, ...rest }: Fault): Fault {
  return { ...rest, path: [key, ...path] }
}

const LONGEST_MESSAGE = 300

/** Without the rest of a value that a caller made long. */
function shortened(message: string): string {
  return message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message
}

/** How long the lists may be that variables stand for: the least where one stands for several. */
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
