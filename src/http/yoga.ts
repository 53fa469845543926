import { type ExecutionArgs, type ExecutionResult, execute, getOperationAST } from 'graphql'
import { createYoga, type GraphQLParams, type Plugin } from 'graphql-yoga'
import type { Context } from '../graphql/context.ts'
import { schema } from '../graphql/schema.ts'
import { fieldsIn, fragmentsOf, roomForArguments } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { assertInvariant } from '../rules/errors.ts'
import { cachedDocuments, createDocumentCache, type DocumentCache } from './documents.ts'
import { assertVariables, finalResult, HttpError, maskError, methodError, reportFault } from './errors.ts'
import type { LiveQueries } from './liveQueries.ts'
import { openPersistedQueries } from './parameters.ts'
import { assertKeyHeader, contextOf, idempotencyKeyIn, type ServerContext } from './requests.ts'

export interface ApiOptions extends Pick<Context, 'nth' | 'gate'> {
  notices: Notices
  liveQueries: LiveQueries
  /** Whether all but administrators may run trusted documents only. */
  trustedOnly: boolean
}

export type Api = ReturnType<typeof createApi>

/** The GraphQL API: compiled operations, and Yoga for all others. Its server, with pages and limits, is not Yoga's. */
export function createApi({ nth, gate, notices, liveQueries, trustedOnly }: ApiOptions) {
  const cache = createDocumentCache(schema)

  function createContext(server: ServerContext): Context {
    const { caller, owner, takeChanges, cost, note } = server
    return { nth, caller, owner, gate, takeChanges, cost, note, idempotencyKey: idempotencyKeyIn(server) }
  }

  const yoga = createYoga<ServerContext>({
    schema,
    context: createContext,
    plugins: [cachedDocuments(cache), operations(cache, liveQueries, notices)],
    // `cachedDocuments` has its own cache, bounded in memory.
    parserAndValidationCache: false,
    maskedErrors: { maskError },
    logging: {
      debug: () => undefined,
      info: () => undefined,
      warn: notices.fault,
      error: (error: unknown) => reportFault(error, notices),
    },
  })
  /**
   * Executes the operation of a cached document as compiled code. Returns undefined for a request that it can't execute,
   * and a result without data if its variables are rejected: Yoga finds out why.
   */
  function executeCompiled(params: GraphQLParams, server: ServerContext) {
    const operation = cache.compiled(params.query, params.operationName)
    // Subscriptions are executed for each event.
    if (!operation || operation.type === 'subscription') return undefined
    const { req, note } = server
    // Whether the header is allowed depends on the document.
    if (operation.type === 'mutation' && (req.method !== 'POST' || idempotencyKeyIn(server) !== undefined))
      return undefined
    note.operation = operation.type
    note.operationName = operation.name
    const fields = operation.rootFields
    const room =
      fields > 1 ? roomForArguments({ gate, owner: server.owner }, fields, server.variablesLength) : undefined
    if (room) return room.then(() => operation.execute(createContext(server), params.variables))
    return operation.execute(createContext(server), params.variables)
  }

  const persistedQueries = openPersistedQueries({ cache, trusted: nth.trustedDocuments, trustedOnly })
  return { yoga, cache, executeCompiled, persistedQueries }
}

/**
 * Checks and executes operations that were not executed as compiled code; subscriptions outside Yoga, whose own way is an
 * execution for each client and event.
 */
function operations(cache: DocumentCache, liveQueries: LiveQueries, notices: Notices): Plugin<ServerContext> {
  return {
    async onExecute({ args, setExecuteFn }) {
      const { operation, fields } = noted(args)
      const context = contextOf(args)
      const { req, caller, variablesLength, isOnSocket } = context
      const isMutation = operation.operation === 'mutation'
      if (isOnSocket) throw new HttpError(405, 'OPERATION_RESOLUTION_FAILURE', ONLY_SUBSCRIPTIONS)
      // A link could send it.
      if (isMutation && req.method !== 'POST')
        throw methodError('POST', 'Mutations can only be sent by POST.', 'OPERATION_RESOLUTION_FAILURE')
      assertVariables(args, operation)
      // The text of the schema is public.
      if (caller.grants.length === 0 && fields.some(({ name }) => INTROSPECTION.includes(name.value)))
        throw new HttpError(401, 'UNAUTHENTICATED', NO_INTROSPECTION)
      if (isMutation) assertKeyHeader(args, operation, fields)
      if (fields.length > 1) await roomForArguments(context, fields.length, variablesLength)
      // Yoga's own executor treats a result with a field named "then" as a promise.
      setExecuteFn(execute)
      return {
        onExecuteDone({ result, setResult }) {
          // There are no incremental results.
          setResult(finalResult(result as ExecutionResult, isMutation, notices))
        },
      }
    },

    onSubscribe({ args, setSubscribeFn }) {
      const { operation } = noted(args)
      const { openStream, isOnSocket } = contextOf(args)
      const responseStream = openStream?.()
      if (!responseStream && !isOnSocket) {
        const message =
          'The result of a subscription is a stream: open a WebSocket, or send the header Accept: text/event-stream, or multipart/mixed;subscriptionSpec=1.0.'
        throw new HttpError(406, 'BAD_REQUEST', message)
      }
      assertVariables(args, operation)
      const compiled = cache.compiled(args.document.loc?.source.body, args.operationName)
      setSubscribeFn((args: ExecutionArgs) => liveQueries.subscribe(args, compiled, responseStream))
    },
  }
}

const ONLY_SUBSCRIPTIONS =
  'A WebSocket is for subscriptions. Send queries and mutations as POST to the same address.'
const INTROSPECTION = ['__schema', '__type']
const NO_INTROSPECTION = 'Introspection requires an API key; the text of the schema is at /schema.graphql.'

/** The operation of a request, which is noted, and its root fields. */
function noted(args: ExecutionArgs) {
  const { document, operationName } = args
  const operation = getOperationAST(document, operationName)
  assertInvariant(operation != null, 'Yoga executes only operations that it has found')
  const { note } = contextOf(args)
  note.operation = operation.operation
  note.operationName = operation.name?.value
  return { operation, fields: fieldsIn(operation.selectionSet, fragmentsOf(document)) }
}
