import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { printSchema } from 'graphql'
import { schema } from '../graphql/schema.ts'

/** Something to be shown as it is. */
export interface Page {
  type: string
  body: Buffer
  gzipped?: Buffer
  /** Names this content; the compressed one has a name of its own. */
  tag: string
  headers?: Record<string, string>
}

/** Makes a page of its content. */
export function pageOf(content: Omit<Page, 'tag'>): Page {
  return { ...content, tag: createHash('sha1').update(content.body).digest('base64url') }
}

const FOLDER = new URL('../../src/http/pages/', import.meta.url)

/** The library that draws the shop's charts, as it is published. */
const UPLOT = new URL('./dist/', import.meta.resolve('uplot/package.json'))

/** The shop runs its own script and style only. */
const CONTENT_SECURITY_POLICY =
  "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** The fixed pages, by path. */
export async function readPages(): Promise<Map<string, Page>> {
  const file = async (name: string, type: string, folder = FOLDER): Promise<Page> =>
    pageOf({
      type: `${type}; charset=utf-8`,
      body: await readFile(new URL(name, folder)),
      headers: { 'content-security-policy': CONTENT_SECURITY_POLICY },
    })
  return new Map([
    ['/', await file('shop.html', 'text/html')],
    ['/shop.js', await file('shop.js', 'text/javascript')],
    ['/book', await file('book.html', 'text/html')],
    ['/book.js', await file('book.js', 'text/javascript')],
    ['/board', await file('board.html', 'text/html')],
    ['/board.js', await file('board.js', 'text/javascript')],
    ['/invoice', await file('invoice.html', 'text/html')],
    ['/invoice.js', await file('invoice.js', 'text/javascript')],
    ['/api.js', await file('api.js', 'text/javascript')],
    ['/sales.js', await file('sales.js', 'text/javascript')],
    ['/chart.js', await file('chart.js', 'text/javascript')],
    ['/uplot.js', await file('uPlot.esm.js', 'text/javascript', UPLOT)],
    ['/uplot.css', await file('uPlot.min.css', 'text/css', UPLOT)],
    ['/shop.css', await file('shop.css', 'text/css')],
    ['/icon.svg', await file('icon.svg', 'image/svg+xml')],
    [
      '/schema.graphql',
      pageOf({ type: 'text/plain; charset=utf-8', body: Buffer.from(`${printSchema(schema)}\n`) }),
    ],
  ])
}

/** Answers with a page, or with 304 if the caller has it already. */
export function sendPage(request: IncomingMessage, response: ServerResponse, page: Page): void {
  const compressed = page.gzipped && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  const body = compressed && page.gzipped ? page.gzipped : page.body
  const etag = compressed ? `"${page.tag}-gzip"` : `"${page.tag}"`
  response.setHeaders(
    new Headers({
      'content-type': page.type,
      'cache-control': 'no-cache',
      etag,
      'x-content-type-options': 'nosniff',
      vary: 'origin, accept, accept-encoding',
      ...(compressed && { 'content-encoding': 'gzip' }),
      ...page.headers,
    }),
  )
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304).end()
    return
  }
  response.setHeader('content-length', body.length)
  response.end(request.method === 'HEAD' ? undefined : body)
}
