import { LRUCache } from 'lru-cache'

interface Bucket {
  tokens: number
  /** When it had so many, in milliseconds. */
  at: number
}

const MINUTE_MS = 60_000
/** Clients that are remembered; of more, those that have been idle longest have their full rate again. */
const MAX_BUCKETS = 100_000

export type RateLimits = ReturnType<typeof createRateLimits>

/**
 * Token buckets: each holds the changes of a minute, and is refilled evenly. More than a bucket holds is allowed when it
 * is full, and then owed.
 *
 * @param now a clock in milliseconds
 */
export function createRateLimits(now: () => number) {
  const buckets = new LRUCache<string, Bucket>({ max: MAX_BUCKETS })

  function filled(name: string, perMinute: number): Bucket {
    const at = now()
    const bucket = buckets.get(name)
    if (!bucket) return { tokens: perMinute, at }
    const added = ((at - bucket.at) * perMinute) / MINUTE_MS
    return { tokens: Math.min(perMinute, bucket.tokens + added), at }
  }

  return {
    /** Takes some from a bucket. Returns the pause until it has so many, in milliseconds, without taking any; or 0. */
    take(name: string, perMinute: number, count: number): number {
      const { tokens, at } = filled(name, perMinute)
      const missing = Math.min(count, perMinute) - tokens
      if (missing > 0) return Math.ceil((missing * MINUTE_MS) / perMinute)
      buckets.set(name, { tokens: tokens - count, at })
      return 0
    },
  }
}
