import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openWire } from '../support/client/wire.ts'
import { startService } from '../support/server/service.ts'

const ROOT = join(import.meta.dirname, '../..')

const PAGES = ['/', '/shop', '/book', '/board', '/hits', '/invoice', '/console']

/** What browsers send when a person goes somewhere. */
const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }

/** Where the links of a page lead on the server, and what the page loads. */
function pathsIn(html: string): string[] {
  return [...html.matchAll(/(?:href|src)="(\/[^"]*)"/g)].map(([, path]) => path ?? '')
}

it.each([...PAGES.slice(1), '/graphql', '/docs'])(
  'pages: %s is served with and without a slash at its end',
  async (path) => {
    const { url } = await startService()
    const get = async (path: string) => {
      const response = await fetch(`${url}${path}`, { headers: BROWSER, redirect: 'error' })
      return {
        status: response.status,
        type: response.headers.get('content-type'),
        text: await response.text(),
      }
    }
    const page = await get(path)
    expect([page.status, page.type]).toEqual([200, 'text/html; charset=utf-8'])
    expect(await get(`${path}/`)).toEqual(page)
  },
)

it('404: is a page for a browser, and an error for a program', async () => {
  const { url } = await startService()
  for (const path of ['/nope', '/graphql/more', '/graphiql/nope.js', '/docs/nope']) {
    const page = await fetch(`${url}${path}`, { headers: BROWSER })
    expect([path, page.status]).toEqual([path, 404])
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'self'")
    expect(await page.text()).toContain('<h1>There is nothing here</h1>')
    for (const headers of [{ accept: 'application/json' }, { accept: '*/*' }]) {
      const error = await fetch(`${url}${path}`, { headers })
      expect([error.status, await error.json()]).toEqual([
        404,
        {
          errors: [
            {
              message: 'Not found. The API is at /graphql, the demos at /.',
              extensions: { code: 'BAD_REQUEST' },
            },
          ],
        },
      ])
    }
  }
  const head = await fetch(`${url}/nope`, { method: 'HEAD', headers: BROWSER })
  expect([head.status, await head.text()]).toEqual([404, ''])
  const post = await fetch(`${url}/nope`, { method: 'POST', headers: BROWSER })
  expect([post.status, post.headers.get('content-type')]).toEqual([404, 'application/json; charset=utf-8'])
})

it.each([
  ['/nope', 'This server has no page at <code>/nope</code>.'],
  ['/<b>"&', 'no page at <code>/%3Cb%3E%22&#38;</code>'],
  ['/$&', 'no page at <code>/$&#38;</code>'],
])('404: says what is not at %s, and leads onward', async (path, text) => {
  const { url } = await startService()
  const page = await (await fetch(`${url}${path}`, { headers: BROWSER })).text()
  expect(page).toContain(text)
  expect(pathsIn(page)).toEqual(
    expect.arrayContaining(['/', '/shop', '/board', '/hits', '/invoice', '/console', '/graphql', '/docs/']),
  )
})

it('content-security-policy: allows scripts of this server, the styles of the page, and no frames', async () => {
  const { url } = await startService()
  for (const path of ['/', '/shop', '/book', '/board', '/hits', '/invoice', '/console', '/docs', '/nope']) {
    const response = await fetch(`${url}${path}`, { headers: BROWSER })
    const policy = response.headers.get('content-security-policy') ?? ''
    const html = await response.text()
    const styles = [...html.matchAll(/<style>(.*?)<\/style>/gs)]
    const hashes = styles.map(
      ([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
    )
    expect(hashes.length).toBeGreaterThan(1)
    expect([path, policy.split('; ').slice(0, 2)]).toEqual([
      path,
      ["default-src 'self'", `style-src ${hashes.join(' ')}`],
    ])
    expect(policy).not.toMatch(/unsafe|script-src/)
    expect(policy).toContain("frame-ancestors 'none'")
    expect(response.headers.get('referrer-policy')).toBe('no-referrer')
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|rel="stylesheet"/)
  }
})

it('pages: are compressed, answer HEAD, and are not sent to a browser that has them', async () => {
  const { url } = await startService()
  for (const path of [...PAGES, '/page.js', '/pages/shop.js']) {
    const plain = await fetch(`${url}${path}`, { headers: { ...BROWSER, 'accept-encoding': 'identity' } })
    const text = await plain.text()
    const page = await fetch(`${url}${path}`, { headers: { ...BROWSER, 'accept-encoding': 'gzip' } })
    expect([path, page.headers.get('content-encoding')]).toEqual([path, 'gzip'])
    expect(Number(page.headers.get('content-length'))).toBeLessThan(text.length)
    expect(await page.text()).toBe(text)
    const etag = page.headers.get('etag') ?? ''
    expect(etag).not.toBe(plain.headers.get('etag'))
    const headers = { ...BROWSER, 'accept-encoding': 'gzip' }
    const head = await fetch(`${url}${path}`, { method: 'HEAD', headers })
    expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, etag, ''])
    const again = await fetch(`${url}${path}`, { headers: { ...headers, 'if-none-match': etag } })
    expect([again.status, await again.text()]).toEqual([304, ''])
  }
})

it('home page: leads to the demos, the console, GraphiQL, the schema and the docs', async () => {
  const { url } = await startService()
  const start = await (await fetch(url, { headers: BROWSER })).text()
  expect(start).toContain('Nth is a counters-and-sequences service')
  expect(pathsIn(start)).toEqual(
    expect.arrayContaining([
      ...['/shop', '/board', '/hits', '/invoice'],
      ...['/console', '/graphql', '/docs/', '/schema.graphql'],
    ]),
  )
  const schema = await fetch(`${url}/schema.graphql`)
  expect(await schema.text()).toBe(await readFile(join(ROOT, 'schema/schema.graphql'), 'utf8'))
})

it('pages: have no links to what is not there', async () => {
  const { url } = await startService()
  for (const page of [...PAGES, '/docs/', '/nope']) {
    const paths = pathsIn(await (await fetch(`${url}${page}`, { headers: BROWSER })).text())
    expect(paths.length).toBeGreaterThan(2)
    for (const path of paths) {
      const { status } = await fetch(`${url}${path}`, { headers: BROWSER })
      expect([page, path, status]).toEqual([page, path, 200])
    }
  }
})

it('favicon.ico: is there for pages that name no icon', async () => {
  const { url } = await startService()
  const icon = await fetch(`${url}/favicon.ico`)
  expect([icon.status, icon.headers.get('content-type')]).toEqual([200, 'image/x-icon'])
  expect([...new Uint8Array(await icon.arrayBuffer()).subarray(0, 4)]).toEqual([0, 0, 1, 0])
})

it.each([
  '/package.json',
  '/LICENSE',
  '/schema/migrations/0001_tables.sql',
  '/docs/../package.json',
  '/docs/..%2fpackage.json',
  '/docs/%2e%2e/package.json',
  '/docs/sequences.md/../../package.json',
  '/../package.json',
  '/README.md%00',
])('pages: are the only files that are served: not %s', async (path) => {
  const { url } = await startService()
  // As it stands: `fetch` would tidy it.
  const wire = openWire(url)
  wire.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  expect(await wire.ended()).toMatch(/^HTTP\/1\.1 404 /)
})
