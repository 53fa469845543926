import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ArgumentNode,
  type ASTNode,
  type DirectiveNode,
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  GraphQLError,
  type GraphQLErrorExtensions,
  isValueNode,
  Kind,
  type ObjectFieldNode,
  type OperationDefinitionNode,
  type ValueNode,
  type VariableDefinitionNode,
  visit,
} from 'graphql'
import { FieldError, type FieldErrorOptions, isGraphQLError, reportedErrors } from '../graphql/fieldError.ts'
import { ER, hasErrorNumber } from '../mysql/errors.ts'
import type { Notices } from '../operations/log.ts'
import { refusalMeasure } from '../operations/measures.ts'
import { type ErrorCode, errorCodes, NthError, unavailable } from '../rules/errors.ts'
import type { Fault } from '../rules/names.ts'
import { createVariableCheck } from './variables.ts'

/** Names and values of headers, alternating. */
export type HeaderList = readonly string[]

/** Why a request is rejected before an operation is executed, with the status and headers of the response. */
export class HttpError extends NthError {
  readonly status: number
  readonly headers: Record<string, string>

  constructor(status: number, ...error: ConstructorParameters<typeof NthError>) {
    super(...error)
    this.status = status
    this.headers = headersFor(status, this.details.retryAfterMs)
  }
}

function headersFor(status: number, retryAfterMs?: number): Record<string, string> {
  return {
    ...(status === 401 && { 'www-authenticate': 'Bearer realm="Nth"' }),
    ...(retryAfterMs !== undefined && { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }),
  }
}

/** The error for a request of another method than those in the header Allow. */
export function methodError(allowed: string, message: string, code: ErrorCode = 'BAD_REQUEST'): HttpError {
  const error = new HttpError(405, code, message)
  error.headers.allow = allowed
  return error
}

/** The error for a request that is rejected as a whole, with the status of its code. */
export function httpErrorFor({ code, message, details, cause }: NthError): HttpError {
  return new HttpError(STATUSES[code] ?? 400, code, message, details, { cause })
}

/** Throws an error again, with a status if it is one of ours: the request is rejected as a whole. */
export function rejectRequest(error: unknown): never {
  throw error instanceof NthError && !(error instanceof HttpError) ? httpErrorFor(error) : error
}

/** The error 401 for credentials that are unknown, expired or malformed, all with the same text. The log has the cause. */
export function invalidCredential(cause?: unknown): HttpError {
  const message =
    'The credentials are not valid: unknown, expired or revoked. Send an API key as "Authorization: Bearer nth_…".'
  const error = new HttpError(401, 'UNAUTHENTICATED', message, {}, { cause })
  error.headers['www-authenticate'] += ', error="invalid_token"'
  return error
}

/** The error 503: the request was not executed. */
export function serviceUnavailable(message: string): HttpError {
  return httpErrorFor(unavailable(message))
}

/** The error for a request that arrives when those in flight use all the memory they may. */
export function overloaded(): HttpError {
  refusalMeasure.publish('memory')
  return serviceUnavailable(
    'The requests in flight use all the memory that they may; this one was not executed. Try again in a moment.',
  )
}

/** On every response with an error: a cache must not give it to others, or later. By its status it might store it. */
export const NOT_CACHED = ['cache-control', 'no-store'] as const

/** Sets headers for code that doesn't get them as a list. */
export function withHeaders(response: ServerResponse, headers: HeaderList): ServerResponse {
  for (let index = 0; index + 1 < headers.length; index += 2) {
    response.setHeader(String(headers[index]), String(headers[index + 1]))
  }
  return response
}

export function isWrite({ method }: IncomingMessage): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

/** Answers a write to what can only be read. */
export function rejectWrite(response: ServerResponse, path: string): void {
  sendError(response, methodError('GET, HEAD', `${path} is read-only; use GET or HEAD.`))
}

export function sendText(response: ServerResponse, type: string, text: string, status = 200, headers = {}) {
  response.writeHead(status, { ...headers, 'content-type': type, 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

/** Sends an error in the form of GraphQL's own errors. */
export function sendError(response: ServerResponse, error: HttpError, type = 'application/json'): void {
  const { status, headers, message, extensions } = error
  const text = `${JSON.stringify({ errors: [{ message, extensions }] })}\n`
  // The rest of the request may still arrive.
  if (status === 408) response.shouldKeepAlive = false
  response.setHeader(...NOT_CACHED)
  sendText(response, `${type}; charset=utf-8`, text, status, headers)
}

/** Statuses of the codes with which a whole request is refused; others are 400. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  DOCUMENT_NOT_TRUSTED: 403,
  RATE_LIMITED: 429,
  INTERNAL_SERVER_ERROR: 500,
  UNAVAILABLE: 503,
}

/**
 * A result as its caller gets it: unexpected errors are reported to the operator, and only so many others are left. Errors
 * below the root fields of a mutation are marked: such fields are read after the change was committed, so such an error
 * must not say that nothing was done, or that the mutation may be retried.
 */
export function finalResult(
  { errors, ...rest }: ExecutionResult,
  isMutation: boolean,
  notices: Notices,
): ExecutionResult {
  if (!errors) return rest
  // Compiled code wraps errors that are already located.
  const reported = reportedErrors(errors).map((error) =>
    error.originalError instanceof FieldError ? error.originalError : error,
  )
  for (const error of reported) reportFault(error, notices)
  const refused = reported.filter(isRateLimited)
  if (rest.data && refused.length >= Object.keys(rest.data).length) return tooManyChanges(refused)
  return { ...rest, errors: reported.map(isMutation ? readAfterChange : maskError) }
}

/** Whether a root field was refused, because the caller has made too many changes. */
function isRateLimited({ path, extensions }: GraphQLError): boolean {
  // Errors of graphql-jit may have no extensions.
  return path?.length === 1 && extensions?.code === ('RATE_LIMITED' satisfies ErrorCode)
}

/** The result of a request of which nothing was executed: its status is 429. */
function tooManyChanges(refused: readonly GraphQLError[]): ExecutionResult {
  const retryAfterMs = Math.min(...refused.map(({ extensions }) => Number(extensions.retryAfterMs)))
  const http = httpOf({ code: 'RATE_LIMITED', retryAfterMs })
  const errors = refused.map(
    ({ message, path, extensions }) =>
      new GraphQLError(message, { path: path ?? null, extensions: { ...extensions, http } }),
  )
  return { errors }
}

/** Converts any error to one that a caller may see: unexpected ones become INTERNAL_SERVER_ERROR and nothing else. */
export function maskError(error: unknown): GraphQLError {
  const root = innermost(error)
  const cause = isDatabaseFault(root) ? unavailable('The database refuses to read this.', root) : root
  // Errors of graphql-jit may have no extensions.
  if (isGraphQLError(error) && Object.hasOwn(errorCodes, String(error.extensions?.code))) return error
  if (cause instanceof NthError) {
    const http = cause instanceof HttpError && { http: { status: cause.status, headers: cause.headers } }
    const extensions = { ...cause.extensions, ...http }
    return located(error, cause.message, { originalError: cause, extensions })
  }
  const argument = isGraphQLError(cause) ? rejectedArgument(cause) : undefined
  if (isGraphQLError(cause) && argument !== undefined) {
    return located(error, cause.message, { extensions: { code: 'BAD_USER_INPUT', argument } })
  }
  // If nothing was executed, Yoga responds 500 to `unexpected` errors, and removes that extension.
  const isExecuted = isGraphQLError(error) && error.path !== undefined
  const extensions = { code: 'INTERNAL_SERVER_ERROR', ...(!isExecuted && { unexpected: true }) }
  return located(error, 'An internal error occurred; it was logged.', { extensions })
}

/** Reports the cause of an error to the operator, unless callers get it with a code; and what is wrong with the database. */
export function reportFault(error: unknown, notices: Notices): void {
  const cause = innermost(error)
  const isUnexpected = maskError(error).extensions.code === 'INTERNAL_SERVER_ERROR'
  if (isUnexpected || isDatabaseFault(cause)) notices.fault(cause)
}

/** Whether a table is missing, or may not be read: no defect of Nth, and nothing that a caller can change. */
function isDatabaseFault(cause: unknown): boolean {
  return hasErrorNumber(cause, ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR)
}

/** An error below the root fields of a mutation in its final form: it only reports that the change was applied. */
function readAfterChange(error: GraphQLError): GraphQLError {
  const [, ...below] = error.path ?? []
  if (below.length === 0) return maskError(error)
  const { message, extensions } = maskError(error)
  const { retryable, retryAfterMs: _, ...rest } = extensions
  const prefix = `The change was applied, but \`${below.join('.')}\` could not be read`
  const text = retryable ? `${prefix} in time; read it in a query.` : `${prefix}: ${message}`
  return located(error, text, { extensions: rest, originalError: error })
}

/** Creates an error at the location of another one. */
function located(other: unknown, message: string, options: Omit<FieldErrorOptions, 'path'>): GraphQLError {
  if (!isGraphQLError(other)) return new GraphQLError(message, options)
  const { path, locations, nodes } = other
  if (path) return new FieldError(message, { path, locations, ...options })
  return new GraphQLError(message, { nodes: nodes ?? null, ...options })
}

/** Status and headers of the response to a request of which nothing was executed, for the extensions of its error. */
export function httpOf({ code, retryAfterMs }: GraphQLErrorExtensions) {
  const status = STATUSES[code as ErrorCode] ?? 400
  // An NthError has it in its details.
  return { status, headers: headersFor(status, retryAfterMs as number | undefined) }
}

function innermost(error: unknown): unknown {
  return isGraphQLError(error) && error.originalError ? innermost(error.originalError) : error
}

/** Adds BAD_USER_INPUT and the argument to the errors of validation about values of the wrong type. */
export function withArguments(document: DocumentNode, errors: readonly GraphQLError[]) {
  const paths = argumentPaths(document)
  for (const error of errors) {
    const [node] = error.nodes ?? []
    if (node && isValue(node)) mark(error, paths.get(node))
  }
  return errors
}

/**
 * Checks the variables of an operation.
 *
 * @throws {GraphQLError} BAD_USER_INPUT, with the first argument that a wrong variable is used for
 */
export function assertVariables(args: ExecutionArgs, operation: OperationDefinitionNode): void {
  if (!operation.variableDefinitions?.length) return
  const fault =
    createVariableCheck(args.schema, operation)(args.variableValues) ?? nullCondition(args, operation)
  if (!fault) return
  const { definition, path = [], message, limit } = fault
  const name = definition.variable.name.value
  const uses = [...argumentPaths(args.document)]
  const [, argument = name] =
    uses.find(([node]) => node.kind === Kind.VARIABLE && node.name.value === name) ?? []
  const fullPath = [argument, ...path].join('.')
  const extensions = limit === undefined ? {} : { limit }
  const error = new GraphQLError(`Argument "${fullPath}" ${message}.`, { nodes: definition, extensions })
  mark(error, fullPath)
  throw error
}

/**
 * A variable with a default may be used where null is not allowed. In `@include` or `@skip`, its null would be found only
 * when the selection is read: in a mutation, after the change.
 */
function nullCondition(
  { document, variableValues }: ExecutionArgs,
  operation: OperationDefinitionNode,
): (Fault & { definition: VariableDefinitionNode }) | undefined {
  const isNull = ({ variable, defaultValue }: VariableDefinitionNode) =>
    defaultValue !== undefined && variableValues?.[variable.name.value] === null
  const nulls = operation.variableDefinitions?.filter(isNull) ?? []
  let definition: VariableDefinitionNode | undefined
  const find = ({ arguments: given = [] }: DirectiveNode) => {
    for (const { value } of given)
      definition ??= nulls.find(
        ({ variable }) => value.kind === Kind.VARIABLE && value.name.value === variable.name.value,
      )
  }
  const enter = (other: OperationDefinitionNode) => (other === operation ? undefined : false)
  if (nulls.length > 0) visit(document, { Directive: find, OperationDefinition: enter })
  return definition && { definition, message: 'must be true or false, not null' }
}

/** The argument that was rejected because its variable is null. */
function rejectedArgument({ nodes, message }: GraphQLError): string | undefined {
  const [node] = nodes ?? []
  return node && isValue(node) ? /^Argument "(\w+)"/.exec(message)?.[1] : undefined
}

function isValue(node: ASTNode): boolean {
  return isValueNode(node) || node.kind === Kind.OBJECT_FIELD
}

function mark(error: GraphQLError, argument: string | undefined): void {
  Object.assign(error.extensions, {
    code: 'BAD_USER_INPUT',
    ...(argument !== undefined && { argument }),
    // Not executed: 400, or 200 for clients that only accept `application/json`.
    http: { spec: true, status: 400 },
  })
}

/** The paths of all values, each starting with its argument: `changes.3.delta`. */
function argumentPaths(document: DocumentNode): Map<ASTNode, string> {
  const paths = new Map<ASTNode, string>()

  function add(node: ArgumentNode | ObjectFieldNode | ValueNode, path: string): void {
    paths.set(node, path)
    if ('value' in node && typeof node.value === 'object') add(node.value, path)
    if (node.kind === Kind.LIST)
      for (const [index, item] of node.values.entries()) add(item, `${path}.${index}`)
    if (node.kind === Kind.OBJECT) for (const field of node.fields) add(field, `${path}.${field.name.value}`)
  }

  visit(document, { Argument: (argument) => add(argument, argument.name.value) })
  return paths
}
