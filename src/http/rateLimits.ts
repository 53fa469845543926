import { LRUCache } from 'lru-cache'
import type { HeaderList } from './errors.ts'

interface TokenBucket {
  tokens: number
  /** When it had so many, on the clock of `performance.now()`, in milliseconds. */
  at: number
}

/** Changes that a process has allowed: from which bucket, how many that holds, and how many they are. */
export type SpentChanges = [bucket: string, perMinute: number, count: number][]

const MINUTE_MS = 60_000
/** Clients that are remembered; of more, those that have been idle longest have their full rate again. */
const MAX_BUCKETS = 100_000
/** How long a process collects what it has allowed before it reports that to the others. */
const SHARE_MS = 50

/**
 * Token buckets: each holds the changes of a minute, and is refilled evenly. More than a bucket holds is allowed when it
 * is full, and then owed.
 *
 * The processes of one group share their buckets: each takes from its own what the others have allowed, a moment later.
 * Of changes that reach several processes within that moment, each process may allow a full bucket; that is owed, so in
 * the long run no more are allowed than by one process.
 */
export class RateLimits {
  readonly #buckets = new LRUCache<string, TokenBucket>({ max: MAX_BUCKETS })
  readonly #share: ((spent: SpentChanges) => void) | undefined
  readonly #now: () => number
  #spent: SpentChanges = []

  /** @param share reports to the other processes what this one has allowed */
  constructor(share?: (spent: SpentChanges) => void, now = () => performance.now()) {
    this.#share = share
    this.#now = now
  }

  /** Takes some from a bucket. Returns the pause until it has so many, in milliseconds, without taking any; or 0. */
  take(bucket: string, perMinute: number, count: number): number {
    const missing = Math.min(count, perMinute) - this.#fill(bucket, perMinute)
    if (missing > 0) return Math.ceil((missing * MINUTE_MS) / perMinute)
    this.#remove(bucket, perMinute, count)
    if (this.#share && this.#spent.push([bucket, perMinute, count]) === 1) setTimeout(this.#report, SHARE_MS)
    return 0
  }

  /** Takes what other processes have allowed. */
  remove(spent: SpentChanges): void {
    for (const [bucket, perMinute, count] of spent) this.#remove(bucket, perMinute, count)
  }

  /**
   * The header fields of a response that report what is left: draft-ietf-httpapi-ratelimit-headers-10. `t` is when the
   * bucket is full again.
   */
  headers(bucket: string, perMinute: number): HeaderList {
    const tokens = this.#fill(bucket, perMinute)
    const left = `r=${Math.max(0, Math.floor(tokens))};t=${Math.ceil(((perMinute - tokens) * 60) / perMinute)}`
    return ['ratelimit-policy', `"changes";q=${perMinute};w=60`, 'ratelimit', `"changes";${left}`]
  }

  readonly #report = (): void => this.#share?.(this.#spent.splice(0))

  #remove(bucket: string, perMinute: number, count: number): void {
    this.#buckets.set(bucket, { tokens: this.#fill(bucket, perMinute) - count, at: this.#now() })
  }

  /** How many a bucket has now. */
  #fill(bucket: string, perMinute: number): number {
    const stored = this.#buckets.get(bucket)
    if (!stored) return perMinute
    const refilled = ((this.#now() - stored.at) * perMinute) / MINUTE_MS
    return Math.min(perMinute, stored.tokens + refilled)
  }
}
