/*
 * Subscriptions over WebSockets: the protocol `graphql-transport-ws`, as Apollo, urql, Relay and others speak it.
 * https://github.com/graphql/graphql-over-http/blob/main/rfcs/GraphQLOverWebSocket.md
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as endOfTick } from 'node:timers/promises'
import {
  CloseCode,
  type ConnectionInitMessage,
  GRAPHQL_TRANSPORT_WS_PROTOCOL,
  type Message,
  MessageType,
  type SubscribeMessage,
  validateMessage,
} from 'graphql-ws'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Gate } from '../graphql/gate.ts'
import { costOfText, LONG_TEXT } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { NthError } from '../rules/errors.ts'
import { withoutRounding } from '../rules/jsonNumbers.ts'
import { type Access, type Authenticate, type Credential, takeCredential } from './authentication.ts'
import {
  BYTES_A_CHUNK,
  HEAP_BYTES_A_BYTE,
  hasTooManyValues,
  MAX_BODY_BYTES,
  MAX_UNAUTHORIZED_BYTES,
} from './body.ts'
import type { ClientKey, Clients } from './clients.ts'
import { type Connections, endWith } from './connections.ts'
import { HEAP_BYTES_A_CHARACTER } from './documents.ts'
import { HttpError, invalidCredential, overloaded } from './errors.ts'
import type { GraphqlHandler } from './graphqlHandler.ts'
import type { LiveQueries } from './liveQueries.ts'
import type { Sink, Stream } from './stream.ts'

interface SocketsOptions extends Pick<GraphqlHandler, 'subscribe'>, Pick<Connections, 'charge'> {
  /** Why a request may not open a WebSocket; undefined: it may. */
  refuse(request: IncomingMessage): HttpError | undefined
  authenticate: Authenticate
  liveQueries: Pick<LiveQueries, 'connect'>
  clients: Clients
  gate: Gate
  notices: Notices
  /** How long a client may take to say who it is, in milliseconds. */
  initMs: number
}

/** Maximum operations of a WebSocket. */
const MAX_OPERATIONS = 200
/** Messages that may wait for their turn until no more are read. */
const MAX_QUEUED = 16
/** Maximum length of an operation's id, in characters: each of its messages has it. */
const MAX_ID_LENGTH = 256
/** Maximum parts in which a client may send a message. */
const MAX_FRAGMENTS = 256
/** Memory of a WebSocket whose client has not said who it is, in bytes. Later it is charged as a stream. */
const BYTES_A_SOCKET = 16_000
/** Memory of a message that waits for its turn, in bytes, besides its text. */
const BYTES_A_MESSAGE = 500
/** Maximum frames with pings and pongs in a tick: clients send one from time to time. */
const MAX_CONTROLS = 100
/** Length of the frame of a ping or a pong, in bytes, besides its text (RFC 6455, 5.2). */
const CONTROL_HEAD_BYTES = 6
/** Time for a client to answer that it closes, too. */
const LINGER_MS = 1000
/** Maximum length of the reason of a close, in bytes (RFC 6455, 5.5). */
const MAX_REASON_BYTES = 123

/** Codes of RFC 6455 and its registry: the client comes back, later or to another server. */
const GOING_AWAY = 1001
const SERVICE_RESTART = 1012
const TRY_AGAIN_LATER = 1013

/** The codes with which a connection is closed that an error refuses, by its status. Clients come back after others. */
const CLOSE_CODES: Partial<Record<number, number>> = {
  400: CloseCode.BadRequest,
  401: CloseCode.Unauthorized,
  403: CloseCode.Forbidden,
}

/** Not in the types of `ws`. */
const CLOSE_OPTIONS = { closeTimeout: LINGER_MS }

/** Serves WebSockets on a server. */
export function openSockets(server: Server, options: SocketsOptions) {
  const open = new Set<GraphqlSocket>()
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // What a client compresses could fill the memory.
    perMessageDeflate: false,
    maxPayload: MAX_BODY_BYTES,
    maxFragments: MAX_FRAGMENTS,
    // Each would be a write of its own.
    autoPong: false,
    ...CLOSE_OPTIONS,
    handleProtocols: (names) => names.has(GRAPHQL_TRANSPORT_WS_PROTOCOL) && GRAPHQL_TRANSPORT_WS_PROTOCOL,
  })

  webSockets.on('wsClientError', ({ message }, socket) => {
    endWith(
      socket as Socket,
      new HttpError(400, 'BAD_REQUEST', `This is no WebSocket handshake: ${message}.`),
    )
  })

  server.on('upgrade', (request: IncomingMessage, stream, head: Buffer) => {
    // A server of HTTP has no other streams.
    const socket = stream as Socket
    if (request.headers.upgrade?.toLowerCase() !== 'websocket') return readAgain(server, request, head)
    const credential = takeCredential(request)
    const error = credential instanceof HttpError ? credential : options.refuse(request)
    if (error) return endWith(socket, error)
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      const opened = new GraphqlSocket(webSocket, request, credential as Credential | undefined, options)
      open.add(opened)
      webSocket.on('close', () => open.delete(opened))
    })
  })

  return {
    /** Closes those whose clients haven't said who they are; the others are broken with the live queries. */
    close(): void {
      for (const socket of open) if (!socket.isConnected) socket.break()
    },
  }
}

/**
 * Answers a request that offers another protocol, such as h2c, as if it did not, as servers may (RFC 9110, 7.8). Node has
 * already stopped to read it as a request, so it is read again, without the offer.
 */
function readAgain(server: Server, { method, url, rawHeaders, socket }: IncomingMessage, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/1.1`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value] = rawHeaders.slice(index, index + 2)
    if (!/^(upgrade|http2-settings|connection)$/i.test(name)) lines.push(`${name}: ${value}`)
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}

/**
 * A WebSocket with its operations.
 *
 * Its messages are handled one after another, and one a tick, so that no client keeps the others waiting. None is handled
 * while the client has not read what it was sent, and the socket is not read while that lasts, or while many messages
 * wait. So what a client is sent in response to its messages is bounded, whatever it sends.
 */
class GraphqlSocket {
  readonly #webSocket: WebSocket
  readonly #request: IncomingMessage
  readonly #options: SocketsOptions
  readonly #client: ClientKey
  #credential: Credential | undefined
  readonly #operations = new Map<string, Operation>()
  /** Undefined until its client has said who it is. */
  #access: Access | undefined
  #hasInit = false
  readonly #initTimer: NodeJS.Timeout
  #disconnect: (() => void) | undefined
  /** The one that is being handled, and those that wait for their turn after it. */
  readonly #messages: Buffer[] = []
  /** Subscriptions that are being opened, also those that have been ended meanwhile. */
  #opening = 0
  /** Bytes that have arrived of a message, in how many chunks, and since when, on the clock of `performance.now()`. */
  #partial = { bytes: 0, chunks: 0, since: 0 }
  /** The ping frames and pong frames of this tick; undefined: none. */
  #control: { frames: number; ping: Buffer | undefined } | undefined
  /** Bytes that it is charged for itself. */
  #ownBytes = BYTES_A_SOCKET
  #lastPing = 0
  #hasAnswered = true
  /** Called when the client has read what was sent. */
  #onRead: (() => void)[] = []

  constructor(
    webSocket: WebSocket,
    request: IncomingMessage,
    credential: Credential | undefined,
    options: SocketsOptions,
  ) {
    this.#webSocket = webSocket
    this.#request = request
    this.#credential = credential
    this.#options = options
    this.#client = options.clients.limited(request)
    this.#initTimer = setTimeout(
      () => this.close(CloseCode.ConnectionInitialisationTimeout, 'Connection initialisation timeout'),
      options.initMs,
    )
    webSocket.on('message', this.#onMessage)
    webSocket.on('ping', (ping) => this.#onControl(ping, ping))
    webSocket.on('pong', (pong) => this.#onControl(pong, undefined))
    webSocket.on('close', this.#onClosed)
    // Then it closes itself.
    webSocket.on('error', () => undefined)
    const { socket } = request
    // Before the WebSocket reads it.
    socket.prependListener('data', this.#onData)
    socket.on('drain', this.#onDrain)
    // Its client reads nothing.
    socket.on('timeout', () => webSocket.terminate())
    if (!options.charge(this.#client, this.#ownBytes)) this.refuse(overloaded())
    if (webSocket.protocol !== GRAPHQL_TRANSPORT_WS_PROTOCOL)
      this.close(CloseCode.SubprotocolNotAcceptable, 'Subprotocol not acceptable')
  }

  get isConnected(): boolean {
    return this.#disconnect !== undefined
  }

  /** Sends a message, in JSON. Returns false if the client hasn't read it yet; then `onRead` is called when it has. */
  send(json: string, onRead?: () => void): boolean {
    this.#webSocket.send(json)
    this.#setFlow()
    if (this.#isRead) return true
    if (onRead) this.#onRead.push(onRead)
    return false
  }

  /**
   * Asks the client from time to time whether it is there, and gives it up if it didn't answer the last time. While it
   * isn't read, its answer can't arrive; one that reads nothing is closed after a while in any case.
   */
  keepAlive(pauseMs: number): void {
    if (this.#webSocket.isPaused) return
    const now = performance.now()
    if (now - this.#lastPing < pauseMs) return
    const isSlow = this.#partial.bytes > 0 && now - this.#partial.since > pauseMs
    if (!this.#hasAnswered || isSlow) return void this.#webSocket.terminate()
    this.#lastPing = now
    this.#hasAnswered = false
    this.send('{"type":"ping"}')
  }

  /** Ends it; its client connects again. */
  break(): void {
    this.close(GOING_AWAY, 'Nth is shutting down.')
  }

  /** Closes it for what an error says, or so that its client comes back later. */
  refuse(error: unknown): void {
    if (!(error instanceof NthError)) {
      this.#options.notices.fault(error)
      return void this.close(CloseCode.InternalServerError, 'Unexpected error.')
    }
    const status = error instanceof HttpError ? error.status : 400
    this.close(CLOSE_CODES[status] ?? TRY_AGAIN_LATER, error.message)
  }

  close(code: number, reason: string): void {
    this.#webSocket.close(code, Buffer.byteLength(reason) > MAX_REASON_BYTES ? shortened(reason) : reason)
  }

  /** Removes an operation, whose id is free again. */
  remove(id: string): void {
    this.#operations.delete(id)
  }

  get #isOpen(): boolean {
    return this.#webSocket.readyState === this.#webSocket.OPEN
  }

  /** Whether the client has read what it was sent, but for little. */
  get #isRead(): boolean {
    return !this.#request.socket.writableNeedDrain
  }

  readonly #onClosed = (): void => {
    clearTimeout(this.#initTimer)
    for (const operation of this.#operations.values()) operation.end()
    this.#disconnect?.()
    this.#setPartial(0, 0)
    this.#giveBackOwn()
    this.#onDrain()
  }

  readonly #onDrain = (): void => {
    for (const onRead of this.#onRead.splice(0)) onRead()
    this.#setFlow()
  }

  /** Stops or goes on to read the socket. */
  #setFlow(): void {
    const isFlowing = this.#isRead && !this.#control && this.#messages.length < MAX_QUEUED
    if (isFlowing !== this.#webSocket.isPaused) return
    if (isFlowing) this.#webSocket.resume()
    else this.#webSocket.pause()
  }

  readonly #onData = ({ length }: Buffer): void => {
    const { bytes, chunks } = this.#partial
    if (this.#isOpen && !this.#setPartial(bytes + length, chunks + 1)) this.#webSocket.terminate()
  }

  /** Charges what has arrived of a message. Returns false if there is no memory for it. */
  #setPartial(bytes: number, chunks: number): boolean {
    const before = this.#partial
    this.#partial = { bytes, chunks, since: before.bytes > 0 ? before.since : performance.now() }
    const more = bytes - before.bytes + (chunks - before.chunks) * BYTES_A_CHUNK
    return this.#options.charge(this.#client, more)
  }

  #giveBackOwn(): void {
    this.#options.charge(this.#client, -this.#ownBytes)
    this.#ownBytes = 0
  }

  /**
   * Does not count a ping or pong as part of a message, and answers only the last ping of a tick, as one may (RFC 6455, 5.5.3).
   * Nothing more is read in this tick: the system would give it up to 2 MB of pings at once.
   */
  #onControl({ length }: Buffer, ping: Buffer | undefined): void {
    if (!this.#isOpen) return
    const bytes = Math.max(0, this.#partial.bytes - length - CONTROL_HEAD_BYTES)
    this.#setPartial(bytes, bytes > 0 ? this.#partial.chunks : 0)
    if (!this.#control) setImmediate(this.#endControl)
    const { frames = 0, ping: last } = this.#control ?? {}
    this.#control = { frames: frames + 1, ping: ping ?? last }
    this.#setFlow()
    // Not closed: more of them would be read until its client answers.
    if (frames === MAX_CONTROLS) this.#webSocket.terminate()
  }

  readonly #endControl = (): void => {
    const ping = this.#control?.ping
    this.#control = undefined
    if (ping) this.#webSocket.pong(ping)
    this.#setFlow()
  }

  readonly #onMessage = (data: unknown, isBinary: boolean): void => {
    this.#setPartial(0, 0)
    // What arrives until its client closes it as well.
    if (!this.#isOpen) return
    this.#hasAnswered = true
    // As its type is by default.
    const message = data as Buffer
    const isTooLong = !this.#access && message.length > MAX_UNAUTHORIZED_BYTES
    if (isBinary || isTooLong || hasTooManyValues(message))
      return void this.close(CloseCode.BadRequest, 'The message is not valid.')
    const hasRoom = this.#options.charge(this.#client, bytesOf(message))
    this.#messages.push(message)
    if (!hasRoom) this.refuse(overloaded())
    this.#setFlow()
    if (this.#messages.length === 1) void this.#handleAll()
  }

  async #handleAll(): Promise<void> {
    for (let [message] = this.#messages; message; [message] = this.#messages) {
      try {
        if (!this.#isRead) await new Promise<void>((resolve) => this.#onRead.push(resolve))
        await this.#handle(message)
      } catch (error) {
        this.refuse(error)
      }
      this.#messages.shift()
      this.#options.charge(this.#client, -bytesOf(message))
      this.#setFlow()
      if (this.#messages.length > 0 && this.#isOpen) await endOfTick()
    }
  }

  async #handle(bytes: Buffer): Promise<void> {
    if (!this.#isOpen) return
    const { length } = bytes
    if (length > LONG_TEXT && this.#access)
      await this.#options.gate.untilRoom(costOfText(length), this.#access.owner)
    const message = messageIn(bytes.toString())
    switch (message?.type) {
      case MessageType.ConnectionInit:
        return this.#init(message)
      case MessageType.Ping:
        return void this.send('{"type":"pong"}')
      case MessageType.Pong:
        return
      case MessageType.Subscribe:
        return this.#subscribe(message, length)
      case MessageType.Complete:
        return this.#operations.get(message.id)?.end()
      default:
        return this.close(CloseCode.BadRequest, 'The message is not valid.')
    }
  }

  async #init({ payload = {} }: ConnectionInitMessage): Promise<void> {
    if (this.#hasInit)
      return this.close(CloseCode.TooManyInitialisationRequests, 'Too many initialisation requests')
    this.#hasInit = true
    clearTimeout(this.#initTimer)
    const authorization = payload?.Authorization ?? payload?.authorization
    if (authorization !== undefined) {
      if (typeof authorization !== 'string') throw invalidCredential()
      this.#request.headers.authorization = authorization
      const credential = takeCredential(this.#request)
      if (credential instanceof HttpError) throw credential
      this.#credential = credential
    }
    const access = await this.#authenticate()
    if (!this.#isOpen) return
    this.#disconnect = this.#options.liveQueries.connect(this.#request, access.owner, this)
    this.#giveBackOwn()
    this.#access = access
    this.#lastPing = performance.now()
    this.send('{"type":"connection_ack"}')
  }

  #authenticate(): Access | Promise<Access> {
    return this.#options.authenticate(this.#request, this.#credential)
  }

  #subscribe({ id, payload }: SubscribeMessage, length: number): void {
    if (!this.#access) return void this.close(CloseCode.Unauthorized, 'Unauthorized')
    if (id.length > MAX_ID_LENGTH)
      return void this.close(CloseCode.BadRequest, `An id may have at most ${MAX_ID_LENGTH} characters.`)
    if (this.#operations.has(id))
      return void this.close(CloseCode.SubscriberAlreadyExists, `Subscriber for ${id} already exists`)
    const operation = new Operation(this, id)
    if (Math.max(this.#operations.size, this.#opening) >= MAX_OPERATIONS) {
      const message = `A WebSocket may have at most ${MAX_OPERATIONS} operations. Complete one first.`
      const error = new NthError('RATE_LIMITED', message, { limit: MAX_OPERATIONS, retryAfterMs: LINGER_MS })
      return void operation.refuse(errorsOf(error))
    }
    this.#operations.set(id, operation)
    void this.#open(operation, payload, length).catch((error) => this.refuse(error))
  }

  async #open(operation: Operation, payload: SubscribeMessage['payload'], length: number): Promise<void> {
    const { charge, subscribe } = this.#options
    const bytes = length * HEAP_BYTES_A_BYTE + payload.query.length * HEAP_BYTES_A_CHARACTER
    this.#opening += 1
    try {
      if (!charge(this.#client, bytes)) return operation.refuse(errorsOf(overloaded()))
      // Its key may have been revoked since.
      const result = await subscribe(this.#request, await this.#authenticate(), paramsOf(payload), length)
      if ('serve' in result) result.serve(operation)
      else operation.refuse(JSON.stringify(JSON.parse(result.json).errors))
    } finally {
      this.#opening -= 1
      charge(this.#client, -bytes)
    }
  }
}

/** A subscription of a WebSocket. */
class Operation implements Sink {
  readonly #socket: GraphqlSocket
  readonly #id: string
  /** How its messages begin, in JSON. */
  readonly #start: string
  #stream: Stream | undefined
  #isOver = false

  constructor(socket: GraphqlSocket, id: string) {
    this.#socket = socket
    this.#id = id
    this.#start = `{"id":${JSON.stringify(id)},"type":`
  }

  start(stream: Stream): boolean {
    this.#stream = stream
    return !this.#isOver
  }

  send(json: string, onRead: () => void): boolean {
    return this.#socket.send(`${this.#start}"next","payload":${json}}`, onRead)
  }

  /** Ends it before it has begun, with errors, in JSON. */
  refuse(errors: string): void {
    if (this.#isOver) return
    this.end()
    this.#socket.send(`${this.#start}"error","payload":${errors}}`)
  }

  fail(error: NthError): void {
    if (!this.#isOver) this.#socket.refuse(error)
  }

  break(): void {
    if (!this.#isOver) this.#socket.close(SERVICE_RESTART, 'The changes could not be read.')
  }

  /** Its client needs it no more. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#socket.remove(this.#id)
    this.#stream?.close()
  }
}

/** Memory of a message that waits for its turn, in bytes. */
function bytesOf({ length }: Buffer): number {
  return length * HEAP_BYTES_A_BYTE + BYTES_A_MESSAGE
}

/** Undefined: it is none of the protocol. */
function messageIn(text: string): Message | undefined {
  try {
    return validateMessage(JSON.parse(withoutRounding(text)))
  } catch {
    return undefined
  }
}

/** What a message has may have null where GraphQL over HTTP has nothing. */
function paramsOf({ query, operationName, variables, extensions }: SubscribeMessage['payload']) {
  return {
    query,
    ...(operationName != null && { operationName }),
    ...(variables != null && { variables }),
    ...(extensions != null && { extensions }),
  }
}

function errorsOf({ message, extensions }: NthError): string {
  return JSON.stringify([{ message, extensions }])
}

/** As many characters of a reason as surely fit, whatever they are. */
function shortened(reason: string): string {
  let end = Math.min(reason.length, MAX_REASON_BYTES)
  while (Buffer.byteLength(reason.slice(0, end)) > MAX_REASON_BYTES - 3) end -= 1
  return `${reason.slice(0, end)}…`
}
