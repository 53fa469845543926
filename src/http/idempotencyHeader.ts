import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type DocumentNode,
  type FieldNode,
  type GraphQLSchema,
  getOperationAST,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
  type SelectionSetNode,
} from 'graphql'
import type { Plugin, YogaInitialContext } from 'graphql-yoga'
import { keyFault } from '../core/idempotency.ts'
import type { Fault } from '../core/names.ts'
import { fragmentsOf } from '../graphql/fieldCount.ts'
import { requestError } from './requests.ts'

const HEADER = 'idempotency-key'
const ARGUMENT = 'idempotencyKey'

/** What Yoga is given with a request that came through Node's server. */
export interface ServerContext {
  req?: IncomingMessage
  res?: ServerResponse
}

/** The key in a request's header, as it is meant: quotes around it, as structured fields have them, are no part of it. */
export function idempotencyKeyIn({ req }: ServerContext, { headers }: Request): string | undefined {
  // As Node has them: making them the web's would cost every request, with and without a key, a microsecond.
  const text = req ? req.headers[HEADER] : headers.get(HEADER)
  return typeof text === 'string' ? unquoted(text) : undefined
}

function unquoted(text: string): string {
  return QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1') ?? text
}

/** With what structured fields may have behind it, which says nothing here. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"\s*(?:;.*)?$/

/**
 * Refuses a mutation with the header `Idempotency-Key` where it isn't clear what that key is for, before
 * anything is executed. Queries have no use for one, and are left alone.
 */
export const idempotencyHeader: Plugin<object, ServerContext> = {
  onExecute({ args: { schema, document, operationName, variableValues, contextValue } }) {
    // Yoga makes it of what it was given with the request.
    const context = contextValue as ServerContext & YogaInitialContext
    const key = idempotencyKeyIn(context, context.request)
    if (key === undefined) return
    const operation = getOperationAST(document, operationName)
    if (operation?.operation !== OperationTypeNode.MUTATION) return
    const times = context.req?.headersDistinct[HEADER]?.length ?? 1
    const fault =
      times > 1
        ? { message: 'The header Idempotency-Key came more than once.' }
        : (faultOf(key, operation, document, variableValues) ?? keylessFault(schema, operation, document))
    if (!fault) return
    const { message, ...details } = fault
    throw requestError(400, 'BAD_USER_INPUT', message, { argument: ARGUMENT, ...details })
  },
}

/** As they were sent. */
type Variables = Record<string, unknown> | null | undefined

function faultOf(
  key: string,
  operation: OperationDefinitionNode,
  document: DocumentNode,
  variables: Variables,
): Fault | undefined {
  const fault = keyFault(key)
  if (fault) return { ...fault, message: `The header Idempotency-Key ${fault.message}.` }
  const fields = rootFields(operation.selectionSet, document)
  if (new Set(fields.map(responseName)).size !== 1) {
    return {
      message:
        'The header Idempotency-Key goes with an operation of one field. Give each field its own argument idempotencyKey.',
    }
  }
  const others = fields
    .map((field) => argumentOf(field, operation, variables))
    .filter((other) => other != null)
  return others.some((other) => other !== key)
    ? {
        message:
          'The header Idempotency-Key and the argument idempotencyKey are different; send one of them.',
      }
    : undefined
}

/** A key that would not be looked at must not seem to make a repeat safe. */
function keylessFault(
  schema: GraphQLSchema,
  { selectionSet }: OperationDefinitionNode,
  document: DocumentNode,
): Fault | undefined {
  const mutations = schema.getMutationType()?.getFields() ?? {}
  const keyless = rootFields(selectionSet, document).find(
    ({ name }) => !mutations[name.value]?.args.some((argument) => argument.name === ARGUMENT),
  )
  if (!keyless) return undefined
  return {
    message: `${keyless.name.value} takes no idempotency key; send it without the header Idempotency-Key.`,
  }
}

function rootFields(selectionSet: SelectionSetNode, document: DocumentNode): FieldNode[] {
  const fragments = fragmentsOf(document)
  const fieldsIn = ({ selections }: SelectionSetNode): FieldNode[] =>
    selections.flatMap((selection) => {
      if (selection.kind === Kind.FIELD) return [selection]
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? fragments[selection.name.value]?.selectionSet
          : selection.selectionSet
      return inner ? fieldsIn(inner) : []
    })
  return fieldsIn(selectionSet)
}

function responseName({ alias, name }: FieldNode): string {
  return (alias ?? name).value
}

/** The key in the arguments of a field. */
function argumentOf(
  { arguments: given = [] }: FieldNode,
  { variableDefinitions = [] }: OperationDefinitionNode,
  variables: Variables,
): unknown {
  const value = given.find(({ name }) => name.value === ARGUMENT)?.value
  if (value?.kind === Kind.STRING) return value.value
  if (value?.kind !== Kind.VARIABLE) return undefined
  const name = value.name.value
  if (variables && Object.hasOwn(variables, name)) return variables[name]
  const definition = variableDefinitions.find(({ variable }) => variable.name.value === name)
  return definition?.defaultValue?.kind === Kind.STRING ? definition.defaultValue.value : undefined
}
