import { LostAnswerError } from './errors.ts'

/**
 * @param ended ends the wait as well
 * @throws {LostAnswerError} if a promise isn't settled in time; its work continues
 */
export async function withTimeout<T>(
  timeLimitMs: number,
  promise: Promise<T>,
  ended?: AbortSignal,
): Promise<T> {
  let giveUp = (_message: string) => {}
  const limit = new Promise<never>((_, reject) => {
    giveUp = (message) => reject(new LostAnswerError(message))
  })
  const timer = setTimeout(giveUp, timeLimitMs, 'The database did not answer in time')
  const end = () => giveUp('The database server is not used any more')
  ended?.addEventListener('abort', end)
  if (ended?.aborted) end()
  try {
    return await Promise.race([promise, limit])
  } finally {
    clearTimeout(timer)
    ended?.removeEventListener('abort', end)
  }
}
