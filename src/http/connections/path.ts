import type { IncomingMessage } from 'node:http'

/**
 * The path of a request; `undefined` if its URL is malformed.
 *
 * A proxy may send an absolute URL (`GET http://host/graphql`). Its parts are moved to where other requests have them,
 * before anything reads them: the host of the URL replaces the header (RFC 9112, 3.2.2).
 */
export function pathOf(request: IncomingMessage): string | undefined {
  const { url = '/' } = request
  if (url.startsWith('/')) {
    const end = url.indexOf('?')
    return end === -1 ? url : url.slice(0, end)
  }
  // `new URL` would also accept `http:name` and `http:///name`.
  if (!/^https?:\/\/[^/]/i.test(url) || !URL.canParse(url)) return undefined
  const { host, pathname, search, username, password } = new URL(url)
  if (username || password) return undefined
  request.url = pathname + search
  request.headers.host = host
  return pathname
}

/** The query of a request, after `pathOf` has normalised its URL. */
export function queryOf({ url = '/' }: IncomingMessage): URLSearchParams {
  const start = url.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : url.slice(start))
}
