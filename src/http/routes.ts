import { NthError } from '../core/errors.ts'
import type { HostRefusal } from './connections/hosts.ts'
import { pathOf, queryOf } from './connections/path.ts'
import { refuse } from './connections/refuse.ts'
import { type Handler, setAll } from './graphql/front.ts'
import { graphiqlPage } from './graphql/graphiql.ts'
import { wantsHtml } from './graphql/negotiation.ts'
import { type Pages, sendPage } from './pages/pages.ts'

export interface Routes {
  pages: Pages
  /** Why a Host header is refused; undefined: it is allowed. */
  hostRefusal: (host: string) => HostRefusal | undefined
  front: Handler
}

/** Routes requests to the API, to GraphiQL at the same path, or to a page. */
export function createRouter({ pages, hostRefusal, front }: Routes): Handler {
  return async (request, response, headers) => {
    const path = pathOf(request)
    if (path === undefined) {
      setAll(response, headers)
      return refuse(response, 400, new NthError('BAD_REQUEST', 'The URL of the request is malformed.'))
    }
    const { host = 'localhost' } = request.headers
    const isGet = request.method === 'GET' || request.method === 'HEAD'
    if (path === '/graphql' || path === '/graphql/') {
      if (isGet && wantsHtml(request.headers)) {
        setAll(response, headers)
        return sendPage(request, response, await graphiqlPage())
      }
      const refusal = hostRefusal(host)
      if (!refusal) return front(request, response, headers)
      setAll(response, headers)
      return refuse(response, refusal.status, refusal.error)
    }
    setAll(response, headers)
    const page = pages.at(path)
    if (page && !isGet) {
      response.setHeader('allow', 'GET, HEAD')
      return refuse(response, 405, new NthError('BAD_REQUEST', `${path} is read-only; use GET or HEAD.`))
    }
    // Whether a book has a counter is not disclosed to foreign pages that use a host name of their own.
    const exists = hostRefusal(host) ? undefined : page?.exists
    const isThere = page && ((await exists?.(queryOf(request))) ?? true)
    if (isThere) return sendPage(request, response, page)
    if (isGet && wantsHtml(request.headers)) return sendPage(request, response, pages.notFound, 404)
    const message = 'Not found. The API is at /graphql, the shop at /.'
    return refuse(response, 404, new NthError('BAD_REQUEST', message))
  }
}
