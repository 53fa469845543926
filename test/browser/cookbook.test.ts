// @module-tag slow
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { axeFindings } from '../support/browser/axe.ts'
import { openBrowser } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

it('shows the hits of each hour, also those of others, on the page of the cookbook', async () => {
  const { url, ask } = await startService()
  const text = await readFile(join(import.meta.dirname, '../../docs/cookbook.md'), 'utf8')
  const [, page = ''] = /^```html\n(<!-- hits\.html -->[\s\S]*?)^```$/m.exec(text) ?? []
  const port = await servePage(page.replaceAll('http://127.0.0.1:4000', url))
  const address = `http://127.0.0.1:${port}/about.html`
  const { openWindow } = await openBrowser()
  const window = await openWindow(address)
  await window.getByRole('heading', { name: 'You are visitor 1' }).waitFor()
  const bars = () =>
    window
      .locator('li')
      .evaluateAll((items) => items.map((bar) => [bar.getAttribute('aria-label'), bar.clientHeight > 100]))
  await expect.poll(async () => (await bars()).at(-1)).toEqual([expect.stringMatching(/: 1$/), true])
  // Others' visits, too.
  await ask('mutation { incrementBy(name: "/about.html", delta: 8, namespace: "hits") { value } }')
  await expect.poll(async () => (await bars()).at(-1)).toEqual([expect.stringMatching(/: 9$/), true])
  const before = (await bars()).slice(0, -1)
  expect(before).toEqual(Array(24).fill([expect.stringMatching(/: 0$/), false]))
  expect(window.complaints).toEqual([])
  expect(await axeFindings(window)).toEqual([])
})
