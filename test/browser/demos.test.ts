// @module-tag slow
import { expect, it } from 'vitest'
import { openPage } from '../support/browser/browser.ts'

it.each(['/shop', '/book?title=Bulldozer', '/board', '/hits', '/invoice'])(
  'demos: says that %s is a demo, and uses the width of the window',
  async (path) => {
    const { window } = await openPage(path, { viewport: { width: 1280, height: 800 } })
    await window.locator('main').getByText('Demo', { exact: true }).waitFor()
    await window.locator('#app .card').first().waitFor()
    const rights = (selector: string) =>
      window.locator(selector).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right))
    const [header = 0] = await rights('header')
    expect(Math.max(...(await rights('#app .card, #app figure')))).toBe(header)
    const linksOf = (name: string) =>
      window.getByRole('navigation', { name }).getByRole('link').allTextContents()
    expect(await linksOf('Tools')).toEqual(['Console', 'GraphiQL', 'Docs'])
    expect(await linksOf('Demos')).toEqual(['Shop', 'Tickets', 'Hits', 'Invoices'])
    await window.setViewportSize({ width: 390, height: 800 })
    expect(await window.evaluate('document.documentElement.scrollWidth')).toBe(390)
  },
)

it('demos: says of no tool that it is a demo', async () => {
  const { window } = await openPage('/console')
  await window.getByRole('heading', { name: 'Your first counter' }).waitFor()
  expect(await window.locator('main').getByText('Demo', { exact: true }).count()).toBe(0)
})

it('demos: has charts that look like charts, whose bars the keyboard selects', async () => {
  const { window } = await openPage('/book?title=Bulldozer', {
    first: ['mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }'],
  })
  const slider = window.locator('#hours').getByRole('slider')
  await slider.waitFor()
  const chart = window.locator('#hours svg')
  const outline = () => chart.evaluate((svg) => getComputedStyle(svg).outlineStyle)
  expect(await slider.evaluate((field) => getComputedStyle(field).clipPath)).toBe('inset(50%)')
  expect(await outline()).toBe('none')
  // By keyboard: a mouse selects a bar without a focus.
  await window.getByRole('button', { name: 'Buy Bulldozer' }).focus()
  await window.keyboard.press('Tab')
  expect(await slider.evaluate((field) => field === document.activeElement)).toBe(true)
  expect(await outline()).toBe('solid')
})
