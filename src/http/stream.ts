import type { Watched } from '../repository/live.ts'
import type { NthError } from '../rules/errors.ts'
import type { Caller } from '../rules/rights.ts'
import type { Owner } from '../rules/turns.ts'

/** What carries the results of a subscription to its client: a response, or one of the operations of a WebSocket. */
export interface Sink {
  /** Begins. False: its client has left. */
  start(stream: Stream): boolean
  /** Sends a result, in JSON. False: its client hasn't read it yet; `onRead` is called when it has. */
  send(json: string, onRead: () => void): boolean
  /** Ends it with an error, for good. */
  fail(error: NthError): void
  /** Ends it without saying that it is complete: clients connect again. `isRead`: whether the client has read everything. */
  break(isRead: boolean): void
}

/**
 * Where a stream is.
 *
 *   opening   its first event is being executed
 *   ready     it is sent the next event at once
 *   behind    its client has not read what was sent: what changes is collected, and sent in its newest state later
 *   closed
 */
type StreamState = 'opening' | 'ready' | 'behind' | 'closed'

/** The results of a subscription, to one client. */
export class Stream {
  readonly caller: Caller
  /** Whose turns its work has. */
  readonly owner: Owner
  state: StreamState = 'opening'
  /** What has changed while it was not ready. */
  missed = new Set<Watched>()
  #sink: Sink | undefined
  readonly #onClosed: () => void

  /** @param onClosed called once, however it is closed */
  constructor(caller: Caller, owner: Owner, onClosed: () => void) {
    this.caller = caller
    this.owner = owner
    this.#onClosed = onClosed
  }

  start(sink: Sink): void {
    this.#sink = sink
    const isThere = sink.start(this)
    // Closed before it was started, such as by a revocation of its key. The client connects again, and gets the reason.
    if (!isThere || this.state === 'closed') this.break()
    else this.state = 'behind'
  }

  /** Sends a result, in JSON. Returns false if the client hasn't read it yet; then `onRead` is called when it has. */
  write(json: string, onRead: () => void): boolean {
    if (!this.#sink || this.state === 'closed' || this.#sink.send(json, onRead)) return true
    this.state = 'behind'
    return false
  }

  fail(error: NthError): void {
    this.#sink?.fail(error)
    this.close()
  }

  break(): void {
    this.#sink?.break(this.state === 'ready')
    this.close()
  }

  /** Gives it up, whether it was started or not. */
  close(): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    this.#onClosed()
  }
}
