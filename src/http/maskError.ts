import { GraphQLError } from 'graphql'
import { errorCodes, NthError } from '../core/errors.ts'
import { FieldError, type FieldErrorOptions, isGraphQLError } from '../graphql/fieldError.ts'
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
  if (isGraphQLError(error) && Object.hasOwn(errorCodes, String(error.extensions.code))) return error
  if (cause instanceof NthError) {
    return placed(error, cause.message, { originalError: cause, extensions: cause.extensions })
  }
  const argument = isGraphQLError(cause) ? refusedArgument(cause) : undefined
  if (isGraphQLError(cause) && argument !== undefined) {
    return placed(error, cause.message, { extensions: { code: 'BAD_USER_INPUT', argument } })
  }
  // Where nothing was executed Yoga answers 500 for what is unexpected, and takes that word out again.
  const isExecuted = isGraphQLError(error) && error.path !== undefined
  const extensions = { code: 'INTERNAL_SERVER_ERROR', ...(!isExecuted && { unexpected: true }) }
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

/** What an error says, wherever it stands. */
type Said = Pick<FieldErrorOptions, 'extensions' | 'originalError'>

/** Makes an error that stands where another one does. */
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
