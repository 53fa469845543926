import type { Target } from '../../mysql/connections/target.ts'
import { openSnapshot, type Snapshot } from '../../mysql/transfer/export.ts'
import { createProgress } from './progress.ts'

/**
 * Runs work on a snapshot of a database.
 *
 * @param work calls `shown` with the number of entries that it has read
 */
export async function withSnapshot<T>(
  target: Target,
  work: (snapshot: Snapshot, shown: (entries: number) => void) => Promise<T>,
): Promise<T> {
  const snapshot = await openSnapshot(target)
  const progress = createProgress(process.stderr)
  try {
    const total = process.stderr.isTTY ? await snapshot.size() : 0
    return await work(snapshot, (entries) => progress.show(entries, total > 0 ? entries / total : undefined))
  } finally {
    progress.clear()
    await snapshot.close()
  }
}
