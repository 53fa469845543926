// @module-tag slow
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loseAllAnswers } from '../support/browser/answers.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { serveBuilt } from '../support/browser/builtPage.ts'
import { startRelay } from '../support/client/relay.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { freePort } from '../support/server/freePort.ts'
import { startNth } from '../support/server/nthProcess.ts'
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

it.each(['react', 'react-apollo', 'react-urql', 'relay'])(
  'sells one copy, with one number, in the example %s to who clicks again after all answers were lost',
  async (name) => {
    const { url, ask } = await startService()
    const page = await serveExample(name, url)
    const { openWindow } = await openBrowser()
    const window = await openWindow(page)
    await sold(window, '0 sold')
    const lost = await loseAllAnswers(window, 'mutation')
    await buy(window)
    await book(window).getByText('It may or may not have been bought. Try again.').waitFor()
    expect(lost.count()).toBe(1)
    await sold(window, '1 sold')
    lost.release()
    await buy(window)
    await isBuyer(window, 1)
    await buy(window)
    await isBuyer(window, 2)
    expect(await ask('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')).toEqual({
      counter: { value: 2 },
    })
  },
)

it('shows eight live books at once, and sells each, over HTTP/1.1, where a browser opens six connections', async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(await serveExample('react', url))
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
  expect(window.complaints).toEqual([])
})

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
