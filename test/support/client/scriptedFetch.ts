import type { NthClient } from 'nth-counters/client'
import { createClient } from 'nth-counters/client'
import { onTestFinished, vi } from 'vitest'

/** What happens to a request: it fails, gets an answer, or none until it is aborted. */
export type Fate = Error | Response | 'silence'

/** A client whose requests meet the given fates, one after another. */
export function clientWith(fates: Fate[], options: Parameters<typeof createClient>[0] = {}) {
  const requests: { headers: Headers; body: string; atMs: number }[] = []
  const fetch = vi.fn(async (_: unknown, init: RequestInit = {}) => {
    requests.push({ headers: new Headers(init.headers), body: String(init.body), atMs: performance.now() })
    const fate = fates.shift()
    if (fate === undefined) throw new Error('One request too many.')
    if (fate instanceof Error) throw fate
    // As a browser does, what is being read ends with the signal.
    if (fate !== 'silence')
      return new Response(
        fate.body?.pipeThrough(new TransformStream(), init.signal ? { signal: init.signal } : {}),
        fate,
      )
    return new Promise<Response>((_, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason))
    })
  })
  const client: NthClient = createClient({ url: 'http://nth.test/graphql', fetch, ...options })
  return { client, requests, fetch }
}

export const lost = () => new TypeError('fetch failed')

/** An answer with an error. */
export function refused(code: string, details: object = {}, data?: unknown): Response {
  return Response.json({ data, errors: [{ message: `It is ${code}.`, extensions: { code, ...details } }] })
}

export function unavailable(details: object = {}): Response {
  return refused('UNAVAILABLE', { retryable: true, ...details })
}

export function bought(value: number): Response {
  return Response.json({ data: { increment: { value } } })
}

/** Lets timers run when a test says so, and has pauses be their longest. */
export function stopTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] })
  vi.spyOn(Math, 'random').mockReturnValue(0.999_999)
  onTestFinished(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
}
