import { NthError } from '../core/errors.ts'
import { withHeaders } from './connections/cors.ts'
import type { HostError } from './connections/hosts.ts'
import { pathOf, queryOf } from './connections/path.ts'
import { sendError } from './connections/sendError.ts'
import { graphiqlPage } from './graphql/graphiql.ts'
import type { Handler } from './graphql/graphqlHandler.ts'
import { wantsHtml } from './graphql/negotiation.ts'
import { type Pages, sendPage } from './pages/pages.ts'

export interface Routes {
  pages: Pages
  /** Why a Host header is rejected; undefined: it is allowed. */
  checkHost: (host: string) => HostError | undefined
  graphql: Handler
}

/** Routes requests to the API, to GraphiQL at the same path, or to a page. */
export function createRouter({ pages, checkHost, graphql }: Routes): Handler {
  return async (request, response, headers) => {
    const path = pathOf(request)
    const isGet = request.method === 'GET' || request.method === 'HEAD'
    const isPage = isGet && wantsHtml(request.headers)
    const isGraphql = path === '/graphql' || path === '/graphql/'
    const hostError = checkHost(request.headers.host ?? 'localhost')
    if (isGraphql && !isPage && !hostError) return graphql(request, response, headers)
    withHeaders(response, headers)
    if (path === undefined) {
      return sendError(response, 400, new NthError('BAD_REQUEST', 'The URL of the request is malformed.'))
    }
    if (isGraphql && isPage) return sendPage(request, response, await graphiqlPage())
    if (isGraphql && hostError) return sendError(response, hostError.status, hostError.error)
    const page = pages.at(path)
    if (page && !isGet) {
      response.setHeader('allow', 'GET, HEAD')
      return sendError(response, 405, new NthError('BAD_REQUEST', `${path} is read-only; use GET or HEAD.`))
    }
    // Whether a book has a counter is not disclosed to foreign pages that use a host name of their own.
    const exists = hostError ? undefined : page?.exists
    const isThere = page && ((await exists?.(queryOf(request))) ?? true)
    if (isThere) return sendPage(request, response, page)
    if (isPage) return sendPage(request, response, pages.notFound, 404)
    const message = 'Not found. The API is at /graphql, the shop at /.'
    return sendError(response, 404, new NthError('BAD_REQUEST', message))
  }
}
