import { type ExecutionResult, GraphQLError, getOperationAST, OperationTypeNode } from 'graphql'
import type { Plugin } from 'graphql-yoga'

/** What failed beneath the field of a mutation: the change itself was made. */
export class AfterChange extends Error {
  readonly error: GraphQLError

  constructor(error: GraphQLError) {
    super(error.message, { cause: error })
    this.error = error
  }
}

/**
 * Tells errors beneath a mutation's fields from those of the fields themselves. What lies beneath is read when the
 * change has been committed: so such an error must not say that nothing was done, or that the mutation may be sent again.
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
  const { message, nodes, path = [] } = error
  if (path.length < 2) return error
  return new GraphQLError(message, { nodes: nodes ?? null, path, originalError: new AfterChange(error) })
}
