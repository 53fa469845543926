// @module-tag slow
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { build } from 'vite'
import { expect, it, onTestFinished } from 'vitest'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { startRelay } from '../support/client/relay.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { freePort } from '../support/server/freePort.ts'
import { startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' }

/** Builds an example for a service, and serves it from an origin of its own. */
async function serveExample(name: string, url: string): Promise<string> {
  const outDir = await temporaryDirectory()
  await build({
    root: join(EXAMPLES, name),
    logLevel: 'error',
    build: { outDir, emptyOutDir: true },
    define: { 'import.meta.env.VITE_NTH_URL': JSON.stringify(`${url}/graphql`) },
  })
  const server = createServer(async (request, response) => {
    const path = request.url === '/' ? '/index.html' : (request.url ?? '')
    const text = await readFile(join(outDir, path), 'utf8').catch(() => undefined)
    response.writeHead(text === undefined ? 404 : 200, {
      'content-type': TYPES[extname(path)] ?? 'text/plain',
    })
    // Not the beginning of the service's address, as in 127.0.0.1:40001.
    response.end(text?.replaceAll(/http:\/\/127\.0\.0\.1:4000(?!\d)/g, url))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const EXAMPLE_NAMES = ['html', 'react', 'react-apollo', 'react-urql', 'relay']

const sold = (window: Window, text: string) => window.getByText(text, { exact: true }).waitFor()
const buy = (window: Window) => window.getByRole('button', { name: 'Buy' }).click()
const isBuyer = (window: Window, buyer: number) =>
  window.getByText(`You are buyer ${buyer}, number ${buyer} this month.`).waitFor()

const INCREMENT = 'mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }'

it.each(EXAMPLE_NAMES)(
  'sells a book in two windows of the example %s, whose numbers move, also after the connection broke',
  async (name) => {
    const { url, ask } = await startService()
    const relay = await startRelay(url)
    const page = await serveExample(name, relay.url)
    const { openWindow } = await openBrowser()
    const [window, other] = [await openWindow(page), await openWindow(page)]
    for (const one of [window, other]) await sold(one, '0 sold')
    for (const buyer of [1, 2]) {
      await buy(window)
      await isBuyer(window, buyer)
      for (const one of [window, other]) await sold(one, `${buyer} sold`)
    }
    relay.cut()
    // This purchase is not lost.
    await buy(other)
    await expect.poll(relay.refused).toBeGreaterThan(3)
    relay.restore()
    await isBuyer(other, 3)
    for (const one of [window, other]) await sold(one, '3 sold')
    await ask(INCREMENT)
    for (const one of [window, other]) await sold(one, '4 sold')
    expect(window.outside).toEqual([])
  },
)

it.each(['html', 'react'])(
  'gives the example %s the same number for a purchase whose answer was lost, also after a reload',
  async (name) => {
    const { url, ask } = await startService()
    const page = await serveExample(name, url)
    const { openWindow } = await openBrowser()
    const window = await openWindow(page)
    await sold(window, '0 sold')
    let answered = 0
    await window.route('**/graphql', async (route) => {
      if (!route.request().postData()?.includes('mutation')) return route.continue()
      await route.fetch()
      answered += 1
      return route.abort()
    })
    await buy(window)
    await expect.poll(() => answered).toBeGreaterThan(0)
    await sold(window, '1 sold')
    await window.reload()
    await window.unroute('**/graphql')
    await buy(window)
    await isBuyer(window, 1)
    await buy(window)
    await isBuyer(window, 2)
    expect(await ask('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')).toEqual({
      counter: { value: 2 },
    })
  },
)

it('counts on, and shows it, in every example after a restart of the server', async () => {
  const environment = { DATABASE_URL: urlOf(await freshDatabase()), PORT: String(await freePort()) }
  const server = await startNth(environment)
  const { openWindow } = await openBrowser()
  const windows: Window[] = []
  for (const name of EXAMPLE_NAMES) windows.push(await openWindow(await serveExample(name, server.url)))
  for (const window of windows) await sold(window, '0 sold')
  server.child.kill('SIGTERM')
  await server.exited
  const { ask } = await startNth(environment)
  await ask(INCREMENT)
  for (const window of windows) await sold(window, '1 sold')
  for (const [index, window] of windows.entries()) {
    await buy(window)
    await isBuyer(window, index + 2)
  }
  for (const window of windows) await sold(window, `${windows.length + 1} sold`)
})
