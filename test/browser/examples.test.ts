// @module-tag slow
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loseAllAnswers } from '../support/browser/answers.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { serveBuilt } from '../support/browser/builtPage.ts'
import { startRelay } from '../support/client/relay.ts'
import { startService } from '../support/server/service.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')

const serveExample = (name: string, url: string) => serveBuilt(join(EXAMPLES, name), url)

const EXAMPLE_NAMES = ['html', 'react', 'react-apollo', 'react-urql', 'relay']

/** The whole page, or the item of this book. */
const book = (window: Window, title = 'Bulldozer') =>
  window.locator('body, li').filter({ hasText: title }).last()

const sold = (window: Window, text: string) => book(window).getByText(text, { exact: true }).waitFor()
const buy = (window: Window) => book(window).getByRole('button', { name: 'Buy' }).click()
const isBuyer = (window: Window, buyer: number) =>
  book(window)
    .getByText(new RegExp(`^You are buyer ${buyer}(, number ${buyer} this month)?\\.$`))
    .waitFor()

it.each(EXAMPLE_NAMES)(
  'example %s: two windows sell a book, live, also after the connection broke, and once after a lost answer',
  async (name) => {
    const { url, ask } = await startService()
    const relay = await startRelay(url)
    const page = await serveExample(name, relay.url)
    const { openWindow } = await openBrowser()
    const [window, other] = [await openWindow(page), await openWindow(page)]
    const bothShow = (text: string) => Promise.all([window, other].map((one) => sold(one, text)))
    await bothShow('0 sold')
    for (const buyer of [1, 2]) {
      await buy(window)
      await isBuyer(window, buyer)
      await bothShow(`${buyer} sold`)
    }
    relay.cut()
    // This purchase is not lost.
    await buy(other)
    await expect.poll(relay.refused).toBeGreaterThan(3)
    relay.restore()
    await isBuyer(other, 3)
    await bothShow('3 sold')
    await ask('mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }')
    await bothShow('4 sold')

    const lost = await loseAllAnswers(window, 'mutation')
    await buy(window)
    await bothShow('5 sold')
    if (name === 'html') await window.reload()
    else await book(window).getByText('It may or may not have been bought. Try again.').waitFor()
    expect(lost.count()).toBe(1)
    lost.release()
    for (const buyer of [5, 6]) {
      await buy(window)
      await isBuyer(window, buyer)
    }
    await bothShow('6 sold')
    expect(window.outside).toEqual([])
  },
)

it('example react: shows eight live books over one connection, and sells each', async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const page = await serveExample('react', url)
  const window = await openWindow('about:blank')
  let sockets = 0
  window.on('websocket', () => {
    sockets += 1
  })
  await window.goto(page)
  const titles = await window.getByRole('heading', { level: 2 }).allTextContents()
  expect(titles).toHaveLength(8)
  const shows = (text: string) =>
    Promise.all(titles.map((title) => book(window, title).getByText(text, { exact: true }).waitFor()))
  await shows('0 sold')
  for (const name of titles)
    await ask('mutation ($name: String!) { increment(name: $name, namespace: "booksales") { value } }', {
      name,
    })
  await shows('1 sold')
  for (const title of titles) await book(window, title).getByRole('button', { name: 'Buy' }).click()
  await shows('You are buyer 2.')
  await shows('2 this month')
  expect(sockets).toBe(1)
  expect(window.complaints).toEqual([])
})
