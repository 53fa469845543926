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
