import { type ExecutionArgs, type ExecutionResult, GraphQLError, getOperationAST } from 'graphql'
import { createYoga, type Plugin } from 'graphql-yoga'
import type { ErrorCode } from '../../core/errors.ts'
import type { Notices } from '../../core/notices.ts'
import type { Nth } from '../../core/nth.ts'
import type { Context } from '../../graphql/context.ts'
import { schema } from '../../graphql/schema.ts'
import { fragmentsOf, rootFields } from '../../graphql/selections.ts'
import type { LiveQueries } from '../live/liveQueries.ts'
import { createExecuteCompiled, executor } from './documents/compiledOperations.ts'
import { cachedDocuments, createDocumentCache } from './documents/documentCache.ts'
import { inputErrors } from './documents/inputErrors.ts'
import { createPersistedQueries } from './documents/persistedQueries.ts'
import { executionErrors, faultIn, maskError, requestError } from './errors.ts'
import { idempotencyHeader, idempotencyKeyIn, type ServerContext } from './idempotencyHeader.ts'
import { subscriptions } from './subscriptions.ts'

export interface ApiOptions {
  nth: Nth
  notices: Notices
  liveQueries: LiveQueries
}

export type Api = ReturnType<typeof createApi>

/** The GraphQL API: compiled operations, and Yoga for all others. Its server, with pages and limits, is not Yoga's. */
export function createApi({ nth, notices, liveQueries }: ApiOptions) {
  const cache = createDocumentCache(schema)

  /** The context of resolvers. */
  function createContext(server: ServerContext): Context {
    const { caller, takeChanges } = server
    return { nth, caller, takeChanges, idempotencyKey: idempotencyKeyIn(server) }
  }

  const yoga = createYoga<ServerContext>({
    schema,
    context: createContext,
    plugins: [
      requestNotes,
      mutationsByPost,
      cachedDocuments(cache),
      executor,
      inputErrors,
      introspectionRight,
      idempotencyHeader,
      executionErrors,
      rateLimited,
      subscriptions(schema, cache, liveQueries),
    ],
    // `cachedDocuments` has its own cache, bounded in memory.
    parserAndValidationCache: false,
    maskedErrors: { maskError },
    logging: {
      debug: () => undefined,
      info: () => undefined,
      warn: notices.fault,
      error: (error: unknown) => {
        const fault = faultIn(error)
        if (fault !== undefined) notices.fault(fault)
      },
    },
  })
  return {
    yoga,
    executeCompiled: createExecuteCompiled(schema, cache, createContext),
    persistedQueries: createPersistedQueries(cache),
  }
}

/** Notes the kind of operation. */
const requestNotes: Plugin<ServerContext> = {
  onExecute: ({ args }) => noteOperation(args),
  onSubscribe: ({ args }) => noteOperation(args),
}

function noteOperation({ document, operationName, contextValue }: ExecutionArgs): void {
  // Yoga creates it from the server's context.
  const { note } = contextValue as ServerContext
  const operation = getOperationAST(document, operationName)
  if (!operation) return
  note.operation = operation.operation
  note.operationName = operation.name?.value
}

/** Rejects mutations by GET, which a link could send. */
const mutationsByPost: Plugin<ServerContext> = {
  onParse() {
    return ({ result, context }) => {
      if (result instanceof Error || context.req.method === 'POST') return
      const operation = getOperationAST(result, context.params.operationName)?.operation
      if (operation !== 'mutation') return
      throw requestError(405, 'OPERATION_RESOLUTION_FAILURE', 'Mutations can only be sent by POST.', {
        headers: { Allow: 'POST' },
      })
    }
  },
}

/** Leaves introspection to callers who may do anything at all; the text of the schema is public. */
const introspectionRight: Plugin = {
  onExecute({ args }) {
    const { document, operationName, contextValue }: ExecutionArgs = args
    const operation = getOperationAST(document, operationName)
    // Created by `createContext`.
    const { caller } = contextValue as Context
    if (!operation || caller.grants.length > 0) return
    const fields = rootFields(operation.selectionSet, fragmentsOf(document))
    if (!fields.some(({ name }) => name.value === '__schema' || name.value === '__type')) return
    const message = 'Introspection requires an API key; the text of the schema is at /schema.graphql.'
    throw requestError(401, 'UNAUTHENTICATED', message, {
      headers: { 'WWW-Authenticate': 'Bearer realm="Nth"' },
    })
  },
}

/** Responds 429 to a request of which nothing was executed, because the caller has made too many changes. */
const rateLimited: Plugin = {
  onExecutionResult({ result, setResult }) {
    // There are no subscriptions, no incremental results and no batches.
    const { data, errors } = result as ExecutionResult
    if (!errors || !data) return
    const refused = errors.filter(
      ({ path, extensions }) =>
        path?.length === 1 && extensions?.code === ('RATE_LIMITED' satisfies ErrorCode),
    )
    if (refused.length === 0 || refused.length < Object.keys(data).length) return
    const pauseMs = Math.min(...refused.map(({ extensions }) => Number(extensions.retryAfterMs)))
    const http = { status: 429, headers: { 'retry-after': String(Math.ceil(pauseMs / 1000)) } }
    const unexecuted = refused.map(
      ({ message, path, extensions }) =>
        new GraphQLError(message, { path: path ?? null, extensions: { ...extensions, http } }),
    )
    setResult({ errors: unexecuted })
  },
}
