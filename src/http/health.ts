import type { IncomingMessage, ServerResponse } from 'node:http'
import { HttpError, NOT_CACHED, sendError, serviceUnavailable } from './connections/httpError.ts'

/** Why a process is not ready for requests, although its database can be used. */
export const NOT_READY = {
  draining: 'Nth is shutting down.',
  full: 'Nth refuses requests: those in flight use all memory that they may.',
} as const

interface HealthOptions {
  version: string
  /** Why this process is not ready; undefined: it is. */
  notReady(): string | undefined
  /** Throws if the database can't be used. */
  checkDatabase(): Promise<void>
}

/** A proxy may add a query. */
const PATH = /^\/(health|ready)(?:\?|$)/

/** How long a check of the database counts, in milliseconds: probes of many proxies share one. */
const FRESH_MS = 500

/**
 * Answers `/health` (the process lives) and `/ready` (it can answer requests). Both are for whatever starts, stops and
 * selects processes: without a key, and outside all limits and checks of hosts and origins.
 */
export function createHealth({ version, notReady, checkDatabase }: HealthOptions) {
  let checked: Promise<void> | undefined
  let checkedAt = Number.NEGATIVE_INFINITY

  function checkOnce(): Promise<void> {
    if (!checked || performance.now() - checkedAt > FRESH_MS) {
      checkedAt = performance.now()
      checked = checkDatabase()
    }
    return checked
  }

  async function reasonNotReady(): Promise<string | undefined> {
    const reason = notReady()
    if (reason !== undefined) return reason
    return checkOnce().then(
      () => notReady(),
      (error: Error) => notReady() ?? error.message,
    )
  }

  /** Whether a request is for it; then it is answered. */
  return function handleHealth(request: IncomingMessage, response: ServerResponse): boolean {
    const { url = '', method } = request
    const path = PATH.exec(url)?.[1]
    if (!path) return false
    response.setHeader(...NOT_CACHED)
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      sendError(response, new HttpError(405, 'BAD_REQUEST', `/${path} is read-only; use GET or HEAD.`))
    } else if (path === 'health') {
      send(response, { status: 'ok', version })
    } else {
      void reasonNotReady().then((reason) =>
        reason === undefined
          ? send(response, { status: 'ready', version })
          : sendError(response, serviceUnavailable(reason)),
      )
    }
    return true
  }
}

function send(response: ServerResponse, content: object): void {
  const text = `${JSON.stringify(content)}\n`
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}
