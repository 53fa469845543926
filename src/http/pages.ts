import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename, extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import { printSchema } from 'graphql'
import { schema } from '../graphql/schema.ts'

const ENCODINGS = ['br', 'gzip', 'identity'] as const

interface StaticPage {
  type: string
  /** The content by its encoding. That of `gzip` is made when it is first sent, if there is one of `identity`. */
  forms: Partial<Record<(typeof ENCODINGS)[number], Buffer>>
  /** Entity tag of the content; each of its forms has another one. */
  tag: string
  headers: Record<string, string>
}

const ROOT = new URL('../../', import.meta.url)
const PAGES = new URL('src/http/pages/', ROOT)
const SCRIPTS = new URL('scripts/', PAGES)
/** The documentation's pages with their search, and one script for each other page, which `npm run build` makes. */
const DOCS = new URL('dist/docs/', ROOT)
const BUNDLES = new URL('dist/pages/', ROOT)

/** What `scripts/graphiql.mjs` has built: the page, and the files that it loads, each in two compressed forms. */
const GRAPHIQL = new URL('dist/graphiql/', ROOT)

/** Files beside `docs` that the docs link to. */
const BESIDE = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'examples/README.md']

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.webp': 'image/webp',
  '.ico': 'image/x-icon',
  '.ttf': 'font/ttf',
  '.tgz': 'application/gzip',
  '.graphql': 'text/plain; charset=utf-8',
  // Some browsers download `text/markdown` instead of showing it.
  '.md': 'text/plain; charset=utf-8',
  '.ts': 'text/plain; charset=utf-8',
}

/** What surrounds the head and the main part of each page. */
const frame = withStyles(readFileSync(new URL('page.html', PAGES), 'utf8'))

const STRICT = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const headers = { 'content-security-policy': `default-src 'self'; ${STRICT}` }

/** GraphiQL makes styles while it runs; scripts, workers and requests are this server's only. */
const graphiqlHeaders = {
  'content-security-policy': `default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; ${STRICT}`,
}

/**
 * The page at a path, from its head (up to `<main`) and its main part; in the frame, the link to it is marked. It runs only
 * scripts of this server, and has only the styles that are in it.
 */
function framed(path: string, html: string): StaticPage {
  const start = html.indexOf('<main')
  const page = frame
    .replace(`href="${path}"`, (link) => `${link} aria-current="page"`)
    .replace('<!-- head -->', () => withStyles(html.slice(0, start).trim()))
    .replace('<!-- main -->', () => html.slice(start).trim())
  const styles = [...page.matchAll(/<style>(.*?)<\/style>/gs)]
  const hashes = styles.map(([, style = '']) => `'sha256-${hash('sha256', style, 'base64')}'`)
  const policy = `default-src 'self'; style-src ${hashes.join(' ')}; ${STRICT}`
  return fixedPage('page.html', page, { 'content-security-policy': policy })
}

/** Puts the stylesheets of a page into it: it is laid out with the first response, not with the second. */
function withStyles(html: string): string {
  return html.replace(
    /<link rel="stylesheet" href="\/(\w+\.css)">/g,
    (_, name) => `<style>${readFileSync(new URL(name, PAGES), 'utf8')}</style>`,
  )
}

/** Reads the fixed pages once: the path of a request never reaches the file system. */
export async function readPages() {
  const files = (await filesByPath()).map(async ([path, url]) => {
    return [path, fixedPage(url.pathname, await readFile(url))] as const
  })
  const html = (await readdir(PAGES)).filter(isPage).map(async (name) => {
    const page = basename(name, '.html')
    const path = page === 'home' ? '/' : `/${page}`
    const script = `<script type="module" src="/pages/${page}.js"></script>`
    return [path, framed(path, script + (await text(name)))] as const
  })
  const docs = (await readdir(DOCS, { recursive: true })).filter(isPage).map(async (name) => {
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace(/\.html$/, '')}`
    return [path, framed('/docs/', await readFile(new URL(name, DOCS), 'utf8'))] as const
  })
  const pages = new Map(await Promise.all([...files, ...html, ...docs, ...(await graphiqlFiles())]))
  const graphiql = await readFile(new URL('index.html', GRAPHIQL))
  pages.set('/graphql', fixedPage('index.html', graphiql, graphiqlHeaders))
  pages.set('/schema.graphql', fixedPage('schema.graphql', `${printSchema(schema)}\n`))
  const notFound = await text('notFound.html')
  return {
    /** The page at a path, with or without a trailing slash. */
    at: (path: string) => pages.get(path) ?? pages.get(path.replace(/\/$/, '')),

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
  { type, forms, tag, headers }: StaticPage,
  status = 200,
): void {
  const accepted: string[] = request.headers['accept-encoding']?.match(/\w+/g) ?? []
  const { identity } = forms
  const isText = type.startsWith('text/') && identity && identity.length > MIN_GZIP_BYTES
  if (isText && accepted.includes('gzip')) forms.gzip ??= gzipSync(identity)
  const other = identity ? 'identity' : 'gzip'
  const encoding = ENCODINGS.find((name) => forms[name] && accepted.includes(name)) ?? other
  const body = forms[encoding]
  const etag = `"${tag}-${encoding}"`
  const isKnown = status === 200 && request.headers['if-none-match'] === etag
  response.writeHead(isKnown ? 304 : status, {
    'content-type': type,
    'cache-control': status === 200 ? 'no-cache' : 'no-store',
    etag,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    vary: 'origin, accept, accept-encoding',
    ...(encoding !== 'identity' && { 'content-encoding': encoding }),
    ...(!isKnown && { 'content-length': body?.length }),
    ...headers,
  })
  response.end(isKnown || request.method === 'HEAD' ? undefined : body)
}

/** Scripts, also as they are written, images and docs are served by their names; pages by paths of their own. */
async function filesByPath(): Promise<[path: string, file: URL][]> {
  // Those of the console are in a folder of their own.
  const scripts = (await readdir(SCRIPTS, { recursive: true })).filter((name) => name.endsWith('.js'))
  const others = (await readdir(PAGES)).filter((name) => /\.(svg|ico)$/.test(name))
  const bundles = (await readdir(BUNDLES)).filter((name) => name.endsWith('.js'))
  const texts = await readdir(new URL('docs/', ROOT), { recursive: true })
  const docs = texts.filter((name) => /\.(md|webp)$/.test(name))
  const within = (folder: URL, paths: string[]) =>
    paths.map((path): [string, URL] => [`/${path}`, new URL(path, folder)])
  return [
    ...within(SCRIPTS, scripts),
    ...within(PAGES, others),
    ...bundles.map((name): [string, URL] => [`/pages/${name}`, new URL(name, BUNDLES)]),
    ...within(ROOT, [...BESIDE, ...docs.map((name) => `docs/${name}`)]),
    // The types and the package are for those who install the client.
    ...within(new URL('dist/client/', ROOT), ['client.js', 'client.d.ts', 'client.tgz', 'nth.js']),
    ['/docs/search.js', new URL('search.js', DOCS)],
  ]
}

/** The files that GraphiQL's page loads. Their names have a hash of the content. */
async function graphiqlFiles() {
  const read = (name: string) => readFile(new URL(name, GRAPHIQL))
  const names = (await readdir(GRAPHIQL)).filter((name) => name.endsWith('.gz'))
  return names.map(async (compressed) => {
    const name = basename(compressed, '.gz')
    const forms = { br: await read(`${name}.br`), gzip: await read(compressed) }
    const headers = { 'cache-control': 'public, max-age=31536000, immutable' }
    const file: StaticPage = { type: typeOf(name), forms, tag: name, headers }
    return [`/graphiql/${name}`, file] as const
  })
}

/** A text as HTML and XML have it in content and attributes. */
export function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** Whether a file has the head and the main part of a page, which `page.html` surrounds. */
function isPage(name: string): boolean {
  return name.endsWith('.html') && name !== 'page.html' && name !== 'notFound.html'
}

function text(name: string): Promise<string> {
  return readFile(new URL(name, PAGES), 'utf8')
}

function fixedPage(name: string, content: string | Buffer, pageHeaders = headers): StaticPage {
  const identity = Buffer.from(content)
  const tag = hash('sha1', identity, 'base64url')
  return { type: typeOf(name), forms: { identity }, tag, headers: pageHeaders }
}

function typeOf(name: string): string {
  return TYPES[extname(name)] ?? 'application/octet-stream'
}
