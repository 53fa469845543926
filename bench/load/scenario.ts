import type { Request } from './drive.ts'

/** What clients send for a workload, and whether all of it was right. */
export interface Scenario {
  /** What makes, or reads, everything once. */
  first: readonly Request[]
  /** One of the requests, at random. */
  pick(): Request | undefined
  /**
   * Checks what only shows when there is nothing more under way.
   *
   * @throws {Error} at anything wrong
   */
  check(): Promise<void>
}
