import { GraphQLError, type GraphQLErrorOptions } from 'graphql'
import { errorCodes, NthError } from '../core/errors.ts'
import { refusedArgument } from './inputErrors.ts'

/** What failed beneath the field of a mutation: the change itself was made. */
export class AfterChange extends Error {
  readonly error: GraphQLError

  constructor(error: GraphQLError) {
    super(error.message, { cause: error })
    this.error = error
  }
}

/**
 * Makes of any error one that a caller may see: expected ones with their code and details, the rest with
 * INTERNAL_SERVER_ERROR and nothing else.
 */
export function maskError(error: unknown): GraphQLError {
  const cause = innermost(error)
  if (cause instanceof AfterChange) return afterChange(cause)
  if (cause instanceof NthError) {
    return placed(error, cause.message, { originalError: cause, extensions: cause.extensions })
  }
  if (error instanceof GraphQLError && Object.hasOwn(errorCodes, String(error.extensions.code))) return error
  const argument = cause instanceof GraphQLError ? refusedArgument(cause) : undefined
  if (cause instanceof GraphQLError && argument !== undefined) {
    return placed(error, cause.message, { extensions: { code: 'BAD_USER_INPUT', argument } })
  }
  // Yoga takes `unexpected` out again; it answers 500 where nothing was executed.
  const extensions = { code: 'INTERNAL_SERVER_ERROR', unexpected: true }
  return placed(error, 'Something went wrong on our side; it was logged.', { extensions })
}

/** What an operator should see of an error: its cause, if it is none that callers are told by a code. */
export function faultIn(error: unknown): unknown {
  if (maskError(error).extensions.code !== 'INTERNAL_SERVER_ERROR') return undefined
  const cause = innermost(error)
  return cause instanceof AfterChange ? innermost(cause.error) : cause
}

/** An error of what was read beneath a change: it says nothing of the change but that it stands. */
function afterChange({ error }: AfterChange): GraphQLError {
  const { message, extensions } = maskError(error)
  const { retryable, retryAfterMs: _, ...rest } = extensions
  const [, ...beneath] = error.path ?? []
  const place = `The change was made and stands, but \`${beneath.join('.')}\` could not be read`
  const told = retryable ? `${place} in time; ask for it in a query.` : `${place}: ${message}`
  return placed(error, told, { extensions: rest })
}

/** Makes an error that stands where another one does. */
export function placed(place: unknown, message: string, options: GraphQLErrorOptions): GraphQLError {
  if (!(place instanceof GraphQLError)) return new GraphQLError(message, options)
  return new GraphQLError(message, { nodes: place.nodes ?? null, path: place.path ?? null, ...options })
}

function innermost(error: unknown): unknown {
  return error instanceof GraphQLError && error.originalError ? innermost(error.originalError) : error
}
