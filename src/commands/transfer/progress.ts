/** Where progress is shown: a terminal, or nowhere. */
export interface Screen {
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

/** Runs work. If a signal ends the process meanwhile, it says first what that leaves. */
export async function withNotice<T>(noticeOf: () => string, work: () => Promise<T>): Promise<T> {
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
    return await work()
  } finally {
    stop()
  }
}
