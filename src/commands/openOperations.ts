import { readDatabaseConfig } from '../config.ts'
import type { Target } from '../mysql/settings.ts'
import { SILENT } from '../operations/log.ts'
import { openNth } from '../repository/nth.ts'

/** Opens the operations for a command that changes each row once, and at most `atOnce` rows at a time. */
export function openOperations(
  target: Target,
  atOnce: number,
  options: Pick<Parameters<typeof openNth>[1], 'copiesToLeaderboards' | 'worksDespiteLoss'> = {},
) {
  return openNth([target], {
    ...options,
    timeoutMs: 60_000,
    maxPending: 2 * atOnce,
    keyTtlMs: readDatabaseConfig().keyTtlMs,
    runsJobs: false,
    // More than the rows of changes in flight take.
    rowCacheBytes: 2 ** 22,
    random: Math.random,
    notices: { ...SILENT, fault: console.error },
  })
}
