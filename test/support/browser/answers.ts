import type { Page, Request } from 'playwright-core'

/** Requests of a page that a test intercepts. */
export interface Held {
  /** How many there were. */
  count(): number
  /** Lets them and all later ones reach the server. */
  release(): void
}

/** Holds requests whose body contains a text until they are released. */
export async function holdBack(window: Page, text: string): Promise<Held> {
  let count = 0
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  await onRequests(window, text, async (route) => {
    count += 1
    await released
    await route.continue()
  })
  return { count: () => count, release: () => release() }
}

/** Fails such requests, as if the server were down, until they are released. */
export async function cutOff(window: Page, text = ''): Promise<Held> {
  let count = 0
  let isCutOff = true
  await onRequests(window, text, (route) => {
    if (!isCutOff) return route.fallback()
    count += 1
    return route.abort()
  })
  return {
    count: () => count,
    release: () => {
      isCutOff = false
    },
  }
}

/** Lets `loseNumbers` end the streams of a page that is opened later, which has no WebSocket. */
export function recordStreams(window: Page): Promise<unknown> {
  return window.addInitScript(`
    delete window.WebSocket
    window.streams = []
    const send = window.fetch
    window.fetch = (url, options) => {
      if (!new Headers(options?.headers).get('accept')?.startsWith('text/event-stream')) return send(url, options)
      const stream = new AbortController()
      streams.push(stream)
      return send(url, { ...options, signal: AbortSignal.any([options.signal, stream.signal]) })
    }
  `)
}

/** Ends the streams of a page as if the connection broke, and fails everything by which it reads its numbers. */
export async function loseNumbers(window: Page): Promise<void> {
  for (const kind of ['query ', 'subscription ']) await cutOff(window, kind)
  await window.evaluate('for (const stream of streams) stream.abort()')
}

/** Lets the next such requests, `times` of them, reach the server, and loses their answers. */
export async function loseAnswers(window: Page, text: string, times: number): Promise<{ count(): number }> {
  let count = 0
  await onRequests(window, text, async (route) => {
    if (count === times) return route.fallback()
    count += 1
    await route.fetch()
    return route.abort()
  })
  return { count: () => count }
}

/** Lets such requests reach the server, and has the client give up as their answers are lost, until they are released. */
export async function loseAllAnswers(window: Page, text: string): Promise<Held> {
  let count = 0
  let isLost = true
  await onRequests(window, text, async (route) => {
    if (!isLost) return route.fallback()
    await route.fetch()
    count += 1
    // Something before the server answers, and asks for a pause that is longer than the client tries.
    const headers = {
      'retry-after': '3600',
      'access-control-allow-origin': '*',
      'access-control-expose-headers': 'retry-after',
    }
    return route.fulfill({ status: 502, headers, body: 'Bad gateway' })
  })
  return {
    count: () => count,
    release: () => {
      isLost = false
    },
  }
}

/** Answers such requests with an error, after `before`, until they are released. */
export async function refuseAll(
  window: Page,
  text: string,
  extensions: { code: string; [detail: string]: unknown },
  before: (route: Route) => Promise<unknown> = async () => undefined,
): Promise<Held> {
  let count = 0
  let isRefused = true
  await onRequests(window, text, async (route) => {
    if (!isRefused) return route.fallback()
    count += 1
    await before(route)
    return route.fulfill({ json: { data: null, errors: [{ message: 'Try later.', extensions }] } })
  })
  return {
    count: () => count,
    release: () => {
      isRefused = false
    },
  }
}

type Route = Parameters<Parameters<Page['route']>[1]>[0]

/** The operation that a request sends: in its body, or in the address of a stream. */
function operationIn(request: Request): string {
  return request.postData() ?? new URL(request.url()).searchParams.get('query') ?? ''
}

function onRequests(
  window: Page,
  text: string,
  handle: (route: Route) => Promise<unknown>,
): Promise<unknown> {
  return window.route(/\/graphql(\?|$)/, (route) =>
    operationIn(route.request()).includes(text) ? handle(route) : route.fallback(),
  )
}
