import { GraphQLError } from 'graphql'
import { errorCodes, NthError } from '../../core/errors.ts'
import { FieldError, type FieldErrorOptions, isGraphQLError } from '../../graphql/fieldError.ts'
import { refusedArgument } from './inputErrors.ts'

/** An error below the root field of a mutation: the change itself was applied. */
export class AfterChange extends Error {
  readonly error: GraphQLError

  constructor(error: GraphQLError) {
    super(error.message, { cause: error })
    this.error = error
  }
}

/**
 * Converts any error to one that a caller may see: expected ones keep their code and details, all others become
 * INTERNAL_SERVER_ERROR and nothing else.
 */
export function maskError(error: unknown): GraphQLError {
  const cause = innermost(error)
  if (cause instanceof AfterChange) return afterChange(cause)
  if (isGraphQLError(error) && Object.hasOwn(errorCodes, String(error.extensions.code))) return error
  if (cause instanceof NthError) {
    return placed(error, cause.message, { originalError: cause, extensions: cause.extensions })
  }
  const argument = isGraphQLError(cause) ? refusedArgument(cause) : undefined
  if (isGraphQLError(cause) && argument !== undefined) {
    return placed(error, cause.message, { extensions: { code: 'BAD_USER_INPUT', argument } })
  }
  // If nothing was executed, Yoga responds 500 to `unexpected` errors, and removes that extension.
  const isExecuted = isGraphQLError(error) && error.path !== undefined
  const extensions = { code: 'INTERNAL_SERVER_ERROR', ...(!isExecuted && { unexpected: true }) }
  return placed(error, 'An internal error occurred; it was logged.', { extensions })
}

/** The cause of an error, if an operator should see it; undefined for those that callers get with a code. */
export function faultIn(error: unknown): unknown {
  if (maskError(error).extensions.code !== 'INTERNAL_SERVER_ERROR') return undefined
  const cause = innermost(error)
  return cause instanceof AfterChange ? innermost(cause.error) : cause
}

/** An error of a read below a change: it only reports that the change was applied. */
function afterChange({ error }: AfterChange): GraphQLError {
  const { message, extensions } = maskError(error)
  const { retryable, retryAfterMs: _, ...rest } = extensions
  const [, ...beneath] = error.path ?? []
  const place = `The change was applied, but \`${beneath.join('.')}\` could not be read`
  const told = retryable ? `${place} in time; read it in a query.` : `${place}: ${message}`
  return placed(error, told, { extensions: rest })
}

/** The content of an error, without its location. */
type Said = Pick<FieldErrorOptions, 'extensions' | 'originalError'>

/** Creates an error with the location of another one. */
export function placed(place: unknown, message: string, options: Said): GraphQLError {
  if (!isGraphQLError(place)) return new GraphQLError(message, options)
  const { path, locations, nodes } = place
  return path
    ? new FieldError(message, { path, locations, ...options })
    : new GraphQLError(message, { nodes: nodes ?? null, ...options })
}

function innermost(error: unknown): unknown {
  return isGraphQLError(error) && error.originalError ? innermost(error.originalError) : error
}
