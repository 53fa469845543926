import { readFileSync } from 'node:fs'

/** Connections of a busy server: with fewer open files, clients are refused by the system. */
const ENOUGH = 10_000

/**
 * A warning if few files may be open; undefined: there are enough, or the system doesn't tell. Node has already raised the
 * limit as far as it may.
 *
 * @param limits the content of `/proc/self/limits`
 */
export function openFilesWarning(limits = readLimits()): string | undefined {
  const [, limit] = /^Max open files +(\d+)/m.exec(limits) ?? []
  if (limit === undefined || Number(limit) >= ENOUGH) return undefined
  return `Only ${limit} files may be open, and each connection is one. Raise the limit (ulimit -n ${ENOUGH}) for more.`
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
