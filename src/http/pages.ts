import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { printSchema } from 'graphql'
import { schema } from '../graphql/schema.ts'
import type { Nth } from '../repository/nth.ts'
import { nameFault } from '../rules/names.ts'

/** Static content. */
interface StaticPage {
  type: string
  body: Buffer
  gzipped?: Buffer
  /** Entity tag of the content; the compressed content has its own. */
  tag: string
  headers?: Record<string, string>
  /** Whether the page exists for a query; undefined: for any. */
  exists?: (query: URLSearchParams) => Promise<boolean>
}

export type Pages = Awaited<ReturnType<typeof readPages>>

function pageOf(content: Omit<StaticPage, 'tag'>): StaticPage {
  return { ...content, tag: createHash('sha1').update(content.body).digest('base64url') }
}

const ROOT = new URL('../../', import.meta.url)
const PAGES = new URL('src/http/pages/', ROOT)
const SCRIPTS = new URL('scripts/', PAGES)

/** Files beside `docs` that the docs link to. */
const BESIDE = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'examples/README.md']

/** The library that draws the shop's charts, as published. */
const library = (name: string) => new URL(`./dist/${name}`, import.meta.resolve('uplot/package.json'))

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.ico': 'image/x-icon',
  '.graphql': 'text/plain; charset=utf-8',
  // Some browsers download `text/markdown` instead of showing it.
  '.md': 'text/plain; charset=utf-8',
}

/** Pages run only their own scripts and styles. */
const headers = {
  'content-security-policy':
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}

/** Reads the fixed pages once: the path of a request never reaches the file system. */
export async function readPages(nth: Pick<Nth, 'counters'>) {
  const reading = (await filesByPath()).map(async ([path, url]) => [path, await readPage(url)] as const)
  const files = await Promise.all(reading)
  const links = files.filter(([path]) => path.startsWith('/docs/')).map(([path, page]) => linkTo(path, page))
  const shop = await readFile(new URL('shop.html', PAGES), 'utf8')
  const start = shop.replace('<!-- docs -->', () => links.join('\n'))
  const book = await readPage(new URL('book.html', PAGES))
  const pages = new Map<string, StaticPage>([
    ...files,
    ['/', fixedPage('shop.html', start)],
    // Without a title the page shows the first book.
    ['/book', { ...book, exists: (query) => isBook(query.get('title') || (titles[0] ?? ''), nth) }],
    ['/books.js', fixedPage('books.js', booksScript)],
    ['/schema.graphql', fixedPage('schema.graphql', `${printSchema(schema)}\n`)],
  ])
  return {
    /** The page at a path, with or without a trailing slash. */
    at: (path: string) => pages.get(path) ?? pages.get(path.replace(/\/$/, '')),
    notFound: await readPage(new URL('notFound.html', PAGES)),
  }
}

/** Sends a page, or 304 if the client already has it. */
export function sendPage(
  request: IncomingMessage,
  response: ServerResponse,
  page: StaticPage,
  status = 200,
): void {
  const isGzipAccepted = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  const compressed = isGzipAccepted ? page.gzipped : undefined
  const body = compressed ?? page.body
  const etag = compressed ? `"${page.tag}-gzip"` : `"${page.tag}"`
  const isKnown = status === 200 && request.headers['if-none-match'] === etag
  response.writeHead(isKnown ? 304 : status, {
    'content-type': page.type,
    'cache-control': status === 200 ? 'no-cache' : 'no-store',
    etag,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    vary: 'origin, accept, accept-encoding',
    ...(compressed && { 'content-encoding': 'gzip' }),
    ...(!isKnown && { 'content-length': body.length }),
    ...page.headers,
  })
  response.end(isKnown || request.method === 'HEAD' ? undefined : body)
}

/** Scripts, styles, images and docs are served by their names; pages by paths of their own. */
async function filesByPath(): Promise<[path: string, file: URL][]> {
  // Those of the console are in a folder of their own.
  const scripts = (await readdir(SCRIPTS, { recursive: true })).filter((name) => name.endsWith('.js'))
  const others = (await readdir(PAGES)).filter((name) => /\.(css|svg|ico)$/.test(name))
  const docs = (await readdir(new URL('docs/', ROOT))).filter((name) => name.endsWith('.md'))
  const paths = [...BESIDE, ...docs.toSorted().map((name) => `docs/${name}`)]
  const within =
    (folder: URL) =>
    (path: string): [string, URL] => [`/${path}`, new URL(path, folder)]
  return [
    ...scripts.map(within(SCRIPTS)),
    ...others.map(within(PAGES)),
    ...paths.map(within(ROOT)),
    ['/board', new URL('board.html', PAGES)],
    ['/invoice', new URL('invoice.html', PAGES)],
    ['/console', new URL('console.html', PAGES)],
    ['/client.js', new URL('dist/client/client.js', ROOT)],
    ['/uplot.js', library('uPlot.esm.js')],
    ['/uplot.css', library('uPlot.min.css')],
  ]
}

/** A link to a file of the docs, with its first heading. */
function linkTo(path: string, { body }: StaticPage): string {
  const title = /^# (.+)$/m.exec(body.toString())?.[1] ?? path
  return `<a href="${escaped(path)}">${escaped(title)}</a>`
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

async function readPage(url: URL): Promise<StaticPage> {
  return fixedPage(url.pathname, await readFile(url))
}

function fixedPage(name: string, content: string | Buffer): StaticPage {
  const type = TYPES[extname(name)] ?? 'application/octet-stream'
  return pageOf({ type, body: Buffer.from(content), headers })
}

/** Prepared tabs in GraphiQL: operations to run in order, on the books of the shop. In their file, empty lines separate them. */
export const tabs: string[] = readFileSync(new URL('graphiql/tabs.graphql', PAGES), 'utf8')
  .trim()
  .split('\n\n')

let page: Promise<StaticPage> | undefined

/** GraphiQL as one page without external URLs. It has 9 MB of text, so it is rendered once and sent compressed. */
export function graphiqlPage(): Promise<StaticPage> {
  page ??= makePage().catch((error) => {
    // The next request tries again.
    page = undefined
    throw error
  })
  return page
}

/** In a thread of its own: loading the renderer takes 140 ms, and rendering 50, which would hold up other requests. */
async function makePage(): Promise<StaticPage> {
  const options = { title: 'GraphiQL · Nth', defaultTabs: tabs.map((query) => ({ query })) }
  const worker = new Worker(new URL('graphiql/renderer.mjs', PAGES), { workerData: options })
  const [{ body, gzipped }] = await once(worker, 'message')
  return pageOf({
    type: 'text/html; charset=utf-8',
    body: Buffer.from(body),
    gzipped: Buffer.from(gzipped),
    // Its scripts are in the page. In a frame of another page, a click could run what that page has put into its URL.
    headers: { 'content-security-policy': "frame-ancestors 'none'" },
  })
}

/** How long a page waits for the lookup of a book. */
const PATIENCE_MS = 500

/** A book in a limited edition. */
const edition = { title: 'Red Horse Hill, signed', copies: 100 }

/** Titles that the shop sells. */
const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
]

/** The same as a module for the pages: shop and server must use the same books. */
const booksScript = `// The books of the shop: their titles, and the one in a limited edition.

export const titles = ${JSON.stringify(titles, null, 2)}

export const edition = ${JSON.stringify(edition)}
`

/** Whether the shop sells a book with this title, or a counter with that name was ever written or defined. */
async function isBook(title: string, { counters }: Pick<Nth, 'counters'>): Promise<boolean> {
  if (titles.includes(title)) return true
  if (nameFault(title)) return false
  const found = counters.read({ namespace: 'booksales', name: title }).then(
    ({ createdAt }) => createdAt !== null,
    () => true,
  )
  // If that times out or fails, the page itself reports that its numbers can't be read.
  return Promise.race([found, pause(PATIENCE_MS, true, { ref: false })])
}
