import { createHash } from 'node:crypto'
import type { Plugin } from 'graphql-yoga'
import { NOT_CACHED } from '../connections/httpError.ts'

/**
 * Ends JSON with a newline, so that a terminal's next prompt starts on a line of its own. Adds an entity tag (RFC 9110,
 * 8.8.3) to error-free responses to queries by GET, and responds 304 if the client has the same one: browsers keep such
 * responses, and revalidate them each time. No cache may store a response with errors, which others may not get, or not
 * any more: its status may be 200.
 */
export function responses(): Plugin {
  const errorFree = new WeakSet<Request>()

  return {
    onResultProcess({ request, result }) {
      if ('data' in result && !result.errors) errorFree.add(request)
    },

    async onResponse({ request, response, setResponse, fetchAPI: { Response } }) {
      const { status, statusText, headers } = response
      const isJson = headers.get('content-type')?.includes('json') ?? false
      const isTagged = request.method === 'GET' && errorFree.has(request)
      if (!errorFree.has(request)) headers.set(...NOT_CACHED)
      if (!isJson && !isTagged) return
      const text = (await response.text()) + (isJson ? '\n' : '')
      headers.delete('content-length')
      if (!isTagged) return setResponse(new Response(text, { status, statusText, headers }))
      const tag = `W/"${createHash('sha256').update(text).digest('base64url')}"`
      headers.set('etag', tag)
      headers.set('cache-control', 'private, no-cache')
      headers.set('vary', 'Origin, Authorization, Accept')
      const known = (request.headers.get('if-none-match') ?? '').split(',').map((tag) => tag.trim())
      if (!known.includes(tag)) return setResponse(new Response(text, { status, headers }))
      headers.delete('content-type')
      setResponse(new Response(null, { status: 304, headers }))
    },
  }
}
