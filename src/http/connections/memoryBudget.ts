/** Whose memory it is: an address that counts as one client. Undefined: one without limits, behind which may be many. */
export type Client = string | undefined

/**
 * Memory that clients share, in bytes of the heap. A client may hold as much as is free: alone half of it all, beside n
 * others that take what they can a part of n + 2. So whatever the others do, the same amount is left for one more.
 */
export class MemoryBudget {
  readonly #maxBytes: number
  readonly #held = new Map<string, number>()
  #usedBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get freeBytes(): number {
    return this.#maxBytes - this.#usedBytes
  }

  /**
   * Charges a client, whether or not it may hold that much; a negative amount is given back.
   *
   * @param sharedBytes what it adds to the memory in use, if the client shares a part of it with others
   */
  charge(client: Client, bytes: number, sharedBytes = bytes): void {
    this.#usedBytes += sharedBytes
    if (client === undefined) return
    const held = this.heldBy(client) + bytes
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }

  heldBy(client: string): number {
    return this.#held.get(client) ?? 0
  }

  /**
   * Whether a client that was charged may go on.
   *
   * @param isLarge one without limits may use only half of the memory for what is large, so that what is small has room
   */
  hasRoom(client: Client, isLarge: boolean): boolean {
    const freeBytes = this.#maxBytes - this.#usedBytes
    if (client !== undefined) return this.heldBy(client) <= freeBytes
    return freeBytes >= (isLarge ? this.#maxBytes / 2 : 0)
  }
}
