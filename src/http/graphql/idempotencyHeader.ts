import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ExecutionArgs,
  type FieldNode,
  getOperationAST,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  valueFromASTUntyped,
} from 'graphql'
import type { Plugin, YogaInitialContext } from 'graphql-yoga'
import { keyFault } from '../../core/idempotency.ts'
import type { Fault } from '../../core/names.ts'
import { type Fragments, fragmentsOf, responseName, selectionSetOf } from '../../graphql/selections.ts'
import { requestError } from './requests.ts'

const HEADER = 'idempotency-key'
const ARGUMENT = 'idempotencyKey'

/** A quoted string of a structured field; parameters after it are ignored. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"\s*(?:;.*)?$/

/** Yoga's context for a request from Node's server. */
export interface ServerContext {
  req?: IncomingMessage
  res?: ServerResponse
}

/** The key in a request's header, without the quotes of a structured field. */
export function idempotencyKeyIn({ req }: ServerContext, { headers }: Request): string | undefined {
  // Node's headers: converting them to the web's would cost every request, with and without a key, a microsecond.
  const text = req ? req.headers[HEADER] : headers.get(HEADER)
  if (typeof text !== 'string') return undefined
  return QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1') ?? text
}

/** Rejects a mutation, before it is executed, if it isn't clear what its key is for. Queries ignore the header. */
export const idempotencyHeader: Plugin<object, ServerContext> = {
  onExecute({ args }) {
    // Yoga creates it from the server's context.
    const context = args.contextValue as ServerContext & YogaInitialContext
    const key = idempotencyKeyIn(context, context.request)
    if (key === undefined) return
    const operation = getOperationAST(args.document, args.operationName)
    if (operation?.operation !== 'mutation') return
    const times = context.req?.headersDistinct[HEADER]?.length ?? 1
    const fault =
      times > 1
        ? { message: 'The header Idempotency-Key was sent more than once.' }
        : faultOf(key, operation, args)
    if (!fault) return
    const { message, ...details } = fault
    throw requestError(400, 'BAD_USER_INPUT', message, { argument: ARGUMENT, ...details })
  },
}

function faultOf(
  key: string,
  operation: OperationDefinitionNode,
  { schema, document, variableValues }: ExecutionArgs,
): Fault | undefined {
  const fault = keyFault(key)
  if (fault) return { ...fault, message: `The header Idempotency-Key ${fault.message}.` }
  const fields = fieldsIn(operation.selectionSet, fragmentsOf(document))
  if (new Set(fields.map(responseName)).size !== 1) {
    const advice = 'Use the argument idempotencyKey of each field.'
    return { message: `The header Idempotency-Key requires an operation with one field. ${advice}` }
  }
  const defaults = operation.variableDefinitions?.map(
    ({ variable, defaultValue }) =>
      [variable.name.value, defaultValue && valueFromASTUntyped(defaultValue)] as const,
  )
  // As sent, not coerced.
  const variables = { ...Object.fromEntries(defaults ?? []), ...variableValues }
  const given = fields.flatMap((field) => field.arguments ?? []).filter(({ name }) => name.value === ARGUMENT)
  if (given.some(({ value }) => (valueFromASTUntyped(value, variables) ?? key) !== key)) {
    const message = 'The header Idempotency-Key and the argument idempotencyKey differ; send one of them.'
    return { message }
  }
  // A key that is ignored must not seem to make a retry safe.
  const mutations = schema.getMutationType()?.getFields() ?? {}
  const names = fields.map(({ name }) => name.value)
  const keyless = names.find((name) => !mutations[name]?.args.some((arg) => arg.name === ARGUMENT))
  if (keyless === undefined) return undefined
  return { message: `${keyless} takes no idempotency key; send it without the header Idempotency-Key.` }
}

function fieldsIn(selectionSet: SelectionSetNode | undefined, fragments: Fragments): FieldNode[] {
  return (selectionSet?.selections ?? []).flatMap((selection) =>
    selection.kind === Kind.FIELD ? [selection] : fieldsIn(selectionSetOf(selection, fragments), fragments),
  )
}
