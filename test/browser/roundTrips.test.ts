// @module-tag slow
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { openBrowser, openPage } from '../support/browser/browser.ts'
import { startService } from '../support/server/service.ts'

/** A server before Nth that answers a request when a test says so, and never opens a WebSocket. */
async function startSlow(url: string) {
  const held: { path: string; answer: () => void }[] = []
  const sockets: Socket[] = []
  async function forward(request: IncomingMessage, response: ServerResponse, body: string): Promise<void> {
    const { method = 'GET', headers } = request
    const { accept = '*/*', 'content-type': type = 'text/plain' } = headers
    const init = { method, headers: { accept, 'content-type': type }, ...(method !== 'GET' && { body }) }
    const answer = await fetch(url + request.url, init)
    const sent = ['content-type', 'content-security-policy'].map((name) => [
      name,
      answer.headers.get(name) ?? '',
    ])
    response.writeHead(answer.status, Object.fromEntries(sent)).end(Buffer.from(await answer.arrayBuffer()))
  }
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const answer = () => forward(request, response, body)
    const path = request.url ?? ''
    // Nothing waits for icons.
    if (/ico/.test(path)) await answer()
    else held.push({ path, answer })
  })
  server.on('upgrade', (_, socket) => sockets.push(socket as Socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** One round trip: waits until just these are requested, and answers them. */
    async trip(...paths: string[]): Promise<void> {
      await expect.poll(() => held.map(({ path }) => path)).toEqual(paths)
      for (const { answer } of held.splice(0)) answer()
    },
  }
}

const COUNTER = '/console?namespace=n&counter=visitors'

it.each([
  ['/', '0 sold so far', 1],
  ['/shop', '0 copies sold', 1],
  ['/book?title=Bulldozer', '0 copies sold', 1],
  ['/board', '0 tickets', 1],
  ['/hits', '0 readers, 0 this hour', 1],
  // It also reads who calls.
  ['/console', '1,234', 2],
  [COUNTER, '1,234', 2],
] as const)(
  'pages: shows a skeleton at once, and numbers after three round trips, on %s',
  async (path, shown, reads) => {
    const { url, ask } = await startService()
    await ask('mutation { incrementBy(name: "visitors", delta: 1234, namespace: "n") { value } }')
    const slow = await startSlow(url)
    const { openWindow } = await openBrowser()
    const window = await openWindow('about:blank')
    const opening = window.goto(slow.url + path)
    await slow.trip(path)
    await window.locator('.skeleton > :first-child').waitFor()
    await window.getByRole('heading', { level: 1 }).waitFor()
    const [, page = ''] = /^\/(\w*)/.exec(path) ?? []
    await slow.trip(`/pages/${page || 'home'}.js`)
    await opening
    await window.locator('main').locator('.card, .plate').first().waitFor()
    await slow.trip(...Array(reads).fill('/graphql'))
    await window.getByText(shown, { exact: true }).first().waitFor()
    await expect.poll(() => window.locator('.skeleton').count()).toBe(0)
    expect(window.complaints).toEqual([])
  },
)

it('pages: has no skeleton without scripts', async () => {
  const { window } = await openPage('/shop', { javaScriptEnabled: false })
  expect(await window.locator('.skeleton').isVisible()).toBe(false)
  expect(await window.getByRole('link', { name: 'how this page works' }).isVisible()).toBe(true)
})
