import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Plugin } from 'graphql-yoga'

/** Maximum errors below the root fields of an operation. Errors of root fields are all reported. */
const MAX_BENEATH = 200

/** Limits the number of errors in a response. */
export const manyErrors: Plugin = {
  onExecute() {
    return {
      onExecuteDone({ result, setResult }) {
        // There are no subscriptions and no incremental results.
        const { errors, ...rest } = result as ExecutionResult
        if (errors) setResult({ ...rest, errors: toldOf(errors) })
      },
    }
  },
}

/** The errors to report. */
export function toldOf(errors: readonly GraphQLError[]): GraphQLError[] {
  return errors.filter(({ path }, index) => index < MAX_BENEATH || path?.length === 1)
}
