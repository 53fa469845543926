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
  let timer: NodeJS.Timeout | undefined
  let end: (() => void) | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LostAnswerError('The database did not answer in time')), timeLimitMs)
    end = () => reject(new LostAnswerError('The database server is not used any more'))
    ended?.addEventListener('abort', end)
  })
  try {
    return await Promise.race([promise, limit])
  } finally {
    clearTimeout(timer)
    if (end) ended?.removeEventListener('abort', end)
  }
}
