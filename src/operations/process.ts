import { existsSync, readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'

const { version: release } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
/** Written by a build in a clone; the package and the sources have none. */
const commitFile = new URL('../commit.txt', import.meta.url)

/** Of the release, such as `0.3.0`, and in a build from a clone of its commit as well: `0.3.0+1a2b3c4`. */
export const version: string = existsSync(commitFile)
  ? `${release}+${readFileSync(commitFile, 'utf8').trim()}`
  : release

/**
 * Disables the pretenuring of V8: it allocates objects that it predicts to be long-lived in the old generation, where
 * they and all that they reference stay until the next full collection. Under load the prediction is wrong: what
 * survives a young collection is a request that waits for its answer. With pretenuring, `increment` in memory took 26 to
 * 33 µs of CPU time rather than 23 to 27, a young collection 1.3 ms rather than 0.5, and the heap had 125 MB rather than
 * 56 (64 connections, Node 20).
 *
 * `bin/nth.js` sets three more options of V8, which only the command line can do; workers inherit them:
 *
 * - `--max-semi-space-size=32` doubles the space for young objects. With it, the benchmark's hot counter took 23 to 30
 *   thousand changes a second rather than 22 to 24.
 * - `--initial-old-space-size=192`: no full collection comes before old objects take 192 MB, also later. Carts took 1.02
 *   times the CPU time that they take when V8 chooses; with 128 1.10 times, with 64 1.41 times (medians of nine pairs of
 *   `--only nth,many@64`).
 * - `--heap-growing-percent=30`: above that, the next one comes when the heap has grown by 30 %. By default, V8 lets it
 *   grow to up to four times what is in use: an earlier form of
 *   `npm run bench -- --mixed`, which used 75 MB, then had 420 MB after 70 s.
 */
export function keepRequestsYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/** Connections of a busy server: with fewer open files, clients are refused by the system. */
const ENOUGH = 10_000
const LIMITS = '/proc/self/limits'

/**
 * A warning if few files may be open; undefined: there are enough, or the system doesn't report it. Node has already raised the
 * limit as far as it may.
 *
 * @param limits the content of LIMITS
 */
export function openFilesWarning(
  limits = existsSync(LIMITS) ? readFileSync(LIMITS, 'utf8') : '',
): string | undefined {
  const [, limit] = /^Max open files +(\d+)/m.exec(limits) ?? []
  if (limit === undefined || Number(limit) >= ENOUGH) return undefined
  return `Only ${limit} files may be open, and each connection is one. Raise the limit (ulimit -n ${ENOUGH}) for more.`
}
