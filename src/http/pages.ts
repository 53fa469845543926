import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename, extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import { printSchema } from 'graphql'
import { schema } from '../graphql/schema.ts'

/** Static content. */
interface StaticPage {
  type: string
  body: Buffer
  /** The content, compressed when it is first sent so. */
  gzipped?: Buffer
  /** Entity tag of the content; the compressed content has another one. */
  tag: string
  headers?: Record<string, string>
}

export type Pages = Awaited<ReturnType<typeof readPages>>

function pageOf(content: Omit<StaticPage, 'tag'>): StaticPage {
  return { ...content, tag: createHash('sha1').update(content.body).digest('base64url') }
}

const ROOT = new URL('../../', import.meta.url)
const PAGES = new URL('src/http/pages/', ROOT)
const SCRIPTS = new URL('scripts/', PAGES)
/** The documentation's pages, which `npm run build` makes. */
const DOCS = new URL('dist/docs/', ROOT)

/** Files beside `docs` that the docs link to. */
const BESIDE = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'examples/README.md']

/** Libraries that pages import, as published; the import map in `page.html` has their names. */
const LIBRARIES: [path: string, file: URL][] = [
  ['/preact.js', new URL(import.meta.resolve('preact'))],
  ['/hooks.js', new URL(import.meta.resolve('preact/hooks'))],
  ['/htm.js', new URL(import.meta.resolve('htm'))],
]

/** Pages by their paths; each file has the head and the main part, which `page.html` surrounds. */
const HTML = {
  '/': 'home.html',
  '/shop': 'shop.html',
  '/book': 'book.html',
  '/board': 'board.html',
  '/hits': 'hits.html',
  '/invoice': 'invoice.html',
  '/console': 'console.html',
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.webp': 'image/webp',
  '.ico': 'image/x-icon',
  '.graphql': 'text/plain; charset=utf-8',
  // Some browsers download `text/markdown` instead of showing it.
  '.md': 'text/plain; charset=utf-8',
  '.ts': 'text/plain; charset=utf-8',
}

/** What surrounds the head and the main part of each page. */
const frame = readFileSync(new URL('page.html', PAGES), 'utf8')

const importMap = /<script type="importmap">(.+?)<\/script>/.exec(frame)?.[1] ?? ''

/** Pages run only their own scripts and styles; of those in the page, only the import map. */
const headers = {
  'content-security-policy': `default-src 'self'; script-src 'self' 'sha256-${sha256(importMap)}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}

/** The page at a path, from its head (up to `<main`) and its main part; in the frame, the link to it is marked. */
function framed(path: string, html: string): StaticPage {
  const start = html.indexOf('<main')
  const page = frame
    .replace(`href="${path}"`, (link) => `${link} aria-current="page"`)
    .replace('<!-- head -->', () => html.slice(0, start).trim())
    .replace('<!-- main -->', () => html.slice(start).trim())
  return fixedPage('page.html', page)
}

/** Reads the fixed pages once: the path of a request never reaches the file system. */
export async function readPages() {
  const files = (await filesByPath()).map(async ([path, url]) => [path, await readPage(url)] as const)
  const html = Object.entries(HTML).map(
    async ([path, name]) => [path, framed(path, await text(name))] as const,
  )
  const docs = (await readdir(DOCS)).map(async (name) => {
    const path = name === 'index.html' ? '/docs' : `/docs/${basename(name, '.html')}`
    return [path, framed('/docs/', await readFile(new URL(name, DOCS), 'utf8'))] as const
  })
  const pages = new Map<string, StaticPage>(await Promise.all([...files, ...html, ...docs]))
  pages.set('/schema.graphql', fixedPage('schema.graphql', `${printSchema(schema)}\n`))
  const notFound = await text('notFound.html')
  return {
    /** The page at a path, with or without a trailing slash. */
    at: (path: string) => pages.get(path) ?? pages.get(path.replace(/\/$/, '')),

    /** Says that there is no page at a path. */
    notFound(path: string): StaticPage {
      const html = notFound.replace('<!-- path -->', () => escaped(path))
      return framed(path, html)
    },
  }
}

/** Below this, compressing a page saves nothing. */
const MIN_GZIP_BYTES = 1000

/** Sends a page, or 304 if the client already has it. */
export function sendPage(
  request: IncomingMessage,
  response: ServerResponse,
  page: StaticPage,
  status = 200,
): void {
  const isGzipAccepted = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  const isText = page.type.startsWith('text/') && page.body.length > MIN_GZIP_BYTES
  if (isGzipAccepted && isText) page.gzipped ??= gzipSync(page.body)
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
  const docs = (await readdir(new URL('docs/', ROOT))).filter((name) => /\.(md|webp)$/.test(name))
  const paths = [...BESIDE, ...docs.toSorted().map((name) => `docs/${name}`)]
  const within =
    (folder: URL) =>
    (path: string): [string, URL] => [`/${path}`, new URL(path, folder)]
  return [
    ...scripts.map(within(SCRIPTS)),
    ...others.map(within(PAGES)),
    ...paths.map(within(ROOT)),
    ['/client.js', new URL('dist/client/client.js', ROOT)],
    // Its types, for those who download it.
    ['/client.d.ts', new URL('dist/client/client.d.ts', ROOT)],
    ...LIBRARIES,
  ]
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function text(name: string): Promise<string> {
  return readFile(new URL(name, PAGES), 'utf8')
}

async function readPage(url: URL): Promise<StaticPage> {
  return fixedPage(url.pathname, await readFile(url))
}

function fixedPage(name: string, content: string | Buffer): StaticPage {
  const type = TYPES[extname(name)] ?? 'application/octet-stream'
  return pageOf({ type, body: Buffer.from(content), headers })
}
