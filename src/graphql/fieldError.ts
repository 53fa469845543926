import {
  defaultFieldResolver,
  GraphQLError,
  type GraphQLErrorExtensions,
  type GraphQLResolveInfo,
  responsePathAsArray,
  type SourceLocation,
} from 'graphql'
import { NthError } from '../rules/errors.ts'
import type { Context, Field, Resolver } from './context.ts'

export type FieldErrorOptions = Pick<FieldError, 'path' | 'extensions'> &
  Partial<Pick<FieldError, 'locations' | 'originalError'>>

/**
 * A field error in its final form. An operation may have thousands, so it is created once and cheap: it has no stack.
 * graphql-js passes it on because it has a path, and Yoga because it isn't an instance of GraphQLError.
 */
export class FieldError extends Error implements GraphQLError {
  override readonly name = 'FieldError'
  declare readonly path: readonly (string | number)[]
  declare readonly extensions: GraphQLErrorExtensions
  declare readonly locations: readonly SourceLocation[] | undefined
  declare readonly originalError: Error | undefined
  readonly nodes = undefined
  readonly source = undefined
  readonly positions = undefined

  constructor(message: string, options: FieldErrorOptions) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message)
    Error.stackTraceLimit = stackTraceLimit
    Object.assign(this, options)
  }

  get [Symbol.toStringTag](): string {
    return this.name
  }

  toJSON() {
    const { message, locations, path, extensions } = this
    return { message, ...(locations && { locations }), path, extensions }
  }
}

/** Maximum errors below the root fields of an operation. Errors of root fields are all reported. */
export const MAX_ERRORS_BELOW = 200

/**
 * Stands for each error beyond that limit: the items of a list may have thousands, which nobody gets to see. A nullable
 * field is just null then, as the executor wraps each error that it gets.
 */
const UNREPORTED = new FieldError('Too many errors', { path: [], extensions: {} })

/** The errors of a result that its response has. */
export function reportedErrors(errors: readonly GraphQLError[]): GraphQLError[] {
  return errors.filter(
    (error, index) =>
      error !== UNREPORTED &&
      error.originalError !== UNREPORTED &&
      (index < MAX_ERRORS_BELOW || error.path?.length === 1),
  )
}

/** Whether an error has the shape of a GraphQLError, with a location if it has one. */
export function isGraphQLError(error: unknown): error is GraphQLError {
  return error instanceof GraphQLError || error instanceof FieldError
}

/**
 * Wraps a resolver so that it throws expected errors as `FieldError`, if its field takes arguments or is nullable. The
 * other fields can be very many in a response and rarely fail; the executor converts their errors.
 */
export function locating({ args, type: { nullable } }: Field, resolve: Resolver): Resolver {
  if (resolve === defaultFieldResolver || (Object.keys(args).length === 0 && !nullable)) return resolve
  return (parent, args, context, info) => {
    try {
      const result = resolve(parent, args, context, info)
      if (!(result instanceof Promise)) return result
      return result.catch((error) => nullOr(located(error, context, info)))
    } catch (error) {
      return nullOr(located(error, context, info))
    }
  }

  function nullOr(error: unknown): null {
    if (error === UNREPORTED && nullable) return null
    throw error
  }
}

/** An expected error in its final form, at its place. */
export function located(
  error: unknown,
  context: Context,
  { path, fieldNodes }: Pick<GraphQLResolveInfo, 'path' | 'fieldNodes'>,
): unknown {
  if (!(error instanceof NthError)) return error
  if (path.prev) {
    context.errorsBelow = (context.errorsBelow ?? 0) + 1
    if (context.errorsBelow > MAX_ERRORS_BELOW) return UNREPORTED
  }
  return new FieldError(error.message, {
    path: responsePathAsArray(path),
    extensions: error.extensions,
    // From the token of each field: graphql-js would search for it from the start of the document.
    locations: fieldNodes.flatMap(({ loc }) =>
      loc ? [{ line: loc.startToken.line, column: loc.startToken.column }] : [],
    ),
    originalError: error,
  })
}
