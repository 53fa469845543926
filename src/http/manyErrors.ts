import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Plugin } from 'graphql-yoga'

/** The most errors beneath the fields of an operation, each of which leaves something empty. Those fields' own are all told. */
const MAX_BENEATH = 200

/** Keeps the answer to an operation with very many errors short. */
export const manyErrors: Plugin = {
  onExecute() {
    return {
      onExecuteDone({ result, setResult }) {
        // There are no subscriptions, nor parts that come later.
        const { errors, ...rest } = result as ExecutionResult
        if (errors) setResult({ ...rest, errors: toldOf(errors) })
      },
    }
  },
}

/** The errors that are told. */
export function toldOf(errors: readonly GraphQLError[]): GraphQLError[] {
  return errors.filter(({ path }, index) => index < MAX_BENEATH || path?.length === 1)
}
