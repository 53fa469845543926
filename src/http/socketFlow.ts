import type { Socket } from 'node:net'
import { setImmediate as endOfTick } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import { BYTES_A_CHUNK, HEAP_BYTES_A_BYTE } from './body.ts'
import { overloaded } from './errors.ts'

interface MessageHandler {
  /** Whether a message may be handled at all. */
  isValid(message: Buffer, isBinary: boolean): boolean
  handle(message: Buffer): Promise<void>
  /** Closes the connection for what an error says. */
  refuse(error: unknown): void
  /** Charges memory; false: there isn't enough. Negative: it is given back. */
  charge(bytes: number): boolean
}

/** Messages that may wait for their turn until no more are read. */
const MAX_QUEUED = 16
/** Memory of a message that waits for its turn, in bytes, besides its text. */
const BYTES_A_MESSAGE = 500
/** Maximum frames with pings and pongs in a tick: clients send one from time to time. */
const MAX_CONTROLS = 100
/** Length of the frame of a ping or a pong, in bytes, besides its text (RFC 6455, 5.2). */
const CONTROL_HEAD_BYTES = 6

/**
 * The messages of a WebSocket, both ways, within bounds.
 *
 * They are handled one after another, and one a tick, so that no client keeps the others waiting. None is handled
 * while the client has not read what it was sent, and the socket is not read while that lasts, or while many messages
 * wait. So what a client is sent in response to its messages is bounded, whatever it sends.
 */
export class SocketFlow {
  readonly #webSocket: WebSocket
  readonly #socket: Socket
  readonly #handler: MessageHandler
  /** The one that is being handled, and those that wait for their turn after it. */
  readonly #messages: Buffer[] = []
  /** Bytes that have arrived of a message, in how many chunks, and since when, on the clock of `performance.now()`. */
  #partial = { bytes: 0, chunks: 0, since: 0 }
  /** The ping frames and pong frames of this tick; undefined: none. */
  #control: { frames: number; ping: Buffer | undefined } | undefined
  #lastPing = performance.now()
  #hasAnswered = true
  readonly #onRead: (() => void)[] = []

  /** @param socket which carries the WebSocket */
  constructor(webSocket: WebSocket, socket: Socket, handler: MessageHandler) {
    this.#webSocket = webSocket
    this.#socket = socket
    this.#handler = handler
    webSocket.on('message', this.#onMessage)
    webSocket.on('ping', (ping) => this.#onControl(ping, ping))
    webSocket.on('pong', (pong) => this.#onControl(pong, undefined))
    webSocket.on('close', () => {
      this.#setPartial(0, 0)
      this.#onDrain()
    })
    // Before the WebSocket reads it.
    socket.prependListener('data', this.#onData)
    socket.on('drain', this.#onDrain)
    // The client reads nothing.
    socket.on('timeout', () => webSocket.terminate())
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

  get #isOpen(): boolean {
    return this.#webSocket.readyState === this.#webSocket.OPEN
  }

  /** Whether the client has read what it was sent, but for little. */
  get #isRead(): boolean {
    return !this.#socket.writableNeedDrain
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
    return this.#handler.charge(more)
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
    // By default, messages arrive as one Buffer.
    const message = data as Buffer
    if (!this.#handler.isValid(message, isBinary)) return
    const hasRoom = this.#handler.charge(bytesOf(message))
    this.#messages.push(message)
    if (!hasRoom) this.#handler.refuse(overloaded())
    this.#setFlow()
    if (this.#messages.length === 1) void this.#handleAll()
  }

  async #handleAll(): Promise<void> {
    for (let [message] = this.#messages; message; [message] = this.#messages) {
      try {
        if (!this.#isRead) await new Promise<void>((resolve) => this.#onRead.push(resolve))
        if (this.#isOpen) await this.#handler.handle(message)
      } catch (error) {
        this.#handler.refuse(error)
      }
      this.#messages.shift()
      this.#handler.charge(-bytesOf(message))
      this.#setFlow()
      if (this.#messages.length > 0 && this.#isOpen) await endOfTick()
    }
  }
}

function bytesOf({ length }: Buffer): number {
  return length * HEAP_BYTES_A_BYTE + BYTES_A_MESSAGE
}
