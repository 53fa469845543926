import { type Owner, Turns } from '../rules/turns.ts'

/** The work that all requests share: reads by name, which are joined over them, and look-ups of keys. */
export const JOINED: Owner = ownWork('joined')
/** The work of no request: jobs, and copies to leaderboards. */
export const JOBS: Owner = ownWork('jobs')

function ownWork(identity: string): Owner {
  return {
    identity,
    address: '',
    hasLeft: false,
    get arrivedAt() {
      return performance.now()
    },
  }
}

/** Slots of joined work, in which nobody else's work runs. */
const RESERVED = 2

/**
 * Gives the connections of a pool in turns. Each owner may use all but two of them; when others wait, its next work comes
 * after theirs. Jobs use one at most, and none while joined work waits.
 */
export class Slots {
  readonly #size: number
  readonly #turns = new Turns()
  #joined = 0
  #jobs = 0
  #others = 0

  /** @param size connections of the pool */
  constructor(size: number) {
    this.#size = size
  }

  /** Whether the next work of a caller must wait. */
  get isFull(): boolean {
    return !this.#isFreeFor('')
  }

  /**
   * Waits for a slot. Returns what releases it.
   *
   * @throws {NthError} UNAVAILABLE after the deadline, or if the owner has left
   */
  async take(owner: Owner, deadline: number): Promise<() => void> {
    // Whoever waits may not have one now.
    if (this.#isFreeFor(owner.identity)) this.#count(owner, 1)
    else await this.#turns.wait(owner, deadline)
    return () => {
      this.#count(owner, -1)
      this.#startWaiting()
    }
  }

  #startWaiting(): void {
    const isFree = (identity: string) => this.#isFreeFor(identity)
    for (let next = this.#turns.take(isFree); next; next = this.#turns.take(isFree)) {
      this.#count(next.owner, 1)
      next.start()
    }
  }

  #isFreeFor(identity: string): boolean {
    if (this.#joined + this.#jobs + this.#others >= this.#size) return false
    if (identity === JOINED.identity) return true
    if (identity === JOBS.identity) return this.#jobs === 0 && !this.#turns.has(JOINED.identity)
    return this.#others < this.#size - RESERVED
  }

  #count(owner: Owner, change: number): void {
    if (owner === JOINED) this.#joined += change
    else if (owner === JOBS) this.#jobs += change
    else this.#others += change
  }
}
