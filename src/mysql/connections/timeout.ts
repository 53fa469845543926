import { LostAnswerError } from '../errors.ts'

/**
 * @param ended ends the wait as well
 * @throws {LostAnswerError} if a promise isn't settled in time; its work continues
 */
export function withTimeout<T>(timeLimitMs: number, promise: Promise<T>, ended?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(giveUp, timeLimitMs, 'The database did not answer in time')
    ended?.addEventListener('abort', end)
    promise.then(resolve, reject).then(stopWaiting)
    if (ended?.aborted) end()

    function end(): void {
      giveUp('The database server is not used any more')
    }

    function giveUp(message: string): void {
      stopWaiting()
      reject(new LostAnswerError(message))
    }

    function stopWaiting(): void {
      clearTimeout(timer)
      ended?.removeEventListener('abort', end)
    }
  })
}
