import type { IncomingMessage } from 'node:http'
import {
  CloseCode,
  type ConnectionInitMessage,
  GRAPHQL_TRANSPORT_WS_PROTOCOL,
  type Message,
  MessageType,
  type SubscribeMessage,
  validateMessage,
} from 'graphql-ws'
import type { GraphQLParams } from 'graphql-yoga'
import type { WebSocket } from 'ws'
import type { Gate } from '../graphql/gate.ts'
import { costOfText, LONG_TEXT } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { NthError } from '../rules/errors.ts'
import { withoutRounding } from '../rules/jsonNumbers.ts'
import { type Access, type Authenticate, type Credential, takeCredential } from './authentication.ts'
import { HEAP_BYTES_A_BYTE, hasTooManyValues, MAX_UNAUTHORIZED_BYTES } from './body.ts'
import type { ClientKey, Clients } from './clients.ts'
import type { Connections } from './connections.ts'
import { HEAP_BYTES_A_CHARACTER } from './documents.ts'
import { HttpError, invalidCredential, overloaded } from './errors.ts'
import type { GraphqlHandler } from './graphqlHandler.ts'
import type { LiveQueries } from './liveQueries.ts'
import { SocketFlow } from './socketFlow.ts'
import type { Sink, Stream } from './stream.ts'

export interface SocketOptions extends Pick<GraphqlHandler, 'subscribe'>, Pick<Connections, 'charge'> {
  authenticate: Authenticate
  liveQueries: Pick<LiveQueries, 'connect'>
  clients: Clients
  gate: Gate
  notices: Notices
  /** How long a client may take to say who it is, in milliseconds. */
  initMs: number
}

export const MAX_OPERATIONS = 200
/** Maximum length of an operation's id, in characters: each of its messages has it. */
export const MAX_ID_LENGTH = 256
/** Memory of a WebSocket whose client has not said who it is, in bytes. Later it is charged as a stream. */
const BYTES_A_SOCKET = 16_000
/** Pause before another operation may be begun, in milliseconds. */
const RETRY_AFTER_MS = 1000
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

const INVALID = 'The message is not valid.'

export class GraphqlSocket {
  readonly #webSocket: WebSocket
  readonly #request: IncomingMessage
  readonly #options: SocketOptions
  readonly #client: ClientKey
  #credential: Credential | undefined
  readonly #operations = new Map<string, Operation>()
  /** Undefined until its client has said who it is. */
  #access: Access | undefined
  #hasInit = false
  readonly #initTimer: NodeJS.Timeout
  #disconnect: (() => void) | undefined
  /** Subscriptions that are being opened, also those that have been ended meanwhile. */
  #opening = 0
  /** Bytes that it is charged for itself. */
  #ownBytes = BYTES_A_SOCKET
  readonly #flow: SocketFlow

  constructor(
    webSocket: WebSocket,
    request: IncomingMessage,
    credential: Credential | undefined,
    options: SocketOptions,
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
    this.#flow = new SocketFlow(webSocket, request.socket, {
      isValid: (message, isBinary) => this.#isValid(message, isBinary),
      handle: (message) => this.#handle(message),
      refuse: (error) => this.refuse(error),
      charge: (bytes) => options.charge(this.#client, bytes),
    })
    webSocket.on('close', this.#onClosed)
    // Then it closes itself.
    webSocket.on('error', () => undefined)
    if (!options.charge(this.#client, this.#ownBytes)) this.refuse(overloaded())
    if (webSocket.protocol !== GRAPHQL_TRANSPORT_WS_PROTOCOL)
      this.close(CloseCode.SubprotocolNotAcceptable, 'Subprotocol not acceptable')
  }

  get isConnected(): boolean {
    return this.#disconnect !== undefined
  }

  send(json: string, onRead?: () => void): boolean {
    return this.#flow.send(json, onRead)
  }

  keepAlive(pauseMs: number): void {
    this.#flow.keepAlive(pauseMs)
  }

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

  readonly #onClosed = (): void => {
    clearTimeout(this.#initTimer)
    for (const operation of this.#operations.values()) operation.end()
    this.#disconnect?.()
    this.#giveBackOwn()
  }

  #giveBackOwn(): void {
    this.#options.charge(this.#client, -this.#ownBytes)
    this.#ownBytes = 0
  }

  /** Closes it if not. */
  #isValid(message: Buffer, isBinary: boolean): boolean {
    const isTooLong = !this.#access && message.length > MAX_UNAUTHORIZED_BYTES
    const isValid = !isBinary && !isTooLong && !hasTooManyValues(message)
    if (!isValid) this.close(CloseCode.BadRequest, INVALID)
    return isValid
  }

  async #handle(bytes: Buffer): Promise<void> {
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
        return this.close(CloseCode.BadRequest, INVALID)
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
      const details = { limit: MAX_OPERATIONS, retryAfterMs: RETRY_AFTER_MS }
      return void operation.refuse(errorsOf(new NthError('RATE_LIMITED', message, details)))
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
      // The caller's key may have been revoked since.
      const access = await this.#authenticate()
      // What is missing may be null, as in a body.
      const result = await subscribe(this.#request, access, payload as GraphQLParams, length)
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

  /** The client needs the operation no more. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#socket.remove(this.#id)
    this.#stream?.close()
  }
}

/** Undefined: it is none of the protocol. */
function messageIn(text: string): Message | undefined {
  try {
    return validateMessage(JSON.parse(withoutRounding(text)))
  } catch {
    return undefined
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
