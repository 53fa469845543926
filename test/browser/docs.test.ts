// @module-tag slow
import { expect, it } from 'vitest'
import { axeFindings } from '../support/browser/axe.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
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

it('scrolls a wide table in itself, by keyboard too, and never the page', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/docs/configuration`, { viewport: NARROW })
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

it('leads to the sections of a page, to its neighbours and to all pages', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/docs/`)
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

it('has pages that are readable for everyone, and none that scrolls sideways', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/docs/`, { viewport: NARROW })
  const pages = await docsPages(window)
  expect(pages.length).toBeGreaterThan(20)
  const wide: string[] = []
  for (const page of pages) {
    await window.goto(page)
    if ((await sidewaysScroll(window)).page > 0) wide.push(page)
  }
  expect(wide).toEqual([])
  for (const page of [`${url}/docs/`, `${url}/docs/configuration`, `${url}/docs/readme`]) {
    await window.goto(page)
    expect(await axeFindings(window)).toEqual([])
  }
})
