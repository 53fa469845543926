import { totalmem } from 'node:os'

const MB = 2 ** 20
/** Limits of the default, in MB. */
const LEAST_MB = 128
const MOST_MB = 4096
const SHARE = 1 / 4

/** Memory that this process may use, in bytes: that of the machine, or of its container. */
function usableMemory(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Default memory for the data of a private server, in MB: a quarter of the usable memory, from 128 to 4 096. */
export function defaultMemoryMb(usable = usableMemory()): number {
  return Math.min(Math.max(Math.floor((usable * SHARE) / MB), LEAST_MB), MOST_MB)
}

/**
 * Size of the redo log for a memory size, in MB: an eighth, from 64 to 512. A larger log lets changed pages stay in
 * memory for longer, and takes longer to recover from.
 */
export function logSizeMb(memoryMb: number): number {
  return Math.min(Math.max(Math.floor(memoryMb / 8), 64), 512)
}
