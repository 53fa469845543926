// @module-tag slow
import { expect, it } from 'vitest'
import { refuseAll } from '../support/browser/answers.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { numbersIn } from '../support/client/invoices.ts'
import { startRelay } from '../support/client/relay.ts'
import { startService } from '../support/server/service.ts'

const press = (window: Window, name: string) => window.getByRole('button', { name }).click()
const says = (window: Window, text: string) => window.getByText(text).waitFor()

interface Action {
  path: string
  act: (window: Window) => Promise<unknown>
  /** The mutation whose answers are lost. */
  mutation: string
  doubt: string
  again: string
  result: string
  /** What the action is counted in, and a query for how often it was. */
  count: string
}

const counted = (name: string, namespace: string) =>
  `{ counter(name: "${name}", namespace: "${namespace}") { value } }`
const BOUGHT = 'The connection broke: this copy may or may not have been sold.'

const actions: [string, Action][] = [
  [
    'a purchase on the first page',
    {
      path: '/',
      act: (window) => press(window, 'Buy a copy'),
      mutation: 'mutation Buy',
      doubt: BOUGHT,
      again: 'Try again: Red Horse Hill',
      result: 'You just bought copy 1 of Red Horse Hill',
      count: counted('Red Horse Hill', 'booksales'),
    },
  ],
  [
    'a purchase in the shop',
    {
      path: '/shop',
      act: (window) => press(window, 'Buy Bulldozer'),
      mutation: 'mutation Buy',
      doubt: BOUGHT,
      again: 'Try again: Bulldozer',
      result: 'You just bought copy 1 of Bulldozer',
      count: counted('Bulldozer', 'booksales'),
    },
  ],
  [
    'a hit',
    {
      path: '/hits',
      act: (window) => press(window, 'The lost reader'),
      mutation: 'mutation Read',
      doubt: 'The connection broke: you may or may not be counted.',
      again: 'Try again: The lost reader',
      result: 'You are reader 1',
      count: counted('The lost reader', 'hits'),
    },
  ],
  [
    'a ticket, with its text',
    {
      path: '/board',
      async act(window) {
        await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
        await window.keyboard.press('Enter')
      },
      mutation: 'mutation NewTicket',
      doubt: 'The connection broke: “Vanish” may have a number already.',
      again: 'Try again: NINJA',
      result: 'Your ticket is NINJA-1.',
      count:
        '{ sequence(name: "ticket", namespace: "boards") { group(name: "NINJA") { value: lastValue } } }',
    },
  ],
]

it.each(actions)('keeps the key of %s over a reload until there is a result', async (_, action) => {
  const { window, ask } = await openPage(action.path)
  await expect
    .poll(() =>
      window
        .getByRole('button', { name: /Buy|New|lost/ })
        .first()
        .isEnabled(),
    )
    .toBe(true)
  const lost = await refuseAll(window, action.mutation, { code: 'OUTCOME_UNKNOWN' }, (route) => route.fetch())
  await action.act(window)
  await says(window, action.doubt)
  await window.reload()
  await says(window, action.doubt)
  // Still without an answer.
  await press(window, action.again)
  await expect.poll(lost.count).toBe(2)
  await says(window, action.doubt)
  lost.release()
  await press(window, action.again)
  await says(window, action.result)
  expect(await window.getByText('The connection broke').count()).toBe(0)
  expect(JSON.stringify(await ask(action.count))).toContain('"value":1}')

  await window.reload()
  await expect
    .poll(() =>
      window
        .getByRole('button', { name: /Buy|New|lost/ })
        .first()
        .isEnabled(),
    )
    .toBe(true)
  expect(await window.getByRole('button', { name: 'Try again' }).count()).toBe(0)
})

it('lists the ticket with its own text when it is answered after a reload', async () => {
  const { window } = await openPage('/board')
  const lost = await refuseAll(window, 'mutation NewTicket', { code: 'OUTCOME_UNKNOWN' }, (route) =>
    route.fetch(),
  )
  await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
  await window.keyboard.press('Enter')
  await says(window, 'The connection broke')
  await window.reload()
  lost.release()
  await window.getByRole('textbox', { name: 'NINJA' }).fill('Appear')
  await press(window, 'Try again: NINJA')
  await says(window, 'Your ticket is NINJA-1.')
  expect(await window.getByRole('listitem').allTextContents()).toEqual(['NINJA-1 Vanish'])
  expect(await window.getByRole('textbox', { name: 'NINJA' }).inputValue()).toBe('Appear')
})

it('gets the same number for an invoice after a reload, when the answer was lost', async () => {
  const { window, target } = await openPage('/invoice')
  const lost = await refuseAll(window, 'mutation Reserve', { code: 'OUTCOME_UNKNOWN' }, (route) =>
    route.fetch(),
  )
  await press(window, 'Begin an invoice')
  await says(window, 'There is no number now: Try later.')
  lost.release()
  await window.reload()
  await window.getByRole('status').getByText('-00001').waitFor()
  expect(await numbersIn(target)).toEqual({ confirmed: [], open: [1], free: [] })
})

it.each([
  ['/', '0 sold so far'],
  ['/shop', '0 of 100 copies sold'],
  ['/book?title=Bulldozer', '0 copies sold'],
  ['/board', '0 tickets'],
  ['/hits', '0 readers'],
])(
  'reconnects at once on %s when a person asks for it, and moves no focus with the answer',
  async (path, text) => {
    const { url } = await startService()
    const relay = await startRelay(url)
    const { openWindow } = await openBrowser()
    const window = await openWindow('about:blank')
    await window.clock.install()
    let open = 0
    window.on('request', () => {
      open += 1
    })
    window.on('requestfailed', () => {
      open -= 1
    })
    window.on('requestfinished', () => {
      open -= 1
    })
    await window.goto(`${relay.url}${path}`)
    await window.getByText(text).first().waitFor()
    relay.cut()
    await says(window, 'The numbers may be old')
    // Its last attempt of its own is made now, and fails.
    await window.clock.pauseAt(Date.now() + 3_600_000)
    await expect.poll(() => open).toBe(0)
    await says(window, 'Waiting to reconnect.')
    relay.restore()
    await press(window, 'Retry now')
    await expect.poll(() => window.getByText('may be old').count()).toBe(0)
    expect(await window.evaluate("document.activeElement.matches('.freshness')")).toBe(true)
  },
)
