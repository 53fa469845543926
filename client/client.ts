/**
 * A client of Nth for browsers and Node, without dependencies: changes that count exactly once, live numbers, and one
 * class of errors.
 */

export interface ClientOptions {
  /** Address of the API. Default: `/graphql` of the page's server. */
  url?: string
  /** An API key or a token. A function is called for each request. */
  key?: string | (() => string | undefined | Promise<string | undefined>)
  /** More headers for each request. With them, subscriptions are streams of events: a WebSocket can't send them. */
  headers?: Record<string, string>
  /** Instead of the global one. With it, subscriptions are streams of events. */
  fetch?: typeof fetch
  /** `print` of graphql, for documents that don't have their text, such as those of gql.tada. */
  print?: (document: never) => string
  /** Timeout of one attempt, in milliseconds. Default: 12 000; the server answers within 10 s, if only with an error. */
  timeoutMs?: number
  /** How long a mutation is retried, in milliseconds. Default: 15 000. */
  retryMs?: number
}

export interface QueryOptions {
  signal?: AbortSignal | undefined
}

export interface MutateOptions {
  /** Default: a new key. `null`: none, for a mutation that takes no key. */
  idempotencyKey?: string | null
  /**
   * A name for this action. Its key is kept until there is a result, in a browser also over a reload of the page: a call
   * with the same name repeats the same action instead of making another change.
   */
  remember?: string
  /** Called when it is sent, and when it is sent again, as no answer arrived or the server requested that. */
  onState?(state: 'sending' | 'trying again'): void
  signal?: AbortSignal | undefined
}

/** An action of a person under a key of its own, for any client of GraphQL. */
export interface Action {
  /** Its idempotency key: the same, also after a reload of the page, until `done` is called. */
  readonly key: string
  /** It has a result: the next action of that name has another key. */
  done(): void
}

/**
 * Where a subscription is.
 *
 *   connecting   it is being opened
 *   open         it has sent data, and will send more
 *   waiting      for its next attempt, after its connection broke or could not be opened
 *   paused       the page is hidden
 *   ended        it was stopped or refused, or has nothing more to send
 */
export type SubscriptionState = 'connecting' | 'open' | 'waiting' | 'paused' | 'ended'

export interface SubscribeOptions<Data> {
  /** Called with each event: the first of a stream has everything, the others have what changed. */
  onData(data: Data): void
  /** Called if data could not be read, or no stream could be opened. */
  onError?(error: NthError): void
  onState?(state: SubscriptionState): void
  /** Stops the subscription. */
  signal?: AbortSignal | undefined
}

export interface Subscription<Variables = object> {
  stop(): void
  /** Opens the stream at once if it waits for its next attempt, or if it was refused. */
  retryNow(): void
  /** Opens a new stream with other variables. */
  update(variables: Variables): void
}

/**
 * A document with its types, such as those of gql.tada and GraphQL Code Generator: its text is in `loc`, or is what
 * `toString` returns.
 */
export interface TypedDocument<Data, Variables> {
  readonly __apiType?: ((variables: Variables) => Data) | undefined
  readonly loc?: { readonly source: { readonly body: string } } | undefined
}

/** Data without errors: its fields have what is null only beside an error. `node` and `uncount` may be null without one. */
export type Complete<Data> = { [Field in keyof Data]: NonNullable<Data[Field]> }

export interface NthClient {
  /** Returns the data. Throws an `NthError` if there are errors; its `data` has what could be read. */
  query<Data, Variables>(
    document: TypedDocument<Data, Variables>,
    variables?: NoInfer<Variables>,
    options?: QueryOptions,
  ): Promise<Complete<Data>>
  query<Data = unknown>(document: string, variables?: object, options?: QueryOptions): Promise<Data>
  /** Sends a mutation of one field until its outcome is known. With an idempotency key it is applied once. */
  mutate<Data, Variables>(
    document: TypedDocument<Data, Variables>,
    variables?: NoInfer<Variables>,
    options?: MutateOptions,
  ): Promise<Complete<Data>>
  mutate<Data = unknown>(document: string, variables?: object, options?: MutateOptions): Promise<Data>
  /** Whether an action of that name was begun and has no result yet. */
  remembered(name: string): boolean
  /**
   * Sends data until it is stopped, refused or complete; not while the page is hidden. All subscriptions share one WebSocket.
   * Where none can be opened, each is read every 3 s. Where there is no `WebSocket`, as in Node 20, each is a stream of events.
   */
  subscribe<Data = unknown, Variables = object>(
    document: string | TypedDocument<Data, Variables>,
    variables: NoInfer<Variables> | undefined,
    options: SubscribeOptions<Data>,
  ): Subscription<Variables>
  /**
   * For other GraphQL clients, in the place of `fetch`: sends the key, keeps the newest state of everything that has an
   * `id` and a `revision`, repeats mutations if each field has an `idempotencyKey`, and opens streams of events again.
   * A result has the status 200, whatever the server's was. An unknown outcome of a mutation is an `NthError`.
   */
  fetch: typeof fetch
}

/** Codes of the API. There may be more later. */
export type ApiErrorCode =
  | 'BAD_USER_INPUT'
  | 'NOT_FOUND'
  | 'LIMIT_REACHED'
  | 'OUT_OF_RANGE'
  | 'CONFLICT'
  | 'SEQUENCE_EXHAUSTED'
  | 'RESERVATION_CLOSED'
  | 'IDEMPOTENCY_KEY_REUSED'
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'DOCUMENT_NOT_TRUSTED'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'OUTCOME_UNKNOWN'
  | 'INTERNAL_SERVER_ERROR'
  | 'BAD_REQUEST'
  | 'REQUEST_ENTITY_TOO_LARGE'
  | 'GRAPHQL_PARSE_FAILED'
  | 'PERSISTED_QUERY_NOT_FOUND'
  | 'PERSISTED_QUERY_MISMATCH'
  | 'GRAPHQL_VALIDATION_FAILED'
  | 'OPERATION_RESOLUTION_FAILURE'

/**
 * The codes of the API, and `NO_ANSWER`: nobody answered; `BAD_RESPONSE`: what answered is not Nth; `NO_KEY`: the
 * function `key` failed.
 */
export type NthErrorCode = ApiErrorCode | 'NO_ANSWER' | 'BAD_RESPONSE' | 'NO_KEY' | (string & {})

/** Why there is no result. */
export class NthError extends Error {
  override readonly name = 'NthError'
  readonly code: NthErrorCode
  /** Whether the same request may succeed later, and can safely be sent again. */
  readonly retryable: boolean
  readonly retryAfterMs?: number
  /** Of a mutation: whether it may have been applied. */
  readonly isOutcomeUnknown: boolean = false
  /** What could be read beside the error. */
  readonly data?: unknown
  /** Details such as `limit`, `value` or `argument`. */
  readonly extensions: Record<string, unknown>

  constructor(message: string, extensions: Record<string, unknown>, more: object = {}) {
    super(message)
    this.extensions = extensions
    this.code = String(extensions.code ?? 'INTERNAL_SERVER_ERROR')
    this.retryable = extensions.retryable === true
    if (typeof extensions.retryAfterMs === 'number') this.retryAfterMs = extensions.retryAfterMs
    Object.assign(this, more)
  }
}

/** Pauses between attempts, in milliseconds: doubled after each, and multiplied by a random number. */
const SHORTEST_PAUSE_MS = 300
const LONGEST_PAUSE_MS = 15_000

/** The server sends a comment or a ping every 12 s; after three of them are missing, the connection is taken for dead. */
const SILENCE_MS = 45_000

/** How long a WebSocket may take to open. */
const OPEN_MS = 5_000
/** Where none opens: how often a subscription is read, and after how long a WebSocket is tried again. */
const POLL_MS = 3_000
const NEXT_SOCKET_MS = 60_000
/** How many subscriptions are read at once: a browser opens six connections to a server over HTTP/1.1. */
const MAX_POLLS = 2

/** How many objects' newest states are kept. */
const MAX_OBJECTS = 10_000
/** How many fields of each, with different arguments. */
const MAX_FIELDS = 200

const EVENT_STREAM = 'text/event-stream'

const UNREACHABLE = "The server can't be reached."

/** Codes of errors that leave open whether a mutation was applied. */
const DOUBTS = ['NO_ANSWER', 'OUTCOME_UNKNOWN']

/** Codes of errors that say nothing about an earlier attempt with the same idempotency key. */
const UNRELATED = ['UNAUTHENTICATED', 'FORBIDDEN', 'INTERNAL_SERVER_ERROR', 'BAD_RESPONSE']

type Json = Record<string, unknown>
type AnyDocument = string | TypedDocument<unknown, never>
type Address = Parameters<typeof fetch>[0]

/** What a request sends; nothing, if it can't be read. */
interface Operation {
  query?: string
  variables?: Json
  operationName?: string
}

interface Result {
  data?: unknown
  errors?: { message: string; extensions?: Json }[] | undefined
}

/** What an attempt came to: without a result, no answer of Nth arrived. */
interface Answer {
  response?: Response
  result?: Result
  error?: NthError | undefined
}

type Handlers = Omit<SubscribeOptions<unknown>, 'onData'> & {
  onData(data: unknown, result: Result): void
}

/** The results of a subscription, until it is complete. Throws if its connection ends before. */
type Open = (signal: AbortSignal, onChunk: () => void) => AsyncIterable<Result>

export function createClient(options: ClientOptions = {}): NthClient {
  const { url = '/graphql', timeoutMs = 12_000, retryMs = 15_000 } = options
  const memory = createMemory(`nth ${url} `)
  const keepNewest = createNewest()
  const isPlain = !options.fetch && !options.headers && globalThis.WebSocket
  const socket = isPlain ? createSocket(url, options) : undefined
  const takeTurn = createTurns(MAX_POLLS)
  /** On the clock of `performance.now()`: no WebSocket could be opened. */
  let nextSocketAt = 0

  function initOf(
    document: AnyDocument,
    variables: unknown,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): RequestInit {
    let query = typeof document === 'object' ? document.loc?.source.body : document
    query ??= String(document)
    if (query === '[object Object]') {
      if (!options.print) throw new TypeError('Documents without a text need the option `print`.')
      // It is what that function takes.
      query = options.print(document as never)
    }
    return {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
      body: JSON.stringify({ query, variables }),
      signal: signal ?? null,
    }
  }

  async function send(address: Address, init: RequestInit, signal = init.signal): Promise<Response> {
    const headers = new Headers(options.headers)
    headersOf(address, init).forEach((value, name) => void headers.set(name, value))
    const key = await keyOf(options)
    if (key) headers.set('authorization', `Bearer ${key}`)
    return (options.fetch ?? fetch)(address, { ...init, headers, signal: signal ?? null })
  }

  async function attempt(address: Address, init: RequestInit): Promise<Answer> {
    init.signal?.throwIfAborted()
    const limit = createLimit(timeoutMs, init.signal)
    try {
      const response = await send(address, init, limit.signal)
      const result = await resultOf(response)
      keepNewest(result, operationOf(address, init))
      return { response, result, error: errorIn(result) }
    } catch (cause) {
      init.signal?.throwIfAborted()
      return { error: unreachable(cause) }
    } finally {
      limit.end()
    }
  }

  /** Sends a mutation until its outcome is known. */
  async function change(
    address: Address,
    init: RequestInit,
    hasKey: boolean,
    onState?: MutateOptions['onState'],
  ): Promise<Answer> {
    const end = performance.now() + retryMs
    /** The first answer that left open whether it was applied. */
    let doubt: Answer | undefined
    for (let attempts = 1; ; attempts++) {
      onState?.(attempts === 1 ? 'sending' : 'trying again')
      const answer = await attempt(address, init)
      const { error } = answer
      // An error below a field is one of a read: the change was applied.
      if (!error || isApplied(error.data)) return answer
      if (DOUBTS.includes(error.code)) doubt ??= answer
      const retryable = error.retryable && (hasKey || error.code !== 'NO_ANSWER')
      const pauseMs = pauseMsAfter(attempts, error)
      if (!retryable || performance.now() + pauseMs > end) {
        const saysNothing = error.retryable || UNRELATED.includes(error.code)
        const isOutcomeUnknown = doubt !== undefined && (saysNothing || answer === doubt)
        const reported = error.retryable && doubt ? doubt : answer
        Object.assign(reported.error ?? {}, { isOutcomeUnknown, retryable })
        return reported
      }
      await pause(pauseMs, init.signal)
    }
  }

  async function* eventsFrom(address: Address, init: RequestInit, signal: AbortSignal, onChunk: () => void) {
    yield* eventsOf(await send(address, init, signal), onChunk)
  }

  /** The first event of a stream, which is the present state. The stream is closed then. */
  async function read(address: Address, init: RequestInit, signal: AbortSignal): Promise<Result | undefined> {
    const end = await takeTurn()
    const limit = createLimit(timeoutMs, signal)
    try {
      for await (const result of eventsFrom(address, init, limit.signal, () => undefined)) return result
      return undefined
    } finally {
      limit.abort()
      end()
    }
  }

  /** What a subscription sends: over the WebSocket; if none opens, its state from time to time; or as a stream of events. */
  async function* resultsOf(
    address: Address,
    init: RequestInit,
    signal: AbortSignal,
    onChunk: () => void,
  ): AsyncGenerator<Result> {
    const operation = operationOf(address, init)
    // Whatever else a request has, such as headers of its own, only a request can send.
    const isOwn = address === url && !headersOf(address, init).has('authorization') && operation.query
    if (!socket || !isOwn) return yield* eventsFrom(address, init, signal, onChunk)
    for (let last = ''; !signal.aborted; ) {
      if (performance.now() >= nextSocketAt) {
        try {
          return yield* socket.subscribe(operation, signal, onChunk)
        } catch (error) {
          if (!(error instanceof NoSocket)) throw error
        }
      }
      const result = await read(address, init, signal)
      if (!result) return
      if (nextSocketAt === 0)
        console.warn(`Nth: no WebSocket opens at ${url}, so numbers are read every ${POLL_MS / 1000} s.`)
      if (performance.now() >= nextSocketAt) nextSocketAt = performance.now() + NEXT_SOCKET_MS
      onChunk()
      const text = JSON.stringify(result)
      if (text !== last) yield result
      last = text
      await pause(POLL_MS, signal)
    }
  }

  /** Opens a subscription again and again, with what `request` returns. */
  function keepOpen(address: Address, request: () => RequestInit, handlers: Handlers): LiveStream {
    return new LiveStream(async function* (signal, onChunk) {
      const init = request()
      for await (const result of resultsOf(address, init, signal, onChunk)) {
        keepNewest(result, operationOf(address, init))
        yield result
      }
    }, handlers)
  }

  return {
    async query(document: AnyDocument, variables?: unknown, { signal }: QueryOptions = {}) {
      // Its type is that of the document.
      return dataOf<never>(await attempt(url, initOf(document, variables, {}, signal)))
    },

    async mutate(
      document: AnyDocument,
      variables?: unknown,
      { idempotencyKey, remember, onState, signal }: MutateOptions = {},
    ) {
      const kept = remember && memory.get(remember)
      const key = idempotencyKey === undefined ? kept || newKey() : idempotencyKey
      const init = initOf(document, variables, key === null ? {} : { 'idempotency-key': key }, signal)
      signal?.throwIfAborted()
      if (remember && key !== null) memory.set(remember, key)
      const answer = await change(url, init, key !== null, onState)
      const { error } = answer
      // Such as an expired token, when an earlier call of that name may have been applied.
      const saysNothing = error && kept && UNRELATED.includes(error.code)
      const isSettled =
        !error || isApplied(error.data) || !(error.retryable || error.isOutcomeUnknown || saysNothing)
      // Another action of that name may have begun meanwhile.
      if (isSettled && remember && memory.get(remember) === key) memory.set(remember, '')
      return dataOf<never>(answer, isApplied)
    },

    remembered: (name) => Boolean(memory.get(name)),

    subscribe(document, variables, handlers) {
      let current: unknown = variables
      const stream = keepOpen(
        url,
        () => initOf(document, current, { accept: EVENT_STREAM }),
        // Its data is that of the document.
        handlers as Handlers,
      )
      return {
        stop: stream.stop,
        retryNow: stream.retryNow,
        update(changed) {
          if (JSON.stringify(changed) === JSON.stringify(current)) return
          current = changed
          stream.restart()
        },
      }
    },

    async fetch(address, init = {}) {
      const operation = operationOf(address, init)
      const { query } = operation
      const headers = headersOf(address, init)
      const accept = headers.get('accept') ?? ''
      if (accept.startsWith(EVENT_STREAM)) {
        const events = eventStreamOf((handlers) =>
          keepOpen(address, () => init, { ...handlers, signal: init.signal ?? undefined }),
        )
        return new Response(events, { headers: { 'content-type': EVENT_STREAM } })
      }
      if (!query || accept.startsWith('multipart')) return send(address, init)
      const isMutation = /\bmutation\b/.test(query)
      const { response, result, error } = isMutation
        ? await change(address, init, headers.has('idempotency-key') || isKeyed(query))
        : await attempt(address, init)
      // Each GraphQL client has codes in another place: what a page must know, it can ask of this error.
      if (!result || error?.isOutcomeUnknown) throw error
      // When the client reads it: two answers reach its cache in the order in which they were compared.
      const json = async () => keepNewest(result, operation)
      const text = async () => JSON.stringify(await json())
      return Object.assign(new Response(JSON.stringify(result), response && { headers: response.headers }), {
        json,
        text,
      })
    },
  }
}

/**
 * The newer of two states of the same thing, by `revision`: of two objects, of lists of objects with an `id`, or of
 * results with such objects and lists. A list has what either has, as an event has only what changed.
 */
export function newer<T>(previous: T | null | undefined, next: T): T
export function newer(previous: unknown, next: unknown): unknown {
  // Null instead of an object could not be read; of a number or text, it is the new value.
  if (!isObject(previous)) return next
  if (!isObject(next)) return next ?? previous
  if (previous.id !== next.id) return next
  if (Array.isArray(previous) && Array.isArray(next)) {
    const items = new Map<unknown, unknown>()
    for (const item of [...previous, ...next]) {
      // Without ids nothing can be merged.
      if (!item?.id) return next
      items.set(item.id, newer(items.get(item.id), item))
    }
    return [...items.values()]
  }
  if (Number(previous.revision) > Number(next.revision)) return { ...next, ...previous }
  const fields = Object.entries(next).map(([name, value]) => [name, newer(previous[name], value)])
  return { ...previous, ...Object.fromEntries(fields) }
}

/**
 * Returns a function that replaces what is older than what it saw before: in each object with an id and a revision, field
 * by field. Answers may arrive in another order than the server had their states, and so may streams of two processes.
 */
function createNewest() {
  const seen = new Map<unknown, Map<string, { revision: number; value: unknown }>>()
  return (result: unknown, operation: Operation): unknown => {
    /** What the names of fields with an alias or arguments stand for. */
    const meanings: Record<string, string> = {}
    const calls = operation.query?.matchAll(/(\w+)\s*(:\s*\w+\s*(?:\([^)]*\))?|\([^)]*\))/g) ?? []
    for (const [, name = '', call = ''] of calls) {
      const meaning = call.replace(/\$(\w+)/g, (_, variable) =>
        JSON.stringify(operation.variables?.[variable]),
      )
      const others = meanings[name] ?? ''
      if (!others.includes(meaning)) meanings[name] = others + meaning
    }
    const visit = (object: unknown): void => {
      if (!isObject(object)) return
      for (const value of Object.values(object)) visit(value)
      const { id, revision } = object
      if (typeof id !== 'string' || typeof revision !== 'number') return
      const fields = seen.get(id) ?? new Map()
      for (const [name, value] of Object.entries(object)) {
        // Objects with ids have states of their own; a list such as a history belongs to this one.
        if (Array.isArray(value) ? value.some((item) => item?.id) : isObject(value)) continue
        const meaning = `${name} ${meanings[name]}`
        const known = fields.get(meaning)
        const newest = known?.revision > revision ? known : { revision, value }
        object[name] = newest.value
        fields.set(meaning, newest)
        if (fields.size > MAX_FIELDS) fields.delete(fields.keys().next().value)
      }
      seen.delete(id)
      seen.set(id, fields)
      if (seen.size > MAX_OBJECTS) seen.delete(seen.keys().next().value)
    }
    visit(result)
    return result
  }
}

/**
 * A subscription that is kept open.
 *
 * `#connection` belongs to its present stream: once it is aborted, nothing of that stream arrives any more.
 */
class LiveStream {
  readonly #open: Open
  readonly #handlers: Handlers
  /** None in Node. */
  readonly #page: Document | undefined = globalThis.document
  #state: SubscriptionState | undefined
  #isStopped = false
  #failures = 0
  #connection = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(open: Open, handlers: Handlers) {
    this.#open = open
    this.#handlers = handlers
    this.#page?.addEventListener('visibilitychange', this.#onVisibility)
    handlers.signal?.addEventListener('abort', this.stop)
    if (handlers.signal?.aborted) this.stop()
    else this.restart()
  }

  readonly stop = (): void => {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#page?.removeEventListener('visibilitychange', this.#onVisibility)
    this.#handlers.signal?.removeEventListener('abort', this.stop)
    this.#close()
    this.#enter('ended')
  }

  readonly retryNow = (): void => {
    if (this.#state === 'waiting' || this.#state === 'ended') this.restart()
  }

  restart(): void {
    if (this.#isStopped) return
    this.#failures = 0
    this.#connect()
  }

  readonly #onVisibility = (): void => {
    if (this.#state !== 'ended') this.restart()
  }

  #close(): void {
    clearTimeout(this.#timer)
    this.#connection.abort()
  }

  async #connect(): Promise<void> {
    this.#close()
    if (this.#page?.hidden) return this.#enter('paused')
    this.#connection = new AbortController()
    const { signal } = this.#connection
    this.#enter('connecting')
    let hadData = false
    let error: NthError | undefined
    const limit = createLimit(SILENCE_MS, signal)
    try {
      for await (const result of this.#open(limit.signal, limit.restart)) {
        if (signal.aborted) return
        const { data } = result
        const failure = errorIn(result)
        if (failure && !hasData(data)) throw failure
        hadData = true
        this.#failures = 0
        this.#enter('open')
        this.#call(() => this.#handlers.onData(data, result))
        if (failure) this.#call(() => this.#handlers.onError?.(failure))
        if (signal.aborted) return
      }
    } catch (cause) {
      error = unreachable(cause)
    } finally {
      limit.end()
    }
    if (signal.aborted) return
    this.#close()
    const reported = error
    // A stream that breaks is opened again first: the server may have been restarted.
    if (reported && !(hadData && reported.code === 'NO_ANSWER'))
      this.#call(() => this.#handlers.onError?.(reported))
    if (!error || isRefusal(error)) return this.#enter('ended')
    this.#timer = setTimeout(() => this.#connect(), pauseMsAfter(++this.#failures, error))
    this.#enter('waiting')
  }

  #enter(state: SubscriptionState): void {
    if (state === this.#state) return
    this.#state = state
    this.#call(() => this.#handlers.onState?.(state))
  }

  /** An error of the caller's own function doesn't break the stream. */
  #call(handler: () => void): void {
    try {
      handler()
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    }
  }
}

/** Whether the same subscription would be refused again. */
function isRefusal({ code, retryable }: NthError): boolean {
  return !retryable && code !== 'INTERNAL_SERVER_ERROR' && code !== 'BAD_RESPONSE'
}

/** The results that a stream sends until it is complete. Throws if its connection ends before. */
async function* eventsOf(response: Response, onChunk: () => void): AsyncGenerator<Result> {
  if (!response.body || !response.headers.get('content-type')?.startsWith(EVENT_STREAM)) {
    throw (
      errorIn(await resultOf(response)) ??
      new NthError('This is not a subscription.', { code: 'BAD_USER_INPUT' })
    )
  }
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let event = ''
  let data = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) throw new Error('The connection has ended.')
    onChunk()
    text += decoder.decode(value, { stream: true })
    // The second half of a line break may be in the next chunk.
    const lines = text.split(/\r\n|\n|\r(?!$)/)
    text = lines.pop() ?? ''
    for (const line of lines) {
      const [, field, content = ''] = /^(\w+)(?:: ?(.*))?$/.exec(line) ?? []
      if (field === 'event') event = content
      if (field === 'data') data += content
      if (line !== '') continue
      if (event === 'complete') return
      if (event === 'next') yield JSON.parse(data)
      event = data = ''
    }
  }
}

/** No WebSocket could be opened: there is no server, or something before it doesn't let it through. */
class NoSocket extends NthError {}

/** Codes of errors by those with which Nth closes a WebSocket for good. */
const CLOSED: Record<number, ApiErrorCode> = {
  4400: 'BAD_REQUEST',
  4401: 'UNAUTHENTICATED',
  4403: 'FORBIDDEN',
}

interface SocketMessage {
  id?: string
  type: string
  payload?: unknown
}

/**
 * A WebSocket for all subscriptions of a client, opened with the first and closed after the last, with the protocol
 * `graphql-transport-ws`.
 */
function createSocket(url: string, options: ClientOptions) {
  /** Of the subscriptions of a connection, by their ids. They also get what is sent to none. */
  type Listeners = Map<string, (message: SocketMessage | NthError) => void>
  let connection: ReturnType<typeof connect> | undefined
  let count = 0

  function connect(key: string | undefined) {
    const listeners: Listeners = new Map()
    const opened = open(key, listeners)
    const self = { key, listeners, opened }
    // It is an error of those that wait for it.
    opened.catch(() => forget(self))
    return self
  }

  function forget(ended: typeof connection): void {
    if (connection === ended) connection = undefined
  }

  async function open(key: string | undefined, listeners: Listeners): Promise<WebSocket> {
    const address = new URL(url, globalThis.location?.href)
    address.protocol = address.protocol.replace('http', 'ws')
    const socket = new WebSocket(address, 'graphql-transport-ws')
    const send = (message: object) => socket.send(JSON.stringify(message))
    const limit = createLimit(OPEN_MS)
    limit.signal.addEventListener('abort', () => socket.close())
    return new Promise((resolve, reject) => {
      let isOpen = false
      socket.onopen = () =>
        send({ type: 'connection_init', payload: key ? { Authorization: `Bearer ${key}` } : {} })
      socket.onmessage = ({ data }) => {
        const message: SocketMessage = JSON.parse(data)
        if (message.type === 'ping') send({ type: 'pong' })
        if (message.type === 'connection_ack') {
          isOpen = true
          limit.end()
          resolve(socket)
        }
        for (const [id, listen] of listeners) if (!message.id || message.id === id) listen(message)
      }
      socket.onclose = ({ code, reason }) => {
        limit.end()
        const refusal = CLOSED[code]
        const Failure = isOpen || refusal ? NthError : NoSocket
        const extensions = refusal ? { code: refusal } : { code: 'NO_ANSWER', retryable: true }
        const error = new Failure(refusal ? reason : UNREACHABLE, extensions)
        reject(error)
        for (const listen of listeners.values()) listen(error)
        if (connection?.listeners === listeners) connection = undefined
      }
    })
  }

  return {
    async *subscribe(payload: Operation, signal: AbortSignal, onChunk: () => void): AsyncGenerator<Result> {
      const key = await keyOf(options)
      // With another key, those before keep theirs.
      if (connection?.key !== key) connection = undefined
      connection ??= connect(key)
      const own = connection
      const { listeners, opened } = own
      const id = String(++count)
      const received: (SocketMessage | NthError)[] = []
      let wake = () => {}
      let socket: WebSocket | undefined
      const onAbort = () => wake()
      const send = (message: SocketMessage) =>
        socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message))
      listeners.set(id, (message) => {
        onChunk()
        received.push(message)
        wake()
      })
      signal.addEventListener('abort', onAbort)
      try {
        socket = await opened
        send({ id, type: 'subscribe', payload })
        while (!signal.aborted) {
          const message = received.shift()
          if (message instanceof NthError) throw message
          // What is sent to none is only a sign of life. The data is that of the document.
          if (message?.type === 'next') yield message.payload as Result
          if (message?.type === 'error') yield { errors: message.payload as Result['errors'] }
          if (message?.type === 'error' || message?.type === 'complete') return
          if (!message) await new Promise<void>((resolve) => (wake = resolve))
        }
      } finally {
        signal.removeEventListener('abort', onAbort)
        listeners.delete(id)
        send({ id, type: 'complete' })
        // In a task of its own, as subscriptions may be stopped and started at once.
        setTimeout(() => {
          if (listeners.size > 0) return
          forget(own)
          opened.then((unused) => unused.close(1000)).catch(() => undefined)
        })
      }
    },
  }
}

/** Lets so many do something at once. Each waits for its turn, and ends it. */
function createTurns(most: number) {
  let free = most
  const waiting: (() => void)[] = []
  return async (): Promise<() => void> => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    return () => {
      const next = waiting.shift()
      if (next) next()
      else free += 1
    }
  }
}

/** A stream of events that doesn't end when its connection does. */
function eventStreamOf(open: (handlers: Handlers) => LiveStream): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let stream: LiveStream | undefined
  let isOpen = true
  return new ReadableStream({
    start(controller) {
      const write = (event: string, data: string) =>
        controller.enqueue(encoder.encode(`event: ${event}\ndata: ${data}\n\n`))
      stream = open({
        onData: (_, result) => write('next', JSON.stringify(result)),
        onError(error) {
          const { message, extensions, data } = error
          // What is beside data was sent with it.
          if (isRefusal(error) && !hasData(data))
            write('next', JSON.stringify({ errors: [{ message, extensions }] }))
        },
        onState(state) {
          if (state !== 'ended' || !isOpen) return
          write('complete', '')
          controller.close()
        },
      })
    },
    cancel() {
      isOpen = false
      stream?.stop()
    },
  })
}

/** Aborts after a time, which can be restarted, or with another signal. */
function createLimit(ms: number, other?: AbortSignal | null) {
  const controller = new AbortController()
  const abort = () => controller.abort()
  let timer: ReturnType<typeof setTimeout> | undefined
  const restart = () => {
    clearTimeout(timer)
    timer = setTimeout(abort, ms)
  }
  other?.addEventListener('abort', abort)
  restart()
  return {
    signal: controller.signal,
    restart,
    abort,
    end(): void {
      clearTimeout(timer)
      other?.removeEventListener('abort', abort)
    },
  }
}

/** Waits, but not longer than until a signal aborts. */
async function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  const limit = createLimit(ms, signal)
  await new Promise((resolve) => limit.signal.addEventListener('abort', resolve))
  limit.end()
}

function pauseMsAfter(failures: number, { retryAfterMs = 0 }: NthError): number {
  const ms = Math.min(SHORTEST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2)
  return Math.max(ms, retryAfterMs)
}

async function keyOf({ key }: ClientOptions): Promise<string | undefined> {
  try {
    return typeof key === 'function' ? await key() : key
  } catch (cause) {
    throw new NthError("The key can't be read.", { code: 'NO_KEY', retryable: true }, { cause })
  }
}

/** A request that is an object has its headers in itself, unless others are given. */
function headersOf(address: Address, init: RequestInit): Headers {
  return new Headers(init.headers ?? (address as Partial<Request>).headers)
}

function operationOf(address: Address, { body }: RequestInit): Operation {
  try {
    if (typeof body === 'string') return JSON.parse(body)
    return Object.fromEntries(new URL(String(address), 'http://localhost').searchParams)
  } catch {
    return {}
  }
}

/** Whether each field of each mutation in a document has an idempotency key, so that it can be repeated. */
function isKeyed(query: string): boolean {
  let text = query
    .replace(/#.*|"(?:\\.|[^"\\])*"|@\w+/g, '')
    .replace(/\(([^()]*)\)/g, (_, list) => (/\bidempotencyKey\s*:/.test(list) ? '!' : ''))
  // Leaves the names of fields at the top: the innermost selection goes first.
  for (let previous = ''; previous !== text; ) {
    previous = text
    text = text.replace(/(\{[^{}]*)\{[^{}]*\}/g, '$1')
  }
  const mutations = text.matchAll(/\bmutation\b[^{}]*\{([^{}]*)\}/g)
  return [...mutations].every(([, fields]) => /^([\s,]*(\w+\s*:\s*)?\w+!)+[\s,]*$/.test(fields ?? ''))
}

/** Reads a response of Nth. Throws if it is somebody else's. */
async function resultOf(response: Response): Promise<Result> {
  const text = await response.text()
  const { url, status, headers } = response
  const wait = headers.get('retry-after') ?? ''
  const retryAfterMs = Number(wait) * 1000 || Date.parse(wait) - Date.now()
  const details = retryAfterMs > 0 ? { retryAfterMs } : {}
  try {
    const { data, errors }: Result = JSON.parse(text)
    if (data !== undefined || errors) {
      for (const error of errors ?? []) error.extensions = { ...details, ...error.extensions }
      return { data, errors }
    }
  } catch {
    // Not JSON, or only a part of it.
  }
  const isBroken = response.ok && headers.get('content-type')?.includes('json')
  const isTemporary = isBroken || status >= 500 || status === 408 || status === 429
  throw new NthError(
    `${url || 'The server'} has status ${status}, and is not Nth.`,
    isTemporary ? { code: 'NO_ANSWER', retryable: true, ...details } : { code: 'BAD_RESPONSE' },
  )
}

function errorIn({ data, errors }: Result): NthError | undefined {
  const [first] = errors ?? []
  return first && new NthError(first.message, first.extensions ?? {}, { data })
}

function unreachable(cause: unknown): NthError {
  if (cause instanceof NthError) return cause
  return new NthError(UNREACHABLE, { code: 'NO_ANSWER', retryable: true }, { cause })
}

function dataOf<Data>({ result, error }: Answer, isEnough = (_data: unknown) => false): Data {
  if (error && !isEnough(error.data)) throw error
  // It is what the document asks for.
  return result?.data as Data
}

function hasData(data: unknown): boolean {
  return isObject(data) && Object.values(data).some((value) => value !== null)
}

/** Whether each field of a mutation has a result. */
function isApplied(data: unknown): boolean {
  return isObject(data) && Object.values(data).every((value) => value !== null)
}

/** A new idempotency key. Unlike `crypto.randomUUID` this works on pages without HTTPS. */
export function newKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}

/**
 * An action of a person, such as `action('buy Bulldozer')`. Send its `key` as the idempotency key, and call `done` when there
 * is a result. If there is none, such as after an error of the network, the next attempt has the same key, and the same
 * result.
 */
export function action(name: string): Action {
  const memory = createMemory('nth action ')
  let key = ''
  return {
    get key() {
      key = memory.get(name) || key || newKey()
      memory.set(name, key)
      return key
    },
    done() {
      key = ''
      memory.set(name, '')
    },
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null
}

/** Keeps texts by their names: in sessionStorage, or where there is none, in memory. */
function createMemory(prefix: string) {
  const values = new Map<string, string>()
  const stored = <T>(use: (storage: Storage) => T) => {
    try {
      return use(sessionStorage)
    } catch {
      // Not in a browser, denied, or full.
      return undefined
    }
  }
  return {
    get: (name: string) => values.get(name) || stored((storage) => storage.getItem(prefix + name)),
    /** @param value empty to forget it */
    set(name: string, value: string): void {
      values.set(name, value)
      stored((storage) => (value ? storage.setItem(prefix + name, value) : storage.removeItem(prefix + name)))
    },
  }
}
