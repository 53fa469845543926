import { AsyncLocalStorage } from 'node:async_hooks'
import { onTestFinished } from 'vitest'

type Close = () => unknown

/** What the tests of the present file share, by the function that opened it. */
const shared = new Map<() => Promise<unknown>, Promise<unknown>>()
let closers: Close[] = []

/** Where it is set, something is being opened that outlives its test. */
const opening = new AsyncLocalStorage<Close[]>()

/** Opens something at its first use in a file, and closes it after the last test there. */
export function openOnce<Value>(open: () => Promise<Value>): Promise<Value> {
  if (!shared.has(open)) shared.set(open, opening.run(closers, open))
  // What is kept under a function is what that function has returned.
  return shared.get(open) as Promise<Value>
}

/** Calls `close` when what is being opened is over: the test or, within `openOnce`, the file. */
export function onFinished(close: Close): void {
  const closersOfFile = opening.getStore()
  if (closersOfFile) closersOfFile.push(close)
  else onTestFinished(async () => void (await close()))
}

/** Closes, the latest first, what the tests of a file have shared. */
export async function closeShared(): Promise<void> {
  const closing = closers
  closers = []
  shared.clear()
  for (const close of closing.toReversed()) await close()
}
