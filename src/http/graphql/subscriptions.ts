import { type ExecutionArgs, getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { LiveQueries } from '../live/liveQueries.ts'
import type { DocumentCache } from './documents/documentCache.ts'
import { requestError } from './errors.ts'
import type { ServerContext } from './idempotencyHeader.ts'

/** Executes subscriptions outside Yoga, whose own way is an execution for each client and event. */
export function subscriptions(cache: DocumentCache, liveQueries: LiveQueries): Plugin<ServerContext> {
  return {
    onValidate({ params: { documentAST }, context }) {
      // Before it is validated, which takes ten times as long as to parse it.
      const isSubscription = getOperationAST(documentAST)?.operation === 'subscription'
      if (isSubscription) liveQueries.checkRoom(documentAST, context)
    },

    onSubscribe({ args, setSubscribeFn }) {
      const { document, operationName, contextValue }: ExecutionArgs = args
      // Yoga creates it from the server's context.
      const { acceptsEvents } = contextValue as ServerContext
      if (!acceptsEvents) {
        const message =
          'The result of a subscription is a stream of events: send the header Accept: text/event-stream.'
        throw requestError(406, 'BAD_REQUEST', message)
      }
      const query = document.loc?.source.body
      const compiled = cache.compiled({
        ...(query && { query }),
        ...(operationName && { operationName }),
      })
      setSubscribeFn((args: ExecutionArgs) => liveQueries.subscribe(args, compiled))
    },
  }
}
