import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  type GraphQLSchema,
  getOperationAST,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Access } from '../access/authentication.ts'
import { type CompiledOperation, type Documents, requestedOperation } from './documents/compiledOperations.ts'
import type { ServerContext } from './idempotencyHeader.ts'
import { requestError } from './requests.ts'

/** What executes subscriptions. `compiled`: the same operation, if it could be compiled. */
export interface Subscriber {
  /** Throws a GraphQLError if a stream with a document would be refused, whatever it selects. */
  checkRoom(document: DocumentNode, access: Partial<Access>): void
  subscribe(args: ExecutionArgs, compiled: CompiledOperation | undefined): Promise<ExecutionResult>
}

/** Executes subscriptions outside Yoga, whose own way is an execution for each client and event. */
export function subscriptions(
  schema: GraphQLSchema,
  cache: Documents,
  subscriber: Subscriber | undefined,
): Plugin<object, ServerContext> {
  return {
    onValidate({ params: { documentAST }, context }) {
      // Before it is validated, which takes ten times as long as to parse it. Yoga creates the context from the server's.
      const isSubscription = getOperationAST(documentAST)?.operation === 'subscription'
      if (isSubscription) subscriber?.checkRoom(documentAST, context as ServerContext)
    },

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
