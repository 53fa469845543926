import { GraphQLError } from 'graphql'
import { errorCodes, NthError } from '../core/errors.ts'
import { refusedArgument } from './inputErrors.ts'

/**
 * Makes of any error one that a caller may see: expected ones with their code and details, the rest with
 * INTERNAL_SERVER_ERROR and nothing else.
 */
export function maskError(error: unknown): GraphQLError {
  const cause = innermost(error)
  const place = error instanceof GraphQLError ? { nodes: error.nodes ?? null, path: error.path ?? null } : {}
  if (cause instanceof NthError) {
    return new GraphQLError(cause.message, { ...place, originalError: cause, extensions: cause.extensions })
  }
  if (error instanceof GraphQLError && Object.hasOwn(errorCodes, String(error.extensions.code))) return error
  const argument = cause instanceof GraphQLError ? refusedArgument(cause) : undefined
  if (cause instanceof GraphQLError && argument !== undefined) {
    return new GraphQLError(cause.message, { ...place, extensions: { code: 'BAD_USER_INPUT', argument } })
  }
  // Yoga takes `unexpected` out again; it answers 500 where nothing was executed.
  const extensions = { code: 'INTERNAL_SERVER_ERROR', unexpected: true }
  return new GraphQLError('Something went wrong on our side; it was logged.', { ...place, extensions })
}

/** What an operator should see of an error: its cause, if it is none that callers are told by a code. */
export function faultIn(error: unknown): unknown {
  return maskError(error).extensions.code === 'INTERNAL_SERVER_ERROR' ? innermost(error) : undefined
}

function innermost(error: unknown): unknown {
  return error instanceof GraphQLError && error.originalError ? innermost(error.originalError) : error
}
