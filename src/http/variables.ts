import {
  type GraphQLInputObjectType,
  type GraphQLInputType,
  type GraphQLLeafType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInputType,
  isListType,
  isNonNullType,
  isRequiredInputField,
  type OperationDefinitionNode,
  typeFromAST,
} from 'graphql'
import { type Fault, faultAt } from '../rules/names.ts'

/** Maximum items in all lists in the variables of one request. */
export const MAX_ITEMS = 10_000

/** Maximum length of a message, which may contain a long value. */
const MAX_MESSAGE_LENGTH = 300

/**
 * Creates the check of an operation's variables, which runs before they are coerced. Coercion processes a list of any
 * length, and creates an error with a stack for each wrong item, up to 50 in graphql-js and without limit in
 * graphql-jit: a request of 1 MB took 8 s and 500 MB. Here lists are counted before their items are checked, and the first
 * error is the only one. Omitted fields get their default values. Arguments check the length of each list.
 */
export function createVariableCheck(
  schema: GraphQLSchema,
  { variableDefinitions = [] }: OperationDefinitionNode,
) {
  const checks = variableDefinitions.flatMap((definition) => {
    const name = definition.variable.name.value
    const type = typeFromAST(schema, definition.type)
    return isInputType(type) ? [{ definition, name, check: createCheck(type) }] : []
  })

  return (variables: Readonly<Record<string, unknown>> | null | undefined) => {
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

/** `count` has the items in all lists so far. */
type VariableCheck = (value: unknown, count: { items: number }) => Fault | undefined

function createCheck(type: GraphQLInputType): VariableCheck {
  if (isNonNullType(type)) {
    const check = createCheck(type.ofType)
    return (value, count) =>
      value == null ? fault(`is required: its type is "${type}"`) : check(value, count)
  }
  const check = isListType(type)
    ? createListCheck(createCheck(type.ofType))
    : isInputObjectType(type)
      ? createObjectCheck(type)
      : createLeafCheck(type)
  return (value, count) => (value == null ? undefined : check(value, count))
}

function createListCheck(check: VariableCheck): VariableCheck {
  return (value, count) => {
    if (!Array.isArray(value)) return check(value, count)
    const { length } = value
    count.items += length
    if (count.items > MAX_ITEMS) {
      const message = `exceeds the limit of ${MAX_ITEMS} items in all lists together; it has ${length}`
      return { message, limit: MAX_ITEMS }
    }
    for (let index = 0; index < length; index += 1) {
      const itemFault = check(value[index], count)
      if (itemFault) return faultAt([index], itemFault)
    }
    return undefined
  }
}

function createObjectCheck(type: GraphQLInputObjectType): VariableCheck {
  const declared = type.getFields()
  // No input type of the schema contains itself.
  const fields = Object.values(declared).map((field) => {
    return { ...field, isRequired: isRequiredInputField(field), check: createCheck(field.type) }
  })
  return (value, count) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return fault(`must be an object of the type "${type.name}"`)
    // From JSON.parse.
    const object = value as Record<string, unknown>
    for (const { name, defaultValue, isRequired, check } of fields) {
      const part = Object.hasOwn(object, name) ? object[name] : undefined
      if (part === undefined && isRequired) return fault(`is missing the field "${name}"`)
      if (part === undefined && defaultValue !== undefined) {
        // graphql-jit doesn't apply it to non-null fields, and reports an error for each.
        object[name] = defaultValue
        continue
      }
      const partFault = check(part, count)
      if (partFault) return faultAt([name], partFault)
    }
    const unknown = Object.keys(object).find((name) => !Object.hasOwn(declared, name))
    if (unknown === undefined) return undefined
    return fault(`has an unknown field "${unknown}"; type: "${type.name}"`)
  }
}

function createLeafCheck(type: GraphQLLeafType): VariableCheck {
  const invalid = `is not a valid value of the type "${type.name}"`
  return (value) => {
    if (typeof value === 'object') return fault(`must be a single value of the type "${type.name}"`)
    // Parsing would compare it with all values to suggest one.
    if (isEnumType(type)) {
      return typeof value === 'string' && type.getValue(value) ? undefined : fault(invalid)
    }
    try {
      return type.parseValue(value) === undefined ? fault(invalid) : undefined
    } catch (error) {
      return fault(`${invalid}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}

function fault(message: string): Fault {
  const isLong = message.length > MAX_MESSAGE_LENGTH
  return { message: isLong ? `${message.slice(0, MAX_MESSAGE_LENGTH)}…` : message }
}
