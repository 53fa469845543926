import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname } from 'node:path'

/** What `scripts/graphiql.mjs` has built: the page, and the files that it loads, each in two compressed forms. */
const BUILT = new URL('../../dist/graphiql/', import.meta.url)

/** Paths of the files; their names have a hash of the content. */
const FILES = '/graphiql/'

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.ttf': 'font/ttf',
}

/** The editor makes styles while it runs; scripts, workers and requests are this server's only. */
const POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ')

/** Sends GraphiQL's page at `/graphql`, or one of its files; false if there is none at a path. */
export async function sendGraphiql(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<boolean> {
  const isPage = path === '/graphql' || path === '/graphql/'
  if (!isPage && !path.startsWith(FILES)) return false
  const isBrotli = /\bbr\b/.test(request.headers['accept-encoding'] ?? '')
  const name = isPage ? 'index.html' : `${path.slice(FILES.length)}.${isBrotli ? 'br' : 'gz'}`
  // The path of a request never reaches the file system.
  if (!(await readdir(BUILT)).includes(name)) return false
  const body = await readFile(new URL(name, BUILT))
  response.writeHead(200, {
    'content-length': body.length,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    ...(isPage
      ? {
          'content-type': 'text/html; charset=utf-8',
          'content-security-policy': POLICY,
          'cache-control': 'no-cache',
          vary: 'origin, accept',
        }
      : {
          'content-type': TYPES[extname(path)],
          'cache-control': 'public, max-age=31536000, immutable',
          'content-encoding': isBrotli ? 'br' : 'gzip',
          vary: 'origin, accept-encoding',
        }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
  return true
}
