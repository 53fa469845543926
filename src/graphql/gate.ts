import { setImmediate as nextTick } from 'node:timers/promises'
import { type Owner, Turns } from '../rules/turns.ts'

/** Maximum values of a tick, some 10 ms: a value takes 1 to 3 µs, with the work that follows (Node 20, two cores). */
const VALUES_PER_TICK = 4000

/** Time after which a tick has no more room, whatever was announced. */
const MAX_TICK_MS = 10

/**
 * The gate for long work: it waits for a tick of the event loop with room for the values that it will produce, so that
 * requests with long lists don't run in one tick and block the others. All share the room, and have it in turns.
 */
export class Gate {
  readonly #limitMs: number
  readonly #turns = new Turns<number, void>()
  #tick: { since: number; values: number } | undefined
  #isStarting = false

  /** @param limitMs how long work may wait, from the arrival of its request */
  constructor(limitMs: number) {
    this.#limitMs = limitMs
  }

  /**
   * Waits for a tick with room for this many values, and takes it. Work that fits no tick gets one of its own.
   *
   * @throws {NthError} UNAVAILABLE if it waits too long; BAD_REQUEST if its client has left
   */
  untilRoom(values: number, owner: Owner): Promise<void> {
    if (!this.#isStarting && this.#takeRoom(values)) return Promise.resolve()
    const { arrivedAt = performance.now() } = owner
    const turn = this.#turns.wait(owner, arrivedAt + this.#limitMs, values)
    if (!this.#isStarting) void this.#startWaiting()
    return turn
  }

  /** One loop for all that waits: if each waited by itself, n of them would check n times in every tick. */
  async #startWaiting(): Promise<void> {
    this.#isStarting = true
    for (let next = this.#turns.take(); next; next = this.#turns.take()) {
      while (!this.#takeRoom(next.work)) await nextTick()
      next.start()
      // Lets it run before the clock is checked again.
      await undefined
    }
    this.#isStarting = false
  }

  /** Takes room for this many values in the current tick. Returns whether there was enough. */
  #takeRoom(values: number): boolean {
    const now = performance.now()
    if (!this.#tick) {
      this.#tick = { since: now, values: 0 }
      setImmediate(() => {
        this.#tick = undefined
      })
    }
    if (now - this.#tick.since > MAX_TICK_MS) return false
    if (this.#tick.values > 0 && this.#tick.values + values > VALUES_PER_TICK) return false
    this.#tick.values += values
    return true
  }
}
