import { createHash } from 'node:crypto'
import type { Plugin } from 'graphql-yoga'

/** Request headers that a response depends on. */
const VARY = 'Origin, Authorization, Accept'

/**
 * Adds an entity tag (RFC 9110, 8.8.3) to error-free responses to queries by GET, and responds 304 if the client has
 * the same one. Browsers keep such responses, and revalidate them each time.
 */
export function conditionalGet(): Plugin {
  const errorFree = new WeakSet<Request>()

  return {
    onResultProcess({ request, result }) {
      if (request.method === 'GET' && 'data' in result && !result.errors) errorFree.add(request)
    },

    async onResponse({ request, response, setResponse, fetchAPI }) {
      if (!errorFree.has(request)) return
      const text = await response.text()
      const tag = `W/"${createHash('sha256').update(text).digest('base64url')}"`
      const headers = new fetchAPI.Headers(response.headers)
      headers.set('etag', tag)
      headers.set('cache-control', 'private, no-cache')
      headers.set('vary', VARY)
      headers.delete('content-length')
      const isSame = tagsIn(request.headers.get('if-none-match') ?? '').includes(tag)
      if (isSame) headers.delete('content-type')
      setResponse(new fetchAPI.Response(isSame ? null : text, { status: isSame ? 304 : 200, headers }))
    },
  }
}

function tagsIn(header: string): string[] {
  return header.split(',').map((tag) => tag.trim())
}
