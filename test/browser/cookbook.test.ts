// @module-tag slow
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { axeFindings } from '../support/browser/axe.ts'
import { openBrowser } from '../support/browser/browser.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

it('shows the hits of the last 24 hours on the page of the cookbook', { tags: 'quick' }, async () => {
  const { url, ask } = await startService()
  const text = await readFile(join(import.meta.dirname, '../../docs/cookbook.md'), 'utf8')
  const [, page = ''] = /^```html\n(<!-- hits\.html -->[\s\S]*?)^```$/m.exec(text) ?? []
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(page.replaceAll('http://127.0.0.1:4000', url))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/about.html`
  const { openWindow } = await openBrowser()
  const window = await openWindow(address)
  await window.getByText('You are visitor 1.').waitFor()
  await ask('mutation { incrementBy(name: "/about.html", delta: 8, namespace: "hits") { value } }')
  await window.goto(address)
  await window.getByText('You are visitor 10.').waitFor()
  const bars = await window
    .locator('li')
    .evaluateAll((items) => items.map((bar) => [bar.getAttribute('aria-label'), bar.clientHeight > 50]))
  expect(bars).toHaveLength(24)
  expect(bars.at(-1)).toEqual([expect.stringMatching(/: 10 hits$/), true])
  expect(bars.slice(0, -1).every(([label, isHigh]) => /: 0 hits$/.test(String(label)) && !isHigh)).toBe(true)
  expect(window.complaints).toEqual([])
  expect(await axeFindings(window)).toEqual([])
})
