// @module-tag slow
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { build } from 'vite'
import { expect, it, onTestFinished } from 'vitest'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { startRelay } from '../support/client/relay.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
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
    response.end(text?.replaceAll('http://127.0.0.1:4000', url))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

it.each(['html', 'react-apollo', 'react-urql', 'relay'])(
  'sells a book in two windows of the example %s, whose numbers move, also after the connection broke',
  async (name) => {
    const { url, ask } = await startService()
    const relay = await startRelay(url)
    const page = await serveExample(name, relay.url)
    const { openWindow } = await openBrowser()
    const [window, other] = [await openWindow(page), await openWindow(page)]
    const sold = (one: Window, text: string) => one.getByText(text, { exact: true }).waitFor()
    for (const one of [window, other]) await sold(one, '0 sold')
    for (const buyer of [1, 2]) {
      await window.getByRole('button', { name: 'Buy' }).click()
      await window.getByText(`You are buyer ${buyer}, number ${buyer} this month.`).waitFor()
      for (const one of [window, other]) await sold(one, `${buyer} sold`)
    }
    relay.cut()
    await ask('mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }')
    await expect.poll(relay.refused).toBeGreaterThan(1)
    relay.restore()
    for (const one of [window, other]) await sold(one, '3 sold')
    await other.getByRole('button', { name: 'Buy' }).click()
    await other.getByText('You are buyer 4, number 4 this month.').waitFor()
    await sold(window, '4 sold')
    expect(window.outside).toEqual([])
  },
)
