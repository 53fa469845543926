import { onTestFinished } from 'vitest'
import { openNth } from '../../src/core/nth.ts'
import { openStore } from '../../src/mysql/store.ts'
import type { Target } from '../../src/mysql/target.ts'

/** The core on a database, without HTTP, closed when the test has finished. */
export function openTestNth(
  target: Target,
  { timeoutMs = 10_000, maxPending = 10_000 }: { timeoutMs?: number; maxPending?: number } = {},
) {
  const faults: unknown[] = []
  const store = openStore(target, { timeLimitMs: timeoutMs, maxPending, onReachable: () => undefined })
  const nth = openNth(store, { timeoutMs, maxPending, onFault: (error) => faults.push(error) })
  onTestFinished(async () => {
    await nth.close()
    await store.close()
  })
  return { ...nth, faults }
}
