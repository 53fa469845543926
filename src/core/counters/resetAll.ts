import { NthError } from '../errors.ts'
import { onCounter } from '../groupCommit/call.ts'
import type { GroupCommit } from '../groupCommit/groupCommit.ts'
import type { CounterKey } from './state.ts'
import type { CounterStore } from './store.ts'

/** Result of resetting many counters. */
export interface ResetSummary {
  resetCount: number
  /** Counters left unchanged, as the value is outside their bounds. */
  refusedCount: number
}

/** Which counters to reset, and to what value. */
interface Reset {
  namespace: string
  prefix: string
  to: number
}

/** Maximum counters of one transaction. */
const BATCH = 500

interface Means {
  store: CounterStore
  groupCommit: GroupCommit
}

/** Resets every counter of a namespace whose name starts with a prefix, in batches: see `Counters`. */
export async function resetAll(means: Means, { namespace, prefix, to }: Reset): Promise<ResetSummary> {
  const summary: ResetSummary = { resetCount: 0, refusedCount: 0 }
  const failures: Error[] = []
  let after: string | undefined
  do {
    const page = { prefix, after, limit: BATCH, fromEnd: false }
    const batch = await means.store.list(namespace, page).catch((error) => unfinished(summary, error))
    after = batch.length === BATCH ? batch.at(-1)?.name : undefined
    const before = failures.length
    await resetEach(means, batch, to, summary, failures)
    // If a whole batch fails, the cause is not in its counters.
    if (failures.length === before + batch.length) break
  } while (after !== undefined)
  const [failure] = failures
  return failure ? unfinished(summary, failure) : summary
}

async function resetEach(
  { store, groupCommit }: Means,
  keys: readonly CounterKey[],
  to: number,
  summary: ResetSummary,
  failures: Error[],
): Promise<void> {
  const operations = keys.map((key) => onCounter(store.rows, key, { kind: 'set', to }))
  const results = await groupCommit.changeEach(operations)
  for (const result of results) {
    if (result instanceof NthError && result.code === 'LIMIT_REACHED') summary.refusedCount += 1
    else if (result instanceof Error) failures.push(result)
    // Without a result the counter was deleted in the meantime.
    else if (result) summary.resetCount += 1
  }
}

/** Adds the number of counters reset so far to an error. */
function unfinished({ resetCount }: ResetSummary, error: unknown): never {
  if (!(error instanceof NthError)) throw error
  const message = `${error.message} ${resetCount} counters were reset.`
  throw new NthError(error.code, message, error.details, { cause: error })
}
