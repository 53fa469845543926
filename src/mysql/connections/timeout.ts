import { LostAnswerError } from './errors.ts'

/** @throws {LostAnswerError} if a promise isn't settled in time; its work continues */
export async function withTimeout<T>(timeLimitMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LostAnswerError('The database did not answer in time.')), timeLimitMs)
  })
  try {
    return await Promise.race([promise, limit])
  } finally {
    clearTimeout(timer)
  }
}
