import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type DocumentNode, type ExecutionArgs, type ExecutionResult, getOperationAST } from 'graphql'
import type { Gate } from '../graphql/gate.ts'
import type { Notices } from '../operations/log.ts'
import { type Limit, refusalMeasure } from '../operations/measures.ts'
import { repeat } from '../repository/jobs.ts'
import type { Nth } from '../repository/nth.ts'
import { NthError, unavailable } from '../rules/errors.ts'
import type { Caller } from '../rules/rights.ts'
import { type Owner, ownerText } from '../rules/turns.ts'
import { type ClientKey, type Clients, Counts } from './clients.ts'
import { MemoryBudget } from './connections.ts'
import { bytesOfDocument, type CompiledOperation } from './documents.ts'
import { httpOf, invalidCredential, rejectRequest, serviceUnavailable } from './errors.ts'
import { type LiveQuery, openLiveQuery } from './liveQuery.ts'
import { contextOf } from './requests.ts'
import type { ResponseStream } from './responseStream.ts'
import { type Sink, Stream } from './stream.ts'
import { LEEWAY_MS } from './tokens.ts'

/** The result of a subscription that wasn't refused. */
export interface StreamResult extends ExecutionResult {
  /** Sends the first event, and then the others. */
  serve(sink: Sink): void
}

/** A connection that is open for subscriptions: a response's connection, or a WebSocket. */
interface LiveConnection {
  /** Sends a heartbeat if nothing was sent for a while, in milliseconds. */
  keepAlive(pauseMs: number): void
  /** Ends it; its client connects again. */
  break(): void
}

interface LiveQueriesOptions {
  /** Maximum streams of a caller from one client address. */
  maxStreams: number
  /** Maximum memory that all streams keep, in bytes. */
  maxBytes: number
  /** Pause after which a stream gets a heartbeat, in milliseconds. */
  heartbeatMs: number
  clients: Clients
  gate: Gate
  notices: Notices
}

/** Interval of the check of callers, in milliseconds. */
const MAX_CHECK_MS = 1000
/** Time in which all streams are broken when the server stops, so that their clients don't come back at once. */
const DRAIN_MS = 2000

/** Memory of a stream with its connection, request and response, in bytes. Measured on Node 20: 12 kB of heap, 21 in all. */
const BYTES_A_STREAM = 16_000
/** Memory of an operation of a WebSocket, in bytes, besides its live query. */
const BYTES_AN_OPERATION = 4_000
/** Memory of a character of headers, with what is made of them. */
const BYTES_A_HEADER_CHARACTER = 8
/** Memory of a live query, in bytes, and of a character of its variables in JSON. */
const BYTES_A_QUERY = 10_000
const BYTES_A_VARIABLE_CHARACTER = 8

type Compiled = CompiledOperation | undefined

/** Maximum names that the streams of a client watch, each counted for itself: half of what a process may watch. */
export const MAX_NAMES = 10_000
const RETRY_AFTER_MS = 10_000

export type LiveQueries = ReturnType<typeof openLiveQueries>

/**
 * The subscriptions of this process. The number of streams, and the names that they watch, are limited for each caller
 * and address, the memory that they keep for each address and for all together. Without an address only the last of these
 * limits holds. An address is charged for all that each of its streams keeps; what streams share is in use once.
 */
export function openLiveQueries(nth: Nth, options: LiveQueriesOptions) {
  const { maxStreams, maxBytes, heartbeatMs, clients, gate, notices } = options
  /** By the hash of what their streams have in common. */
  const queries = new Map<string, LiveQuery>()
  /** Documents of live queries: of how many, and their memory, in bytes. */
  const documents = new Map<DocumentNode, { queries: number; bytes: number }>()
  const streams = new Set<Stream>()
  const connections = new Set<LiveConnection>()
  const streamsOf = new Counts()
  const namesOf = new Counts()
  const budget = new MemoryBudget(maxBytes)
  let isClosed = false
  const checking = repeat(() => Math.min(MAX_CHECK_MS, heartbeatMs), check, notices)

  /** Ends the streams of callers whose credentials are no longer valid, and keeps the connections of the others alive. */
  async function check(): Promise<void> {
    for (const stream of streams) {
      const { kind, key, expiresAt } = stream.caller
      const leewayMs = kind === 'TOKEN' ? LEEWAY_MS : 0
      const isExpired = expiresAt && expiresAt.getTime() + leewayMs <= Date.now()
      // While the database is unavailable, keys hold.
      const isValid = !isExpired && (!key || (await nth.apiKeys.isValid(key).catch(() => true)))
      if (!isValid) stream.fail(invalidCredential())
    }
    for (const connection of connections) connection.keepAlive(heartbeatMs)
  }

  /** Counts a connection as a stream, and charges its memory. Returns a function that ends this. */
  function connect(request: IncomingMessage, owner: Owner, connection: LiveConnection): () => void {
    if (isClosed) throw serviceUnavailable('Nth is shutting down; try again in a moment.')
    const client = clients.limited(request)
    const limited = client && ownerText(owner)
    const headers = request.rawHeaders.reduce((sum, { length }) => sum + length, request.url?.length ?? 0)
    const bytes = BYTES_A_STREAM + headers * BYTES_A_HEADER_CHARACTER
    connections.add(connection)
    budget.charge(client, bytes)
    streamsOf.add(limited, 1)
    const disconnect = () => {
      if (!connections.delete(connection)) return
      budget.charge(client, -bytes)
      streamsOf.add(limited, -1)
    }
    try {
      if (streamsOf.of(limited) > maxStreams) throw tooMany('streams', 'subscriptions', maxStreams)
      assertRoom(client, bytes)
      return disconnect
    } catch (error) {
      disconnect()
      return rejectRequest(error)
    }
  }

  /** The live query of a subscription, which it shares with others. It is opened with the first stream. */
  function queryFor(args: ExecutionArgs, compiled: Compiled, caller: Caller): LiveQuery {
    const { document, operationName } = args
    const variableValues = declaredVariables(args)
    const text = JSON.stringify([operationName, variableValues, caller.kind, caller.grants])
    const key = hash('sha256', `${document.loc?.source.body}\n${text}`)
    let query = queries.get(key)
    if (query) return query
    // Not its context, which holds the first request.
    const kept = { ...args, variableValues, contextValue: undefined }
    const bytes = BYTES_A_QUERY + text.length * BYTES_A_VARIABLE_CHARACTER
    query = openLiveQuery({ key, bytes, args: kept, compiled, nth, gate, caller, notices })
    queries.set(key, query)
    budget.charge(undefined, bytes)
    let ofDocument = documents.get(document)
    if (!ofDocument) {
      ofDocument = { queries: 0, bytes: bytesOfDocument(document, compiled?.fields ?? 0) }
      documents.set(document, ofDocument)
      budget.charge(undefined, ofDocument.bytes)
    }
    ofDocument.queries += 1
    return query
  }

  function closeUnused({ key, bytes, document, isUsed, close }: LiveQuery): void {
    if (isUsed()) return
    close()
    queries.delete(key)
    const ofDocument = documents.get(document)
    if (ofDocument) ofDocument.queries -= 1
    const isLast = ofDocument?.queries === 0
    if (isLast) documents.delete(document)
    budget.charge(undefined, -(isLast ? bytes + ofDocument.bytes : bytes))
  }

  function assertRoom(client: ClientKey, bytes: number): void {
    if (budget.hasRoom(client, false)) return
    refusalMeasure.publish('memory')
    throw budget.heldBy(client) <= bytes
      ? unavailable('The open subscriptions use all the memory that they may. Try again in a moment.')
      : new NthError('RATE_LIMITED', TOO_LARGE, { retryAfterMs: RETRY_AFTER_MS })
  }

  return {
    connect,

    /**
     * Executes a subscription for its first event. `compiled`: the same operation, if it could be compiled.
     *
     * @param responseStream what carries it, as a connection of its own; undefined: a WebSocket carries it
     */
    async subscribe(
      args: ExecutionArgs,
      compiled: Compiled,
      responseStream: ResponseStream | undefined,
    ): Promise<ExecutionResult | StreamResult> {
      const { caller, owner, req } = contextOf(args)
      const client = clients.limited(req)
      const limited = client && ownerText(owner)
      const disconnect =
        responseStream &&
        connect(req, owner, { keepAlive: (ms) => responseStream.keepAlive(ms), break: () => stream.break() })
      const query = queryFor(args, compiled, caller)
      const bytes = BYTES_AN_OPERATION + query.bytes + (documents.get(query.document)?.bytes ?? 0)
      let names = 0
      const stream = new Stream(caller, owner, () => {
        streams.delete(stream)
        query.leave(stream)
        closeUnused(query)
        budget.charge(client, -bytes, -BYTES_AN_OPERATION)
        namesOf.add(limited, -names)
        disconnect?.()
      })
      streams.add(stream)
      budget.charge(client, bytes, BYTES_AN_OPERATION)
      try {
        assertRoom(client, bytes)
        const first = await query.join(stream)
        if (stream.state !== 'closed') names = query.size
        namesOf.add(limited, names)
        if (namesOf.of(limited) > MAX_NAMES)
          throw tooMany('watched names', 'names in subscriptions', MAX_NAMES)
        if (first.errors && !query.isSent(stream)) {
          stream.close()
          return { errors: first.errors, extensions: { http: httpOf(first.errors[0]?.extensions ?? {}) } }
        }
        const serve: StreamResult['serve'] = (sink) => {
          stream.start(sink)
          query.serve(stream, first)
        }
        return { ...first, serve }
      } catch (error) {
        stream.close()
        return rejectRequest(error)
      }
    },

    get size() {
      return streams.size
    },

    /** Breaks all connections, within two seconds. Their clients connect again, to another server or the next one. */
    close(): void {
      isClosed = true
      void checking.close()
      for (const connection of connections) setTimeout(() => connection.break(), Math.random() * DRAIN_MS)
    },
  }
}

/** The variables that the operation declares. Others may be of any size and depth, and nothing reads them. */
function declaredVariables({ document, operationName, variableValues }: ExecutionArgs) {
  const { variableDefinitions = [] } = getOperationAST(document, operationName) ?? {}
  const sent = new Map(Object.entries(variableValues ?? {}))
  const names = variableDefinitions.map(({ variable }) => variable.name.value)
  return Object.fromEntries(names.filter((name) => sent.has(name)).map((name) => [name, sent.get(name)]))
}

const TOO_LARGE = 'The subscriptions from this address use too much memory. Close one, or select less.'

function tooMany(refusal: Limit, what: string, limit: number): NthError {
  refusalMeasure.publish(refusal)
  const message = `Too many ${what}: the limit is ${limit} for these credentials and this address. Close one first.`
  return new NthError('RATE_LIMITED', message, { limit, retryAfterMs: RETRY_AFTER_MS })
}
