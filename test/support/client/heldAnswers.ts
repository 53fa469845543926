import { onTestFinished, vi } from 'vitest'

/** Takes the place of `fetch`, to have answers arrive when a test wants them. */
export function holdAnswers() {
  const { fetch } = globalThis
  const arrivals: ((response: Response) => Promise<Response>)[] = []
  vi.stubGlobal('fetch', async (...request: Parameters<typeof fetch>) => {
    const arrive = arrivals.shift()
    const response = await fetch(...request)
    return arrive ? arrive(response) : response
  })
  onTestFinished(() => void vi.unstubAllGlobals())

  return {
    /** Sends a request, waits until the server has answered it, and returns what lets that answer arrive. */
    async late<T>(send: () => Promise<T>): Promise<() => Promise<T>> {
      let release = () => {}
      const released = new Promise<void>((resolve) => {
        release = resolve
      })
      let result: Promise<T> | undefined
      await new Promise<void>((answered) => {
        arrivals.push(async (response) => {
          answered()
          await released
          return response
        })
        result = send()
      })
      return () => {
        release()
        // It was sent before the wait for its answer.
        return result as Promise<T>
      }
    },

    /** Loses the next answer. */
    lose(): void {
      arrivals.push(() => Promise.reject(new TypeError('fetch failed')))
    },
  }
}
