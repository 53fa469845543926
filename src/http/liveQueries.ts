import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  GraphQLError,
  getOperationAST,
} from 'graphql'
import type { Context } from '../graphql/context.ts'
import type { Notices } from '../operations/log.ts'
import { refusalMeasure } from '../operations/measures.ts'
import type { Nth } from '../repository/nth.ts'
import { NthError, unavailable } from '../rules/errors.ts'
import type { Caller } from '../rules/rights.ts'
import type { Clients } from './clients.ts'
import type { CompiledOperation } from './compiledOperations.ts'
import { type ClientKey, MemoryBudget } from './connections.ts'
import { invalidCredential, LEEWAY_MS } from './credentials.ts'
import { bytesOfDocument } from './documents.ts'
import { type HeaderList, httpOf, serviceUnavailable } from './errors.ts'
import { type LiveQuery, openLiveQuery, Stream, type StreamFormat } from './liveQuery.ts'
import type { ServerContext } from './requests.ts'

/** The result of a subscription that wasn't refused. */
export interface StreamResult extends ExecutionResult {
  /** Starts the stream, and sends its first event, and then the others. */
  serve(response: ServerResponse, headers: HeaderList): void
}

interface LiveQueriesOptions {
  /** Maximum streams of a caller from one client address. */
  maxStreams: number
  /** Maximum memory that all streams keep, in bytes. */
  maxBytes: number
  /** Pause after which a stream gets a heartbeat, in milliseconds. */
  heartbeatMs: number
  clients: Clients
  notices: Notices
}

/** Interval of the check of callers, in milliseconds. */
const MAX_CHECK_MS = 1000
/** Time in which all streams are broken when the server stops, so that their clients don't come back at once. */
const DRAIN_MS = 2000

/** Memory of a stream with its connection, request and response, in bytes. Measured on Node 20: 12 kB of heap, 21 in all. */
const BYTES_A_STREAM = 20_000
/** Memory of a character of headers, with what is made of them. */
const BYTES_A_HEADER_CHARACTER = 8
/** Memory of a live query, in bytes, and of a character of its variables in JSON. */
const BYTES_A_QUERY = 10_000
const BYTES_A_VARIABLE_CHARACTER = 8

type Compiled = CompiledOperation | undefined

/** A document, by the hash of its text. */
interface SharedDocument {
  hash: string
  document: DocumentNode
  compiled: Compiled
  bytes: number
  queries: number
}

/** A live query, by the hash of what its streams have in common. */
interface SharedQuery {
  hash: string
  query: LiveQuery
  document: SharedDocument
  /** Without its document. */
  bytes: number
  streams: number
}

export type LiveQueries = ReturnType<typeof openLiveQueries>

/** The subscriptions of this process. */
export function openLiveQueries(nth: Nth, options: LiveQueriesOptions) {
  const { maxStreams, maxBytes, heartbeatMs, clients, notices } = options
  const documents = new Map<string, SharedDocument>()
  const queries = new Map<string, SharedQuery>()
  const streams = new Set<Stream>()
  const quotas = createStreamQuotas(maxStreams, maxBytes)
  let isClosed = false
  let isChecking = false
  const timer = setInterval(
    async () => {
      if (isChecking) return
      isChecking = true
      await check().catch(notices.fault)
      isChecking = false
    },
    Math.min(MAX_CHECK_MS, heartbeatMs),
  ).unref()

  /** Ends the streams of callers whose credentials are no longer valid, and keeps the others alive. */
  async function check(): Promise<void> {
    const { message, extensions } = invalidCredential()
    for (const stream of streams) {
      const { kind, key, expiresAt } = stream.caller
      const leewayMs = kind === 'TOKEN' ? LEEWAY_MS : 0
      const isExpired = expiresAt && expiresAt.getTime() + leewayMs <= Date.now()
      // While the database is unavailable, keys hold.
      const isValid = !isExpired && (!key || (await nth.apiKeys.isValid(key).catch(() => true)))
      if (isValid) stream.keepAlive(heartbeatMs)
      else stream.fail({ errors: [new GraphQLError(message, { extensions })] })
    }
  }

  function documentFor(document: DocumentNode, compiled: Compiled): SharedDocument {
    const hash = hashOf(document.loc?.source.body ?? '')
    const bytes = () => bytesOfDocument(document, compiled?.fields ?? 0)
    return documents.get(hash) ?? { hash, document, compiled, bytes: bytes(), queries: 0 }
  }

  function queryFor(args: ExecutionArgs, compiled: Compiled, caller: Caller): SharedQuery {
    const variableValues = declaredVariables(args)
    const document = documentFor(args.document, compiled)
    const { kind, grants } = caller
    const text = JSON.stringify([document.hash, args.operationName, variableValues, kind, grants])
    const hash = hashOf(text)
    const found = queries.get(hash)
    if (found) return found
    // Not its context, which holds the first request.
    const kept = { ...args, document: document.document, variableValues, contextValue: undefined }
    const query = openLiveQuery({ args: kept, compiled: document.compiled, nth, caller, notices })
    const bytes = BYTES_A_QUERY + text.length * BYTES_A_VARIABLE_CHARACTER
    return { hash, query, document, bytes, streams: 0 }
  }

  /** Adds a stream to a query. Returns the memory that nothing has kept before, in bytes. */
  function join(shared: SharedQuery): number {
    const { document } = shared
    shared.streams += 1
    if (shared.streams > 1) return 0
    queries.set(shared.hash, shared)
    document.queries += 1
    if (document.queries > 1) return shared.bytes
    documents.set(document.hash, document)
    return shared.bytes + document.bytes
  }

  /** Removes a stream from a query. Returns the memory that nothing keeps any more, in bytes. */
  function leave(shared: SharedQuery): number {
    const { document } = shared
    shared.streams -= 1
    if (shared.streams > 0) return 0
    shared.query.close()
    queries.delete(shared.hash)
    document.queries -= 1
    if (document.queries > 0) return shared.bytes
    documents.delete(document.hash)
    return shared.bytes + document.bytes
  }

  /** Joins a query and takes what its stream needs: both, or neither. */
  function takeQuota(
    shared: SharedQuery,
    caller: Caller,
    client: ClientKey,
    bytes: number,
    ownBytes: number,
  ) {
    const addedBytes = ownBytes + join(shared)
    try {
      return quotas.take(caller, client, bytes, addedBytes)
    } catch (error) {
      leave(shared)
      throw error
    }
  }

  return {
    /** Executes a subscription for its first event. `compiled`: the same operation, if it could be compiled. */
    async subscribe(
      args: ExecutionArgs,
      compiled: Compiled,
      format: StreamFormat,
    ): Promise<ExecutionResult | StreamResult> {
      let stream: Stream | undefined
      try {
        if (isClosed) throw serviceUnavailable('Nth is shutting down; try again in a moment.')
        // Created in `yoga.ts`.
        const { caller, req } = args.contextValue as StreamContext
        const shared = queryFor(args, compiled, caller)
        const { query } = shared
        const headers = req.rawHeaders.reduce((sum, { length }) => sum + length, req.url?.length ?? 0)
        const ownBytes = BYTES_A_STREAM + headers * BYTES_A_HEADER_CHARACTER
        const bytes = ownBytes + shared.bytes + shared.document.bytes
        const quota = takeQuota(shared, caller, clients.limited(req), bytes, ownBytes)
        const opened = new Stream(caller, format, () => {
          streams.delete(opened)
          query.leave(opened)
          quota.release(ownBytes + leave(shared))
        })
        stream = opened
        streams.add(opened)
        const { isWatching, ...first } = await query.join(opened)
        quota.watch(query.size)
        if (first.errors && !isWatching) {
          opened.close()
          return refused(first.errors)
        }
        const serve: StreamResult['serve'] = (response, headers) => {
          opened.start(response, headers)
          query.serve(opened, first)
        }
        return { ...first, serve }
      } catch (error) {
        stream?.close()
        if (error instanceof NthError)
          return refused([new GraphQLError(error.message, { extensions: error.extensions })])
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

/** What is created in `yoga.ts`, with what comes from the server. */
type StreamContext = Context & ServerContext

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64')
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

/** The result of a subscription of which nothing was allowed, with a status of its own. */
function refused(errors: readonly GraphQLError[]): ExecutionResult {
  return { errors, extensions: { http: httpOf(errors[0]?.extensions ?? {}) } }
}

/** The streams of a caller from one address. */
interface Usage {
  streams: number
  names: number
}

/** What a stream takes of the limits, until it is released. */
interface StreamQuota {
  /** @throws {NthError} RATE_LIMITED if its client would watch too many names */
  watch(names: number): void
  /** @param freedBytes memory that no stream keeps any more */
  release(freedBytes: number): void
}

/** Maximum names that the streams of a client watch, each counted for itself: half of what a process may watch. */
const MAX_NAMES = 10_000
const RETRY_AFTER_MS = 10_000

/**
 * Limits of streams. Their number and names are limited for each caller and address, the memory that they keep for each
 * address and for all together. Without an address only the last of these limits holds.
 *
 * @param maxBytes memory of all streams, in bytes
 */
function createStreamQuotas(maxStreams: number, maxBytes: number) {
  const usages = new Map<string, Usage>()
  const budget = new MemoryBudget(maxBytes)

  return {
    /**
     * Takes what a stream needs.
     *
     * @param bytes memory that it keeps, also if other streams keep a part of it too
     * @param addedBytes the part of it that no other stream keeps
     * @throws {NthError} RATE_LIMITED if its client has as many streams as it may have, or the streams of its address
     *   keep too much; UNAVAILABLE if all of them do
     */
    take({ identity }: Caller, client: ClientKey, bytes: number, addedBytes: number): StreamQuota {
      const key = `${identity}\n${client}`
      // Nothing is counted without an address.
      const usage: Usage = (client !== undefined && usages.get(key)) || { streams: 0, names: 0 }
      if (usage.streams >= maxStreams) {
        refusalMeasure.publish('streams')
        throw tooMany('subscriptions', maxStreams)
      }
      budget.charge(client, bytes, addedBytes)
      if (!budget.hasRoom(client, false)) {
        refusalMeasure.publish('memory')
        const isOthers = client === undefined || budget.heldBy(client) <= bytes
        budget.charge(client, -bytes, -addedBytes)
        throw isOthers
          ? unavailable('The open subscriptions use all the memory that they may. Try again in a moment.')
          : new NthError('RATE_LIMITED', TOO_LARGE, { retryAfterMs: RETRY_AFTER_MS })
      }
      if (client !== undefined) usages.set(key, usage)
      usage.streams += 1
      let names = 0
      let isReleased = false
      return {
        watch(count) {
          if (isReleased || client === undefined) return
          if (usage.names + count > MAX_NAMES) {
            refusalMeasure.publish('watched names')
            throw tooMany('names in subscriptions', MAX_NAMES)
          }
          names += count
          usage.names += count
        },

        release(freedBytes) {
          isReleased = true
          budget.charge(client, -bytes, -freedBytes)
          usage.streams -= 1
          usage.names -= names
          if (usage.streams === 0) usages.delete(key)
        },
      }
    },
  }
}

const TOO_LARGE = 'The subscriptions from this address use too much memory. Close one, or select less.'

function tooMany(what: string, limit: number): NthError {
  const message = `Too many ${what}: the limit is ${limit} for these credentials and this address. Close one first.`
  return new NthError('RATE_LIMITED', message, { limit, retryAfterMs: RETRY_AFTER_MS })
}
