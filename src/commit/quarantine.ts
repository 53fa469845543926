import { Queue } from '../rules/queue.ts'
import { firstOf } from './batch.ts'
import type { Call } from './call.ts'
import type { Clock } from './clock.ts'

/** A quarantined key. */
interface Stay {
  readonly since: number
  readonly queue: Queue<Call>
  /** Whether a writer has it. */
  isTaken: boolean
}

/** Keys of which no calls wait are remembered up to so many, and so are those that have left. */
const MAX_IDLE = 1000
/** For how long it is remembered when a key was quarantined, and how many of its stays. */
const MEMORY_MS = 60_000
const MAX_STAYS = 100
/** Calls of a key that are flushed together: they may have to be bisected, down to each one alone. */
const MAX_CALLS = 64

/**
 * Keys of rows and claims that failed and would delay the others: another session locks them, or a trigger refuses. A key
 * is added, a writer takes it, and it is released if the flush succeeded. Then it is on probation, as it may soon fail
 * again: for as long as it was quarantined in the last minute.
 */
export class Quarantine {
  readonly #clock: Pick<Clock, 'elapsedMs'>
  /** By key. Least recently taken first. */
  readonly #stays = new Map<string, Stay>()
  /** The one that left first is first. */
  readonly #left = new Map<string, { stays: { from: number; to: number }[]; probationEnds: number }>()
  #latestLeftAt = 0

  constructor(clock: Pick<Clock, 'elapsedMs'>) {
    this.#clock = clock
  }

  /** The quarantined key that a call touches; undefined: none. */
  keyOf(call: Call): string | undefined {
    return this.#stays.size === 0 ? undefined : call.keys.find((key) => this.#stays.has(key))
  }

  /** Quarantines a key and adds calls that wait for it, last or, if they were in a flush, in the order of their arrival. */
  add(key: string, calls: readonly Call[], wereFlushed = false): void {
    let stay = this.#stays.get(key)
    if (!stay) {
      this.#forgetIdle()
      // The wait for a lock that led here counts as well: it may be most of the time that the lock was held.
      stay = { since: calls[0]?.arrivedAt ?? this.#clock.elapsedMs(), queue: new Queue(), isTaken: false }
      this.#stays.set(key, stay)
    }
    const { queue } = stay
    const ordered = wereFlushed ? [...calls, ...queue].sort((a, b) => a.arrivedAt - b.arrivedAt) : calls
    for (const call of ordered) call.waitIn(queue)
  }

  /** A key that calls wait for and that no writer has. The writer has it until it releases it. */
  take(): { key: string; calls: Call[] } | undefined {
    for (const [key, stay] of this.#stays) {
      if (stay.isTaken || stay.queue.size === 0) continue
      stay.isTaken = true
      return { key, calls: firstOf(stay.queue, MAX_CALLS) }
    }
    return undefined
  }

  /** The flush of a key has ended. If it succeeded, the key leaves. Returns the calls that then no longer wait for it. */
  release(key: string, hasSucceeded: boolean): readonly Call[] {
    const stay = this.#stays.get(key)
    if (!stay) return []
    this.#stays.delete(key)
    if (hasSucceeded) {
      this.#remember(key, stay.since)
      return [...stay.queue]
    }
    stay.isTaken = false
    this.#stays.set(key, stay)
    return []
  }

  /** Whether calls touch a key that is on probation. */
  isOnProbation(calls: readonly Call[]): boolean {
    if (this.#left.size === 0) return false
    const now = this.#clock.elapsedMs()
    if (now - this.#latestLeftAt > MEMORY_MS) this.#left.clear()
    return calls.some(({ keys }) => keys.some((key) => (this.#left.get(key)?.probationEnds ?? 0) > now))
  }

  #forgetIdle(): void {
    if (this.#stays.size < MAX_IDLE) return
    const idle = [...this.#stays].find(([, { queue, isTaken }]) => queue.size === 0 && !isTaken)
    if (idle) this.#stays.delete(idle[0])
  }

  #remember(key: string, since: number): void {
    const now = this.#clock.elapsedMs()
    const stays = [...(this.#left.get(key)?.stays ?? []), { from: since, to: now }].slice(-MAX_STAYS)
    let probationEnds = now
    for (const { from, to } of stays) probationEnds += Math.max(0, to - Math.max(from, now - MEMORY_MS))
    this.#latestLeftAt = now
    this.#left.delete(key)
    this.#left.set(key, { stays, probationEnds })
    const [first] = this.#left.keys()
    if (first !== undefined && this.#left.size > MAX_IDLE) this.#left.delete(first)
  }
}
