import { type ExecutionResult, GraphQLError, type GraphQLErrorExtensions, getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { FieldError, type FieldErrorOptions, isGraphQLError, reportedErrors } from '../graphql/fieldError.ts'
import { type ErrorCode, type ErrorDetails, errorCodes, NthError } from '../rules/errors.ts'
import { rejectedArgument } from './graphql/documents/inputErrors.ts'

/** Statuses of the codes with which a whole request is refused; others are 400. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  RATE_LIMITED: 429,
  INTERNAL_SERVER_ERROR: 500,
  UNAVAILABLE: 503,
}

/**
 * Limits the errors of a response, and marks those below the root fields of a mutation. Those fields are read after the
 * change was committed, so such an error must not report that nothing was done, or that the mutation may be retried.
 */
export const executionErrors: Plugin = {
  onExecute({ args: { document, operationName } }) {
    const isMutation = getOperationAST(document, operationName)?.operation === 'mutation'
    return {
      onExecuteDone({ result, setResult }) {
        // There are no subscriptions and no incremental results.
        const { errors, ...rest } = result as ExecutionResult
        if (!errors) return
        const reported = reportedErrors(errors)
        setResult({ ...rest, errors: isMutation ? reported.map(readAfterChange) : reported })
      },
    }
  },
}

/** Converts any error to one that a caller may see: unexpected ones become INTERNAL_SERVER_ERROR and nothing else. */
export function maskError(error: unknown): GraphQLError {
  const cause = innermost(error)
  // Errors of graphql-jit may have no extensions.
  if (isGraphQLError(error) && Object.hasOwn(errorCodes, String(error.extensions?.code))) return error
  if (cause instanceof NthError) {
    return located(error, cause.message, { originalError: cause, extensions: cause.extensions })
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

/** The cause of an error, if an operator should see it; undefined for those that callers get with a code. */
export function faultIn(error: unknown): unknown {
  return maskError(error).extensions.code === 'INTERNAL_SERVER_ERROR' ? innermost(error) : undefined
}

/** An error below the root fields of a mutation in its final form: it only reports that the change was applied. */
function readAfterChange(error: GraphQLError): GraphQLError {
  const [, ...below] = error.path ?? []
  if (below.length === 0) return error
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
  const headers = {
    ...(status === 401 && { 'www-authenticate': 'Bearer realm="Nth"' }),
    ...(retryAfterMs !== undefined && { 'retry-after': String(Math.ceil(Number(retryAfterMs) / 1000)) }),
  }
  return { status, headers }
}

/** Creates the error for a request that isn't executed. */
export function requestError(
  status: number,
  code: ErrorCode,
  message: string,
  { headers = {}, ...details }: ErrorDetails & { headers?: Record<string, string> } = {},
): GraphQLError {
  return new GraphQLError(message, { extensions: { code, ...details, http: { status, headers } } })
}

function innermost(error: unknown): unknown {
  return isGraphQLError(error) && error.originalError ? innermost(error.originalError) : error
}
