import { createYoga } from 'graphql-yoga'
import { anonymous } from '../../core/access/caller.ts'
import type { Notices } from '../../core/notices.ts'
import type { Nth } from '../../core/nth.ts'
import type { Context } from '../../graphql/context.ts'
import { schema } from '../../graphql/schema.ts'
import type { Reserve } from '../connections/connections.ts'
import { createCompiledOperations } from './documents/compiledOperations.ts'
import { cachedDocuments, createDocumentCache } from './documents/documentCache.ts'
import { inputErrors } from './documents/inputErrors.ts'
import { persistedQueries } from './documents/persistedQueries.ts'
import { executionErrors, faultIn, maskError } from './errors.ts'
import { idempotencyHeader, idempotencyKeyIn, type ServerContext } from './idempotencyHeader.ts'
import { introspectionRight } from './introspectionRight.ts'
import { rateLimited } from './rateLimited.ts'
import { requestNotes } from './requestNotes.ts'
import { requests } from './requests.ts'
import { responses } from './responses.ts'
import { type Subscriber, subscriptions } from './subscriptions.ts'

export interface ApiOptions {
  nth: Nth
  notices: Notices
  /** Executes subscriptions. Default: there are none. */
  liveQueries?: Subscriber
  /** Reserves memory for a document whose text was not in its request. Default: there always is enough. */
  reserve?: Reserve
}

/** The GraphQL endpoint. */
export function createApi({ nth, notices, liveQueries, reserve = () => true }: ApiOptions) {
  const cache = createDocumentCache(schema)

  /** The context of resolvers. Without a caller nobody may do anything. */
  function createContext({ caller = NOBODY, takeChanges }: ServerContext, idempotencyKey?: string): Context {
    return { nth, caller, takeChanges, idempotencyKey }
  }

  const compiled = createCompiledOperations(schema, cache, createContext)
  const yoga = createYoga<ServerContext>({
    schema,
    context: (initial) => createContext(initial, idempotencyKeyIn(initial, initial.request)),
    plugins: [
      persistedQueries(cache, reserve),
      requestNotes,
      requests,
      cachedDocuments(cache),
      compiled.plugin,
      inputErrors,
      introspectionRight,
      idempotencyHeader,
      executionErrors,
      rateLimited,
      subscriptions(schema, cache, liveQueries),
      responses(),
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
    // Set on every response of the server, not only on Yoga's.
    cors: false,
    maxRequestBodySize: false,
    multipart: false,
    // Pages, including GraphiQL, have routes of their own.
    graphiql: false,
    landingPage: false,
    // No URL ends like this. Yoga would answer any path that ends with it.
    healthCheckEndpoint: '\n',
  })
  return { yoga, executeCompiled: compiled.execute }
}

const NOBODY = anonymous([])

export type Api = ReturnType<typeof createApi>
