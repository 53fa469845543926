// @module-tag slow
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cutOff } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { startProtected } from '../support/client/keys.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

/** The block of a page of the cookbook that begins with a file name, or matches. */
async function readBlock(start: string): Promise<string> {
  const text = await readFile(join(import.meta.dirname, '../../docs/cookbook.md'), 'utf8')
  const [, block = ''] =
    text
      .split('```')
      .filter((part) => part.includes(start))[0]
      ?.split(/^\w+\n/) ?? []
  return block
}

it('cookbook.md: shows the hits of each hour, also those of others, on the page of the cookbook', async () => {
  const { url, ask } = await startService()
  const page = await readBlock('<!-- hits.html -->')
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
  await expectAccessible(window)
})

/** Opens a page of the cookbook for blogs on an origin of its own, with a key or with a wrong one. */
async function startBlog(name: string) {
  const service = await startProtected()
  const block = await readBlock(`<!-- ${name} -->`)
  let key = 'nth_wrong'
  const html = () => block.replaceAll('http://127.0.0.1:4000', service.url).replaceAll('nth_…', key)
  const origin = `http://127.0.0.1:${await servePage(html)}`
  const grants = [{ scopes: ['READ', 'ADD'], namespace: 'blog', onceOnly: true }]
  const { secret } = await service.createKey(grants, { origins: [origin] })
  const { openWindow } = await openBrowser()
  return {
    ...service,
    openWithWrongKey: () => openWindow(origin),
    open() {
      key = secret
      return openWindow(origin)
    },
  }
}

const textOf = async (window: Window) =>
  (await window.locator('body').allInnerTexts()).join().trim().replace(/\s+/g, ' ')

it.each([
  ['views.html', 'Many readers', '1 readers', '2 readers'],
  ['like.html', 'Like', 'Like 0', 'Like 1'],
  [
    'poll.html',
    'Tea or coffee? Tea Coffee',
    'Tea or coffee? Tea 0 Coffee 0',
    'Tea or coffee? Tea 1 Coffee 0',
  ],
])(
  'cookbook.md: counts each browser once on the page %s of the cookbook, also after the server was down',
  async (name, content, first, last) => {
    const blog = await startBlog(name)
    const wrong = await blog.openWithWrongKey()
    await expect.poll(() => wrong.complaints.join()).toContain('401')
    expect(await textOf(wrong)).toBe(content)
    const window = await blog.open()
    await expect.poll(() => textOf(window)).toBe(first)
    expect(window.complaints).toEqual([])
    // The views of another browser; the others need a click.
    const other = await blog.open()
    await expect.poll(() => textOf(other)).toBe(name === 'views.html' ? last : first)
    const button = window.getByRole('button').first()
    const down = await cutOff(window)
    await window.reload()
    await expect.poll(down.count).toBeGreaterThan(1)
    expect(await textOf(window)).toBe(content)
    if (name !== 'views.html') await button.click()
    down.release()
    await expect.poll(() => textOf(window)).toBe(last)
    await window.reload()
    await expect.poll(() => textOf(window)).toBe(last)
  },
)

it('cookbook.md: shows the badge of the cookbook for a README in a page, or why there is no number', async () => {
  const [, address = ''] = /!\[Downloads\]\(([^)]+)\)/.exec(await readBlock('![Downloads]')) ?? []
  const { url, admin } = await startProtected({ access: { anonymous: ['READ'] } })
  const closed = await startProtected()
  await admin.ask(
    'mutation { incrementBy(name: "setup.exe", delta: 12345, namespace: "downloads") { value } }',
  )
  const images = [url, closed.url, 'http://127.0.0.1:9'].map(
    (server) => `<img alt="Downloads" src="${address.replace('https://counts.example', server)}">`,
  )
  const { openWindow } = await openBrowser()
  const window = await openWindow(`http://127.0.0.1:${await servePage(images.join(' '))}/`)
  const widths = () =>
    window.locator('img').evaluateAll((all: HTMLImageElement[]) => all.map((image) => image.naturalWidth))
  await expect
    .poll(async () => (await widths()).map((width) => Math.min(2, Math.floor(width / 80))))
    .toEqual([1, 2, 0])
})
