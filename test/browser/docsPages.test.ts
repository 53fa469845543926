// @module-tag slow
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { startService } from '../support/server/service.ts'

const NARROW = { width: 375, height: 740 }

/** How far a page, and its widest table, can be scrolled sideways. */
function sidewaysScroll(window: Window): Promise<{ page: number; table: number }> {
  return window.evaluate(`(() => {
    const hidden = ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth
    const tables = [...document.querySelectorAll('.wide')].map(hidden)
    return { page: hidden(document.documentElement), table: Math.max(0, ...tables) }
  })()`)
}

/** Every page of the documentation, by the links of its index. */
function docsPages(window: Window): Promise<string[]> {
  return window.evaluate(`[...document.querySelectorAll('article li > a')].map(({ href }) => href)`)
}

/** What is wrong with a page: what names another server, and headings without an anchor. */
function faultsOf(window: Window): Promise<string[]> {
  return window.evaluate(`(() => {
    const article = document.querySelector('article')
    const links = [...article.querySelectorAll('a')].map(({ href }) => href)
    const texts = [article.textContent, ...links].filter((text) => text.includes('http://127.0.0.1:4000'))
    const headings = [...article.querySelectorAll('h1, h2, h3, h4, h5, h6')]
    const anchorOf = (heading) => heading.querySelector(':scope > a')?.getAttribute('href')
    const bare = headings.filter((heading) => !heading.id || anchorOf(heading) !== '#' + heading.id)
    return [...texts, ...bare.map(({ textContent }) => textContent)]
  })()`)
}

const resultsOf = (window: Window) => window.getByRole('search').getByRole('link')

it('docs pages: scrolls a wide table in itself, by keyboard too, and never the page', async () => {
  const { window } = await openPage('/docs/configuration', { viewport: NARROW })
  await window.getByRole('heading', { name: 'Configuration', level: 1 }).waitFor()
  await window.getByRole('cell', { name: 'NTH_IDEMPOTENCY_TTL_HOURS' }).waitFor()
  const { page, table } = await sidewaysScroll(window)
  expect(page).toBe(0)
  expect(table).toBeGreaterThan(50)
  await window.locator('.wide').first().focus()
  await window.keyboard.press('ArrowRight')
  await expect.poll(() => window.evaluate(`document.querySelector('.wide').scrollLeft`)).toBeGreaterThan(0)
  expect(window.complaints).toEqual([])
})

it('docs pages: lists a page of the reference below its index, and leads to the next one', async () => {
  const { url, window } = await openPage('/docs/reference')
  await window.getByRole('article').getByRole('link', { name: 'increment', exact: true }).click()
  const present = window.getByRole('navigation', { name: 'Documentation' }).locator('[aria-current=page]')
  expect(await present.allTextContents()).toEqual(['increment'])
  await window.getByRole('link', { name: /^Next/ }).click()
  await window.waitForURL(`${url}/docs/reference/uncount`)
  await expectAccessible(window)
})

it('docs pages: leads to the sections of a page, to its neighbours and to all pages', async () => {
  const { window } = await openPage('/docs/')
  await window.getByRole('article').getByRole('link', { name: 'Configuration' }).click()
  const pages = window.getByRole('navigation', { name: 'Documentation' })
  await pages.getByRole('link', { name: 'Limits of a process' }).click()
  const heading = window.getByRole('heading', { name: 'Limits of a process' })
  await expect.poll(async () => (await heading.boundingBox())?.y).toBeLessThan(800)
  expect(new URL(window.url()).hash).toBe('#limits-of-a-process')
  expect(await pages.locator('[aria-current=page]').allTextContents()).toEqual(['Configuration'])
  await window.getByRole('navigation', { name: 'Neighbours' }).getByRole('link').last().click()
  await window.waitForURL(/\/docs\/deploy$/)
  await window.getByRole('link', { name: 'This page as Markdown' }).click()
  await window.waitForURL(/\/docs\/deploy\.md$/)
})

it('docs pages: leads through all pages, in their order, of which none scrolls sideways or names another server', async () => {
  const { window } = await openPage('/docs/', { viewport: NARROW })
  const pages = await docsPages(window)
  expect(pages.length).toBeGreaterThan(20)
  const faults: string[] = []
  for (const page of pages) {
    await window.getByRole('link', { name: /^Next/ }).click()
    await window.waitForURL(page)
    if ((await sidewaysScroll(window)).page > 0) faults.push(`${page} scrolls`)
    for (const fault of await faultsOf(window)) faults.push(`${page}: ${fault}`)
  }
  expect(faults).toEqual([])
  expect(await window.getByRole('link', { name: /^Next/ }).count()).toBe(0)
  await window.getByRole('link', { name: /^Previous/ }).click()
  await window.waitForURL(pages.at(-2) ?? '')
})

it('docs pages: has pages that are readable for everyone', async () => {
  const { window, url } = await openPage('/docs/')
  for (const page of [`${url}/docs/`, `${url}/docs/configuration`, `${url}/docs/readme`]) {
    await window.goto(page)
    await expectAccessible(window)
  }
})

it('docs pages: lists all pages beside the text where there is room, with the present one in sight', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  for (const width of [1280, 1600]) {
    const window = await openWindow(`${url}/docs/`, { viewport: { width, height: 800 } })
    const pages = await docsPages(window)
    const list = window.getByRole('navigation', { name: 'Documentation' })
    const links = `[...document.querySelectorAll('#pages a')].map(({ href }) => href)`
    expect(await window.evaluate(links)).toEqual(pages)
    expect(await list.isVisible()).toBe(true)
    await window.goto(`${url}/docs/changelog`)
    const present = await list.locator('[aria-current=page]').boundingBox()
    const text = await window.getByRole('article').boundingBox()
    expect((present?.y ?? 0) + (present?.height ?? 0)).toBeLessThan(800)
    expect((present?.x ?? 0) + (present?.width ?? 0)).toBeLessThan(text?.x ?? 0)
  }
})

it('docs pages: finds sections by keyboard, and loads the search only when somebody searches', async () => {
  const { window, url } = await openPage('/docs/clients')
  const requested: string[] = []
  window.on('request', (request) => {
    if (request.resourceType() === 'script') requested.push(new URL(request.url()).pathname)
  })
  await window.keyboard.press('/')
  await expect.poll(() => window.evaluate('document.activeElement.id')).toBe('query')
  expect(requested).toEqual([])
  await window.keyboard.type('rate limit')
  await resultsOf(window).first().waitFor()
  expect(requested).toEqual(['/docs/search.js'])
  const first = resultsOf(window).filter({ has: window.getByText('Security', { exact: true }) })
  expect(await first.first().locator('strong').textContent()).toBe('Limits')
  expect(await first.first().locator('p mark').first().textContent()).toMatch(/^rate$/i)
  await expectAccessible(window)
  expect(await resultsOf(window).first().getAttribute('href')).toBe('/docs/errors#rate_limited')
  await window.keyboard.press('ArrowDown')
  await window.keyboard.press('ArrowDown')
  const second = await resultsOf(window).nth(1).getAttribute('href')
  expect(await window.evaluate(`document.activeElement.getAttribute('href')`)).toBe(second)
  await window.keyboard.press('ArrowUp')
  await window.keyboard.press('ArrowUp')
  await window.keyboard.press('Enter')
  await window.waitForURL(`${url}/docs/errors#rate_limited`)
  const heading = window.getByRole('heading', { name: 'RATE_LIMITED', exact: true })
  await expect.poll(async () => (await heading.boundingBox())?.y).toBeLessThan(800)

  // Parts of words, and this server's address.
  await window.getByRole('searchbox').fill('kubern')
  await resultsOf(window).getByText('On Kubernetes').first().waitFor()
  await window.getByRole('searchbox').fill('curl')
  await resultsOf(window).getByText(`${url}/client.tgz`).first().waitFor()
  await window.keyboard.press('ArrowDown')
  await window.keyboard.press('Escape')
  await expect.poll(() => window.evaluate('document.activeElement.id')).toBe('query')
  await window.getByRole('searchbox').fill('xyzzy')
  await window.getByText('Nothing found.').waitFor()
  expect(await resultsOf(window).count()).toBe(0)
  // It is on this page: the results disappear.
  await window.getByRole('searchbox').fill('once per subject')
  await resultsOf(window).getByText('Once per subject').click()
  await window.waitForURL(`${url}/docs/security#once-per-subject`)
  await resultsOf(window).first().waitFor({ state: 'hidden' })
  expect(window.complaints).toEqual([])
})

it('docs pages: says that the search could not be loaded, and tries again', async () => {
  const { window } = await openPage('/docs/')
  await window.route('**/search.js', (route) => route.abort())
  await window.getByRole('searchbox').fill('quota')
  await window.getByText("The search couldn't be loaded.").waitFor()
  await window.unroute('**/search.js')
  await window.getByRole('searchbox').fill('quotas')
  await resultsOf(window).getByText('A quota per customer and month').waitFor()
})

it('docs pages: copies a block of code, or selects it where the browser allows no more', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const options = { permissions: ['clipboard-read', 'clipboard-write'] }
  const window = await openWindow(`${url}/docs/clients`, options)
  const block = window.locator('.block').filter({ hasText: 'npm install' }).first()
  await block.getByRole('button', { name: 'Copy' }).click()
  await block.getByText('Copied.').waitFor()
  const commands = `npm install ${url}/client.tgz\ncurl -sO ${url}/client.js -O ${url}/client.d.ts`
  expect(await window.evaluate('navigator.clipboard.readText()')).toBe(commands)

  await window.addInitScript('delete Navigator.prototype.clipboard')
  await window.reload()
  await block.getByRole('button', { name: 'Copy' }).click()
  await block.getByText('Selected: press Ctrl+C to copy.').waitFor()
  expect(await window.evaluate('getSelection().toString()')).toBe(commands)
  expect(window.complaints).toEqual([])
})

it('docs pages: can be read without JavaScript', async () => {
  const { window, url } = await openPage('/docs/clients', { javaScriptEnabled: false })
  await window.getByText('http://127.0.0.1:4000/client.tgz').waitFor()
  expect(await window.getByRole('searchbox').count()).toBe(0)
  expect(await window.getByRole('button').count()).toBe(0)
  await window.getByRole('link', { name: 'Next' }).click()
  const list = window.getByRole('navigation', { name: 'Documentation' })
  await list.getByRole('link', { name: 'Exactly once' }).click()
  await window.waitForURL(`${url}/docs/exactly-once`)
  await window.getByRole('heading', { name: 'When to retry' }).getByRole('link').click()
  await window.waitForURL(`${url}/docs/exactly-once#when-to-retry`)
})
