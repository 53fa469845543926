import { NthError } from '../errors.ts'
import type { GroupCommit } from '../groupCommit/groupCommit.ts'
import { onCounter } from '../groupCommit/request.ts'
import type { CounterStore } from './store.ts'

export interface ResetSummary {
  resetCount: number
  /** Counters left unchanged, as the value is outside their bounds. */
  refusedCount: number
}

/** Maximum counters of one transaction. */
const BATCH = 500

/** Resets every counter of a namespace whose name starts with a prefix, in batches: see `Counters`. */
export async function resetAll(
  { list, rows }: CounterStore,
  groupCommit: GroupCommit,
  { namespace, prefix, to }: { namespace: string; prefix: string; to: number },
): Promise<ResetSummary> {
  const summary: ResetSummary = { resetCount: 0, refusedCount: 0 }
  let failure: Error | undefined
  let after: string | undefined
  do {
    const page = { prefix, after, limit: BATCH, fromEnd: false }
    const batch = await list(namespace, page).catch((error) => unfinished(summary, error))
    after = batch.length === BATCH ? batch.at(-1)?.name : undefined
    const operations = batch.map((key) => onCounter(rows, key, { kind: 'set', to }))
    const results = await groupCommit.changeEach(operations).catch((error) => unfinished(summary, error))
    const errors = results.filter((result) => result instanceof Error)
    const failures = errors.filter((error) => !(error instanceof NthError && error.code === 'LIMIT_REACHED'))
    failure ??= failures[0]
    summary.refusedCount += errors.length - failures.length
    // Without a result the counter was deleted in the meantime.
    summary.resetCount += results.filter((result) => result !== undefined).length - errors.length
    // If a whole batch fails, the cause is not in its counters.
    if (failures.length === batch.length) break
  } while (after !== undefined)
  return failure ? unfinished(summary, failure) : summary
}

/** Adds the number of counters reset so far to an error. */
function unfinished({ resetCount }: ResetSummary, error: unknown): never {
  if (!(error instanceof NthError)) throw error
  const message = `${error.message} ${resetCount} counters were reset.`
  throw new NthError(error.code, message, error.details, { cause: error })
}
