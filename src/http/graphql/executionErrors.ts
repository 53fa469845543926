import { type ExecutionResult, type GraphQLError, getOperationAST, OperationTypeNode } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { located, ReadAfterChangeError } from './maskError.ts'

/** Maximum errors below the root fields of an operation. Errors of root fields are all reported. */
const MAX_BELOW = 200

/**
 * Limits the errors of a response, and marks those below the root fields of a mutation. Those fields are read after the
 * change was committed, so such an error must not report that nothing was done, or that the mutation may be retried.
 */
export const executionErrors: Plugin = {
  onExecute({ args: { document, operationName } }) {
    const isMutation = getOperationAST(document, operationName)?.operation === OperationTypeNode.MUTATION
    return {
      onExecuteDone({ result, setResult }) {
        // There are no subscriptions and no incremental results.
        const { errors, ...rest } = result as ExecutionResult
        if (!errors) return
        const reported = reportedErrors(errors)
        setResult({ ...rest, errors: isMutation ? reported.map(marked) : reported })
      },
    }
  },
}

export function reportedErrors(errors: readonly GraphQLError[]): GraphQLError[] {
  return errors.filter(({ path }, index) => index < MAX_BELOW || path?.length === 1)
}

function marked(error: GraphQLError): GraphQLError {
  const isBelow = (error.path?.length ?? 0) > 1
  return isBelow
    ? located(error, error.message, { extensions: {}, originalError: new ReadAfterChangeError(error) })
    : error
}
