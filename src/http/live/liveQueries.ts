import { type ExecutionArgs, type ExecutionResult, GraphQLError, getOperationAST } from 'graphql'
import { type ErrorCode, NthError } from '../../core/errors.ts'
import type { Nth } from '../../core/nth.ts'
import type { Context } from '../../graphql/builder.ts'
import type { Access } from '../access/authentication.ts'
import { invalidCredential } from '../access/credentials.ts'
import { LEEWAY_MS } from '../access/tokens.ts'
import { serviceUnavailable } from '../connections/httpError.ts'
import type { CompiledOperation } from '../graphql/documents/compiledOperations.ts'
import { nextEvent } from './events.ts'
import { type LiveQuery, openLiveQuery } from './liveQuery.ts'
import { createPlaces } from './places.ts'
import { Stream } from './stream.ts'

/** The result of a subscription that wasn't refused. */
export interface StreamResult extends ExecutionResult {
  stream: Stream
  /** Sends the first event of the stream, once it was started, and then the others. */
  serve(): void
}

export interface LiveQueriesOptions {
  /** Maximum streams of a caller from one client address. */
  maxStreams: number
  /** Pause after which a stream gets a heartbeat, in milliseconds. */
  heartbeatMs: number
  /** Called with failures that an operator should see. */
  onFault: (error: unknown) => void
}

/** Interval of the check of callers, in milliseconds. */
const MAX_CHECK_MS = 1000
/** Time in which all streams are broken when the server stops, so that their clients don't come back at once. */
const DRAIN_MS = 2000

/** Statuses of the codes with which a whole subscription is refused; others are 400. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  RATE_LIMITED: 429,
  INTERNAL_SERVER_ERROR: 500,
  UNAVAILABLE: 503,
}

type Compiled = CompiledOperation | undefined

/** A live query, by what its streams have in common. */
interface SharedQuery {
  text: string
  query: LiveQuery
  streams: number
}

export type LiveQueries = ReturnType<typeof openLiveQueries>

/** The subscriptions of this process. */
export function openLiveQueries(nth: Nth, { maxStreams, heartbeatMs, onFault }: LiveQueriesOptions) {
  const queries = new Map<string, SharedQuery>()
  const streams = new Set<Stream>()
  const takePlace = createPlaces(maxStreams)
  let isClosed = false
  let isChecking = false
  const timer = setInterval(
    async () => {
      if (isChecking) return
      isChecking = true
      await check().catch(onFault)
      isChecking = false
    },
    Math.min(MAX_CHECK_MS, heartbeatMs),
  ).unref()

  /** Ends the streams of callers whose credentials are no longer valid, and keeps the others alive. */
  async function check(): Promise<void> {
    for (const stream of streams) {
      const { kind, key, expiresAt } = stream.caller
      const leewayMs = kind === 'TOKEN' ? LEEWAY_MS : 0
      const isExpired = expiresAt && expiresAt.getTime() + leewayMs <= Date.now()
      // While the database is unavailable, keys hold.
      const isValid = !isExpired && (!key || (await nth.apiKeys.isValid(key).catch(() => true)))
      if (isValid) stream.keepAlive(heartbeatMs)
      else stream.complete(nextEvent({ errors: [errorFor(invalidCredential())] }))
    }
  }

  function queryFor(args: ExecutionArgs, compiled: Compiled, { caller }: Context): SharedQuery {
    const { document, operationName } = args
    const variableValues = declaredVariables(args)
    const { kind, grants } = caller
    const text = JSON.stringify([document.loc?.source.body, operationName, variableValues, kind, grants])
    const found = queries.get(text)
    if (found) return found
    // Not its context, which holds the first request.
    const kept = { ...args, variableValues, contextValue: undefined }
    const query = openLiveQuery({ args: kept, compiled, nth, caller, onFault })
    const opened = { text, query, streams: 0 }
    queries.set(text, opened)
    return opened
  }

  function openStream(args: ExecutionArgs, compiled: Compiled, context: Context & Partial<Access>) {
    if (isClosed) throw serviceUnavailable('Nth is shutting down; try again in a moment.')
    const place = takePlace(context.caller, context.client?.())
    const shared = queryFor(args, compiled, context)
    const { query } = shared
    shared.streams += 1
    const stream = new Stream(context.caller, () => {
      streams.delete(stream)
      place.release()
      query.leave(stream)
      shared.streams -= 1
      if (shared.streams > 0) return
      query.close()
      queries.delete(shared.text)
    })
    streams.add(stream)
    return { query, stream, place }
  }

  async function firstResult({ query, stream, place }: ReturnType<typeof openStream>) {
    try {
      const result = await query.join(stream)
      place.watch(query.size)
      return result
    } catch (error) {
      stream.close()
      throw error
    }
  }

  return {
    /** Executes a subscription for its first event. `compiled`: the same operation, if it could be compiled. */
    async subscribe(args: ExecutionArgs, compiled: Compiled): Promise<ExecutionResult | StreamResult> {
      try {
        // Created in `yoga.ts`.
        const opened = openStream(args, compiled, args.contextValue as Context & Partial<Access>)
        const { query, stream } = opened
        const { isWatching, ...first } = await firstResult(opened)
        if (isWatching || !first.errors) return { ...first, stream, serve: () => query.serve(stream, first) }
        stream.close()
        return refused(first.errors)
      } catch (error) {
        if (error instanceof NthError) return refused([errorFor(error)])
        throw error
      }
    },

    /** How many streams there are. */
    get size() {
      return streams.size
    },

    /** Breaks all streams, within two seconds. Their clients connect again, to another server or the next one. */
    close(): void {
      isClosed = true
      clearInterval(timer)
      for (const stream of streams) setTimeout(() => stream.break(), Math.random() * DRAIN_MS)
    },
  }
}

/** Others may be of any size and depth, and nothing reads them. */
function declaredVariables({ document, operationName, variableValues }: ExecutionArgs) {
  const { variableDefinitions = [] } = getOperationAST(document, operationName) ?? {}
  const names = variableDefinitions.map(({ variable }) => variable.name.value)
  return Object.fromEntries(
    names.flatMap((name) =>
      variableValues && Object.hasOwn(variableValues, name) ? [[name, variableValues[name]]] : [],
    ),
  )
}

function errorFor({ message, extensions }: NthError): GraphQLError {
  return new GraphQLError(message, { extensions })
}

/** The result of a subscription of which nothing was allowed, with a status of its own. */
function refused(errors: readonly GraphQLError[]): ExecutionResult {
  const { code, retryAfterMs } = errors[0]?.extensions ?? {}
  const status = STATUSES[code as ErrorCode] ?? 400
  const headers = {
    ...(status === 401 && { 'www-authenticate': 'Bearer realm="Nth"' }),
    ...(retryAfterMs !== undefined && { 'retry-after': String(Math.ceil(Number(retryAfterMs) / 1000)) }),
  }
  return { errors, extensions: { http: { status, headers } } }
}
