/**
 * A client of Nth for browsers and Node, without dependencies: changes that count exactly once, live numbers, and one
 * class of errors.
 */

export interface ClientOptions {
  /** Address of the API. Default: `/graphql` of the page's server. */
  url?: string
  /** An API key or a token. A function is called for each request. */
  key?: string | (() => string | undefined | Promise<string | undefined>)
  /** More headers for each request. */
  headers?: Record<string, string>
  fetch?: typeof fetch
  /** Timeout of one attempt, in milliseconds. Default: 12 000; the server answers within 10 s, if only with an error. */
  timeoutMs?: number
  /** How long a mutation is retried, in milliseconds. Default: 15 000. */
  retryMs?: number
}

export interface QueryOptions {
  signal?: AbortSignal
}

export interface MutateOptions {
  /** Default: a new key. `null`: none, for a mutation that takes no key. */
  idempotencyKey?: string | null
  /**
   * A name for this action. Its key is kept until there is a result, in a browser also over a reload of the page: a call
   * with the same name repeats the same action instead of making another change.
   */
  remember?: string
  signal?: AbortSignal
}

/**
 * Where a subscription is.
 *
 *   connecting   its stream is being opened
 *   open         it has sent data, and will send more
 *   waiting      for its next attempt, after the stream broke or could not be opened
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
  signal?: AbortSignal
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

export interface NthClient {
  /** Returns the data. Throws an `NthError` if there are errors; its `data` has what could be read. */
  query<Data = unknown, Variables = object>(
    document: string | TypedDocument<Data, Variables>,
    variables?: NoInfer<Variables>,
    options?: QueryOptions,
  ): Promise<Data>
  /** Sends a mutation of one field until its outcome is known. With an idempotency key it is applied once. */
  mutate<Data = unknown, Variables = object>(
    document: string | TypedDocument<Data, Variables>,
    variables?: NoInfer<Variables>,
    options?: MutateOptions,
  ): Promise<Data>
  /** Whether an action of that name was begun and has no result yet. */
  remembered(name: string): boolean
  subscribe<Data = unknown, Variables = object>(
    document: string | TypedDocument<Data, Variables>,
    variables: NoInfer<Variables> | undefined,
    options: SubscribeOptions<Data>,
  ): Subscription<Variables>
}

/** `NO_ANSWER`: nobody answered. `BAD_RESPONSE`: what answered is not Nth. The others are those of the API. */
export type NthErrorCode =
  | 'NO_ANSWER'
  | 'BAD_RESPONSE'
  | 'BAD_USER_INPUT'
  | 'NOT_FOUND'
  | 'LIMIT_REACHED'
  | 'OUT_OF_RANGE'
  | 'SEQUENCE_EXHAUSTED'
  | 'RESERVATION_CLOSED'
  | 'IDEMPOTENCY_KEY_REUSED'
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'OUTCOME_UNKNOWN'
  | 'INTERNAL_SERVER_ERROR'
  | (string & {})

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
const SHORTEST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 15_000

/** The server sends a comment every 12 s; after three of them are missing, the connection is taken for dead. */
const SILENCE_MS = 45_000

/** Codes of errors that say nothing about an earlier attempt with the same idempotency key. */
const SAYS_NOTHING = ['UNAUTHENTICATED', 'FORBIDDEN', 'INTERNAL_SERVER_ERROR', 'BAD_RESPONSE', 'BAD_REQUEST']

export function createClient(options: ClientOptions = {}): NthClient {
  const { url = '/graphql', timeoutMs = 12_000, retryMs = 15_000 } = options
  const memory = createMemory(`nth ${url} `)

  const post: Post = async (body, more, signal) => {
    const key = typeof options.key === 'function' ? await options.key() : options.key
    const headers = {
      'content-type': 'application/json',
      ...options.headers,
      ...(key && { authorization: `Bearer ${key}` }),
      ...more,
    }
    return (options.fetch ?? fetch)(url, { method: 'POST', headers, body, signal })
  }

  async function ask<Data>(
    body: string,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<Data> {
    signal?.throwIfAborted()
    const limit = new TimeLimit(timeoutMs, signal)
    try {
      const response = await post(body, { accept: 'application/json', ...headers }, limit.signal)
      return dataOf(await resultOf(response))
    } catch (error) {
      signal?.throwIfAborted()
      throw knownError(error)
    } finally {
      limit.end()
    }
  }

  return {
    query: (document, variables, { signal } = {}) => ask(bodyOf(document, variables), {}, signal),

    async mutate<Data>(document: AnyDocument, variables?: unknown, options: MutateOptions = {}) {
      const { remember, signal } = options
      const body = bodyOf(document, variables)
      const kept = remember === undefined ? undefined : memory.get(remember)
      const key = options.idempotencyKey === undefined ? (kept ?? newKey()) : options.idempotencyKey
      signal?.throwIfAborted()
      if (remember !== undefined && key !== null) memory.set(remember, key)
      const isSettled = () =>
        remember !== undefined && memory.get(remember) === key && memory.delete(remember)
      const end = performance.now() + retryMs
      /** The first error that left open whether it was applied. */
      let doubt: NthError | undefined
      for (let attempt = 0; ; attempt++) {
        try {
          const data = await ask<Data>(body, key === null ? {} : { 'idempotency-key': key }, signal)
          isSettled()
          return data
        } catch (error) {
          if (!(error instanceof NthError)) throw error
          if (isApplied(error.data)) {
            isSettled()
            // Only a read below the field failed.
            return error.data as Data
          }
          const isLost = error.code === 'NO_ANSWER' || error.code === 'OUTCOME_UNKNOWN'
          if (isLost) doubt ??= error
          const pauseMs = Math.max(backoffMs(attempt), error.retryAfterMs ?? 0)
          const isRetried = error.retryable && !(isLost && key === null)
          if (isRetried && performance.now() + pauseMs <= end) {
            await pause(pauseMs, signal)
            continue
          }
          const isOutcomeUnknown =
            doubt !== undefined && (error.retryable || isLost || SAYS_NOTHING.includes(error.code))
          if (!isOutcomeUnknown && !error.retryable) isSettled()
          const reason = isOutcomeUnknown && error.retryable ? (doubt ?? error) : error
          throw Object.assign(reason, { isOutcomeUnknown, retryable: isRetried })
        }
      }
    },

    remembered: (name) => memory.get(name) !== undefined,

    subscribe(document, variables, options) {
      const stream = new LiveStream(
        (changed, signal, onChunk) => eventsOf(post, bodyOf(document, changed), signal, onChunk),
        variables as object | undefined,
        options as SubscribeOptions<unknown>,
      )
      return {
        stop: () => stream.stop(),
        retryNow: () => stream.retryNow(),
        update: (changed) => stream.update(changed as object),
      }
    },
  }
}

/**
 * The newer of two states of the same thing, by `revision`: of two objects, of lists of objects with an `id`, or of
 * results with such objects and lists. A list has what either has, as an event has only what changed.
 */
export function newer<T>(previous: T | null | undefined, next: T): T {
  if (!isObject(previous)) return next
  // One of both is returned, or what has the fields of both.
  const [before, after] = [previous, next] as [Json, unknown]
  if (Array.isArray(before) && Array.isArray(after)) return newerList(before, after) as T
  if (!isObject(after)) return after === null || after === undefined ? (previous as T) : next
  if (before.id !== after.id) return next
  if (typeof before.revision === 'number' && typeof after.revision === 'number')
    return (before.revision > after.revision ? { ...after, ...before } : { ...before, ...after }) as T
  const entries = Object.entries(after).map(([name, value]) => [name, newer(before[name], value)])
  return { ...before, ...Object.fromEntries(entries) } as T
}

function newerList(before: unknown[], after: unknown[]): unknown[] {
  if (![...before, ...after].every((item) => isObject(item) && typeof item.id === 'string')) return after
  const items = new Map<unknown, unknown>()
  for (const item of [...before, ...after] as Json[]) items.set(item.id, newer(items.get(item.id), item))
  return [...items.values()]
}

type Json = Record<string, unknown>
type AnyDocument = string | TypedDocument<unknown, never>
type Open = (
  variables: object | undefined,
  signal: AbortSignal,
  onChunk: () => void,
) => AsyncGenerator<Result>
type Post = (body: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Response>

interface Result {
  data?: unknown
  errors?: { message: string; extensions?: Json }[]
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null
}

function bodyOf(document: unknown, variables: unknown): string {
  const query =
    (isObject(document) && (document as TypedDocument<never, never>).loc?.source.body) || String(document)
  if (query === '[object Object]') throw new TypeError('The document has no text: pass print(document).')
  return JSON.stringify({ query, variables })
}

/** A new idempotency key. Unlike `crypto.randomUUID` this works on pages without HTTPS. */
function newKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}

function backoffMs(attempt: number): number {
  return Math.min(SHORTEST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * (0.5 + Math.random())
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Aborts after a time, or with another signal. */
class TimeLimit {
  readonly #controller = new AbortController()
  readonly #abort = () => this.#controller.abort()
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #ms: number
  readonly #other: AbortSignal | undefined

  constructor(ms: number, other?: AbortSignal) {
    this.#ms = ms
    this.#other = other
    other?.addEventListener('abort', this.#abort)
    this.restart()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  restart(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#abort, this.#ms)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#other?.removeEventListener('abort', this.#abort)
  }
}

/** Reads a GraphQL response. */
async function resultOf(response: Response): Promise<Result> {
  const text = await response.text()
  let result: unknown
  try {
    result = JSON.parse(text)
  } catch {
    // Answered below.
  }
  const retryAfterMs = retryAfterOf(response)
  if (isObject(result) && ('data' in result || Array.isArray(result.errors))) {
    const { data, errors } = result as Result
    if (!errors || retryAfterMs === undefined) return { data, ...(errors && { errors }) }
    return {
      data,
      errors: errors.map((error) => ({ ...error, extensions: { retryAfterMs, ...error.extensions } })),
    }
  }
  const { status } = response
  const isTemporary = status >= 500 || status === 408 || status === 429
  const type = response.headers.get('content-type')
  throw new NthError(
    `${response.url || 'The server'} did not answer as Nth does: status ${status}, ${type ?? 'without a type'}.`,
    isTemporary
      ? { code: 'NO_ANSWER', retryable: true, ...(retryAfterMs !== undefined && { retryAfterMs }) }
      : { code: 'BAD_RESPONSE' },
  )
}

/** What the header `Retry-After` asks for, in milliseconds. */
function retryAfterOf({ headers }: Response): number | undefined {
  const value = headers.get('retry-after')
  if (!value) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return ms >= 0 ? ms : undefined
}

function dataOf<Data>({ data, errors }: Result): Data {
  const [error] = errors ?? []
  if (!error) return data as Data
  throw new NthError(error.message, error.extensions ?? {}, { data })
}

function knownError(error: unknown): NthError {
  if (error instanceof NthError) return error
  return new NthError(
    "The server can't be reached.",
    { code: 'NO_ANSWER', retryable: true },
    { cause: error },
  )
}

/** Whether each field of a mutation has a result. */
function isApplied(data: unknown): boolean {
  return isObject(data) && Object.values(data).every((value) => value !== null)
}

/** Keeps texts by names: in sessionStorage, or where there is none, in memory. */
function createMemory(prefix: string) {
  const values = new Map<string, string>()
  const stored = <T>(use: (storage: Storage) => T): T | undefined => {
    try {
      return use(sessionStorage)
    } catch {
      // Not in a browser, denied or full.
      return undefined
    }
  }
  return {
    get: (name: string) =>
      values.get(name) ?? stored((storage) => storage.getItem(prefix + name)) ?? undefined,
    set(name: string, value: string): void {
      values.set(name, value)
      stored((storage) => storage.setItem(prefix + name, value))
    },
    delete(name: string): void {
      values.delete(name)
      stored((storage) => storage.removeItem(prefix + name))
    },
  }
}

/** A subscription that is kept open. `#state` is changed by `#enter` only. */
class LiveStream {
  readonly #open: Open
  readonly #options: SubscribeOptions<unknown>
  #variables: object | undefined
  #state: SubscriptionState | undefined
  #isStopped = false
  #failures = 0
  #connection: AbortController | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  /** The newest state of each object that was sent. */
  #seen = new Map<string, Json>()

  constructor(open: Open, variables: object | undefined, options: SubscribeOptions<unknown>) {
    this.#open = open
    this.#variables = variables
    this.#options = options
    page()?.addEventListener('visibilitychange', this.#onVisibility)
    options.signal?.addEventListener('abort', this.stop)
    if (options.signal?.aborted) this.stop()
    else this.#restart()
  }

  readonly stop = (): void => {
    this.#isStopped = true
    page()?.removeEventListener('visibilitychange', this.#onVisibility)
    this.#options.signal?.removeEventListener('abort', this.stop)
    this.#close()
    this.#enter('ended')
  }

  retryNow(): void {
    if (this.#isStopped || (this.#state !== 'waiting' && this.#state !== 'ended')) return
    this.#failures = 0
    this.#restart()
  }

  update(variables: object): void {
    if (this.#isStopped || JSON.stringify(variables) === JSON.stringify(this.#variables)) return
    this.#variables = variables
    this.#seen.clear()
    this.#failures = 0
    this.#restart()
  }

  readonly #onVisibility = (): void => {
    if (this.#state === 'ended' || (page()?.hidden === true) === (this.#state === 'paused')) return
    this.#failures = 0
    this.#restart()
  }

  #restart(): void {
    this.#close()
    if (page()?.hidden) this.#enter('paused')
    else void this.#connect()
  }

  #close(): void {
    clearTimeout(this.#timer)
    this.#connection?.abort()
    this.#connection = undefined
  }

  async #connect(): Promise<void> {
    const connection = new AbortController()
    this.#connection = connection
    this.#enter('connecting')
    let error: NthError | undefined
    try {
      if (await this.#read(connection.signal)) this.#end()
    } catch (cause) {
      error = knownError(cause)
    }
    if (connection.signal.aborted) return
    this.#close()
    const hadData = this.#failures === 0 && this.#state === 'open'
    if (error && isRefusal(error)) {
      this.#enter('ended')
      this.#call(() => this.#options.onError?.(error))
      return
    }
    const pauseMs = Math.max(backoffMs(this.#failures++), error?.retryAfterMs ?? 0)
    this.#timer = setTimeout(() => this.#restart(), pauseMs)
    this.#enter('waiting')
    // A stream that breaks is opened again first: the server may have been restarted.
    if (error && !(hadData && error.code === 'NO_ANSWER')) this.#call(() => this.#options.onError?.(error))
  }

  #end(): void {
    this.#close()
    this.#enter('ended')
  }

  /** Passes events on. Returns true when the subscription is complete. */
  async #read(signal: AbortSignal): Promise<boolean> {
    const limit = new TimeLimit(SILENCE_MS, signal)
    try {
      for await (const { data, errors } of this.#open(this.#variables, limit.signal, () => limit.restart())) {
        if (signal.aborted) return false
        const [first] = errors ?? []
        const error = first && new NthError(first.message, first.extensions ?? {}, { data })
        if (error && (!isObject(data) || Object.values(data).every((value) => value === null))) throw error
        this.#failures = 0
        this.#enter('open')
        this.#call(() => this.#options.onData(this.#newest(data, '')))
        if (error) this.#call(() => this.#options.onError?.(error))
        if (signal.aborted) return false
      }
      return true
    } finally {
      limit.end()
    }
  }

  /** Puts newer states in the place of older ones, which another process may send after the stream was opened again. */
  #newest(value: unknown, path: string): unknown {
    if (Array.isArray(value)) return value.map((item) => this.#newest(item, path))
    if (!isObject(value)) return value
    const place = `${path} ${value.id}`
    if (typeof value.revision !== 'number') {
      const entries = Object.entries(value).map(([name, field]) => [
        name,
        this.#newest(field, `${path}.${name}`),
      ])
      return Object.fromEntries(entries)
    }
    const seen = this.#seen.get(place)
    if (seen && Number(seen.revision) > value.revision) return seen
    this.#seen.set(place, value)
    return value
  }

  #enter(state: SubscriptionState): void {
    if (state === this.#state) return
    this.#state = state
    this.#call(() => this.#options.onState?.(state))
  }

  /** An error of the caller's function is not one of the stream. */
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

function page(): Document | undefined {
  return typeof document === 'undefined' ? undefined : document
}

/** Whether the same subscription will be refused again. */
function isRefusal({ code, retryable }: NthError): boolean {
  return !retryable && code !== 'INTERNAL_SERVER_ERROR' && code !== 'BAD_RESPONSE'
}

/** The results of a subscription by server-sent events, until it is complete. Throws when its connection ends before. */
async function* eventsOf(
  post: Post,
  body: string,
  signal: AbortSignal,
  onChunk: () => void,
): AsyncGenerator<Result> {
  const response = await post(body, { accept: 'text/event-stream' }, signal)
  if (!response.body || !response.headers.get('content-type')?.startsWith('text/event-stream')) {
    dataOf(await resultOf(response))
    throw new NthError('This is not a subscription.', { code: 'BAD_RESPONSE' })
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
    // A line feed may follow in the next chunk.
    const rest = text.endsWith('\r') ? '\r' : ''
    const lines = text.slice(0, text.length - rest.length).split(/\r\n|\n|\r/)
    text = (lines.pop() ?? '') + rest
    for (const line of lines) {
      const [, field, content = ''] = /^(\w+)(?:: ?(.*))?$/s.exec(line) ?? []
      if (field === 'event') event = content
      else if (field === 'data') data += content
      if (line !== '') continue
      if (event === 'complete') return
      if (event === 'next') yield JSON.parse(data)
      event = data = ''
    }
  }
}
