import { type ExecutionResult, type GraphQLError, getOperationAST, OperationTypeNode } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { AfterChange, placed } from './maskError.ts'

/**
 * Marks errors below the root fields of a mutation. Those fields are read after the change was committed, so such an
 * error must not report that nothing was done, or that the mutation may be retried.
 */
export const afterChange: Plugin = {
  onExecute({ args: { document, operationName } }) {
    if (getOperationAST(document, operationName)?.operation !== OperationTypeNode.MUTATION) return undefined
    return {
      onExecuteDone({ result, setResult }) {
        // A mutation has one result.
        const { errors, ...rest } = result as ExecutionResult
        if (errors) setResult({ ...rest, errors: errors.map(marked) })
      },
    }
  },
}

function marked(error: GraphQLError): GraphQLError {
  const isBeneath = (error.path?.length ?? 0) > 1
  return isBeneath
    ? placed(error, error.message, { extensions: {}, originalError: new AfterChange(error) })
    : error
}
