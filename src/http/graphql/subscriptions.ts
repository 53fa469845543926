import type { ExecutionArgs, ExecutionResult, GraphQLSchema } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { type CompiledOperation, type Documents, requestedOperation } from './documents/compiledOperations.ts'
import type { ServerContext } from './idempotencyHeader.ts'
import { requestError } from './requests.ts'

/** What executes subscriptions. `compiled`: the same operation, if it could be compiled. */
export interface Subscriber {
  subscribe(args: ExecutionArgs, compiled: CompiledOperation | undefined): Promise<ExecutionResult>
}

/** Executes subscriptions outside Yoga, whose own way is an execution for each client and event. */
export function subscriptions(
  schema: GraphQLSchema,
  cache: Documents,
  subscriber: Subscriber | undefined,
): Plugin<object, ServerContext> {
  return {
    onSubscribe({ args, setSubscribeFn }) {
      const { document, operationName, contextValue }: ExecutionArgs = args
      // Yoga creates it from the server's context.
      const { acceptsEvents } = contextValue as ServerContext
      if (!subscriber || !acceptsEvents) {
        const message =
          'The result of a subscription is a stream of events: send the header Accept: text/event-stream, and a body of application/json.'
        throw requestError(406, 'BAD_REQUEST', message)
      }
      const query = document.loc?.source.body
      const compiled = requestedOperation(schema, cache, {
        ...(query && { query }),
        ...(operationName && { operationName }),
      })
      setSubscribeFn((args: ExecutionArgs) => subscriber.subscribe(args, compiled))
    },
  }
}
