import { createWriteStream } from 'node:fs'
import { lstat, open, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * Writes texts to a new file, which appears when it is complete and on the disk; or to a device or a pipe.
 *
 * @throws {Error} if a file or a link to one is there
 */
export async function writeFile(path: string, texts: AsyncIterable<string>, mode = 0o666): Promise<void> {
  const source = Readable.from(texts)
  const target = await stat(path).catch(() => undefined)
  if (target && !target.isFile()) return pipeline(source, createWriteStream(path))
  await assertFree(path)
  const temporary = `${path}.${process.pid}.tmp`
  try {
    await pipeline(source, createWriteStream(temporary, { flags: 'wx', mode }))
    await synchronise(temporary)
    await assertFree(path)
    await rename(temporary, path)
    await synchronise(dirname(path))
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** A link that leads nowhere is not free, either. */
async function assertFree(path: string): Promise<void> {
  const present = await lstat(path).catch(() => undefined)
  if (present) throw new Error(`${path} exists; give the name of a new file.`)
}

async function synchronise(path: string): Promise<void> {
  const handle = await open(path, 'r')
  await handle.sync().finally(() => handle.close())
}

/** Writes texts to the standard output. False: its reader has ended early, such as `head`. */
export async function writeToStdout(texts: AsyncIterable<string>): Promise<boolean> {
  try {
    await pipeline(Readable.from(texts), process.stdout, { end: false })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return false
    throw error
  }
}

/** Where progress is shown: a terminal, or nowhere. */
interface Screen {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

const SHOW_EVERY_MS = 200
const BAR = 30

/** A bar that is redrawn in place, on a terminal only. */
export function createProgress(screen: Screen, now: () => number = () => performance.now()) {
  const startedAt = now()
  let shownAt = Number.NEGATIVE_INFINITY
  let isShown = false

  return {
    /** @param fraction how much is done, from 0 to 1; undefined: not known */
    show(entries: number, fraction?: number): void {
      if (!screen.isTTY || now() - shownAt < SHOW_EVERY_MS) return
      shownAt = now()
      isShown = true
      const perSecond = Math.round(entries / Math.max((now() - startedAt) / 1000, 0.001))
      const text = `${bar(fraction)}${entries} entries, ${perSecond}/s`
      screen.write(`\r\x1b[K${text.slice(0, (screen.columns ?? 80) - 1)}`)
    },

    /** Removes it, before anything else is written. */
    clear(): void {
      if (isShown) screen.write('\r\x1b[K')
      isShown = false
    },
  }
}

function bar(fraction: number | undefined): string {
  if (fraction === undefined) return ''
  const part = Math.min(Math.max(fraction, 0), 1)
  const filled = Math.round(part * BAR)
  return `[${'#'.repeat(filled)}${' '.repeat(BAR - filled)}] ${Math.floor(part * 100)} % `
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * Runs work. If a signal ends the process meanwhile, it says first what that leaves.
 *
 * @throws {Error} what the work throws, and what that leaves
 */
export async function withNotice(noticeOf: () => string, work: () => Promise<void>): Promise<void> {
  const onSignal = (signal: NodeJS.Signals) => {
    console.error(`Interrupted. ${noticeOf()}`)
    // Without this listener it ends the process.
    stop()
    process.kill(process.pid, signal)
  }
  const stop = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  try {
    await work()
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${noticeOf()}`, { cause: error })
  } finally {
    stop()
  }
}
