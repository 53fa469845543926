import { type Owner, Turns } from '../rules/turns.ts'

/** The work that all requests share: reads by name, which are joined over them, and look-ups of keys. */
export const JOINED: Owner = { identity: 'joined', address: '', hasLeft: false }
/** The work of no request: jobs, copies to leaderboards, and commands. */
export const JOBS: Owner = { identity: 'jobs', address: '', hasLeft: false }

/**
 * Gives the connections of a pool in turns. Each owner may use all that aren't reserved; when others wait, its next work
 * comes after theirs. Jobs use one at most, and none while joined work waits.
 */
export class Slots {
  readonly #size: number
  readonly #reserved: number
  readonly #turns = new Turns<void, () => void>()
  #used = 0
  #usedByJobs = 0
  #usedByCallers = 0

  /**
   * @param size connections of the pool
   * @param reserved how many of them callers may not use
   */
  constructor(size: number, reserved: number) {
    this.#size = size
    this.#reserved = reserved
  }

  /** Whether the next work of a caller must wait. */
  get isFull(): boolean {
    return !this.#isFreeFor('')
  }

  /**
   * Waits for a slot. Returns what releases it.
   *
   * @throws {NthError} UNAVAILABLE after the deadline; BAD_REQUEST if the owner has left
   */
  async take(owner: Owner, deadline: number): Promise<() => void> {
    // Whoever waits may not have one now.
    return this.#isFreeFor(owner.identity) ? this.#use(owner) : this.#turns.wait(owner, deadline)
  }

  #use(owner: Owner): () => void {
    this.#count(owner, 1)
    return () => {
      this.#count(owner, -1)
      const isFree = (identity: string) => this.#isFreeFor(identity)
      for (let next = this.#turns.take(isFree); next; next = this.#turns.take(isFree))
        next.start(this.#use(next.owner))
    }
  }

  #isFreeFor(identity: string): boolean {
    if (this.#used >= this.#size) return false
    if (identity === JOINED.identity) return true
    if (identity === JOBS.identity) return this.#usedByJobs === 0 && !this.#turns.has(JOINED.identity)
    return this.#usedByCallers < this.#size - this.#reserved
  }

  #count(owner: Owner, change: number): void {
    this.#used += change
    if (owner === JOBS) this.#usedByJobs += change
    else if (owner !== JOINED) this.#usedByCallers += change
  }
}
