// @module-tag slow
import { expect, it } from 'vitest'
import { holdBack, refuseAll } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { ALERTS, recordTexts } from '../support/browser/texts.ts'
import { startRelay } from '../support/client/relay.ts'
import { startService } from '../support/server/service.ts'

const EDITION = 'Red Horse Hill, signed'
const NOT_SOLD = 'Not sold: Try later.'
const IN_DOUBT = 'The connection broke: this copy may or may not have been sold.'

const press = (window: Window, name: string) => window.getByRole('button', { name }).click()
const says = (window: Window, text: string) => window.getByText(text).waitFor()
const book = (window: Window, title: string) => window.getByRole('listitem').filter({ hasText: title })
const alertOf = (window: Window, title: string) => book(window, title).getByRole('alert')

interface Action {
  path: string
  act: (window: Window) => Promise<unknown>
  /** The mutation whose answers are lost. */
  mutation: string
  refusal: string
  doubt: string
  again: string
  result: string
  /** What the action is counted in, and a query for how often it was. */
  count: string
}

const counted = (name: string, namespace: string) =>
  `{ counter(name: "${name}", namespace: "${namespace}") { value } }`

const actions: [string, Action][] = [
  [
    'home page: a purchase',
    {
      path: '/',
      act: (window) => press(window, 'Buy a copy'),
      mutation: 'mutation Buy',
      refusal: NOT_SOLD,
      doubt: IN_DOUBT,
      again: 'Try again: Red Horse Hill',
      result: 'You just bought copy 1 of Red Horse Hill',
      count: counted('Red Horse Hill', 'booksales'),
    },
  ],
  [
    'shop: a purchase',
    {
      path: '/shop',
      act: (window) => press(window, 'Buy Bulldozer'),
      mutation: 'mutation Buy',
      refusal: NOT_SOLD,
      doubt: IN_DOUBT,
      again: 'Try again: Bulldozer',
      result: 'You just bought copy 1 of Bulldozer',
      count: counted('Bulldozer', 'booksales'),
    },
  ],
  [
    'hits: a hit',
    {
      path: '/hits',
      act: (window) => press(window, 'The lost reader'),
      mutation: 'mutation Read',
      refusal: 'Not counted: Try later.',
      doubt: 'The connection broke: you may or may not be counted.',
      again: 'Try again: The lost reader',
      result: 'You are reader 1',
      count: counted('The lost reader', 'hits'),
    },
  ],
  [
    'board: a ticket',
    {
      path: '/board',
      async act(window) {
        await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
        await window.keyboard.press('Enter')
      },
      mutation: 'mutation NewTicket',
      refusal: 'No ticket: Try later.',
      doubt: 'The connection broke: “Vanish” may have a number already.',
      again: 'Try again: NINJA',
      result: 'Your ticket is NINJA-1.',
      count:
        '{ sequence(name: "ticket", namespace: "boards") { group(name: "NINJA") { value: lastValue } } }',
    },
  ],
]

it.each(actions)(
  '%s that was refused says why, and one whose answer was lost keeps its key over a reload, until it has a result',
  async (_, { path, act, mutation, refusal, doubt, again, result, count }) => {
    const { window, ask } = await openPage(path)
    const isReady = () =>
      window
        .getByRole('button', { name: /Buy|New|lost/ })
        .first()
        .isEnabled()
    await expect.poll(isReady).toBe(true)
    const refused = await refuseAll(window, mutation, { code: 'UNAVAILABLE' })
    await act(window)
    await says(window, refusal)
    await expectAccessible(window)
    refused.release()
    await window.reload()
    await expect.poll(isReady).toBe(true)
    const lost = await refuseAll(window, mutation, { code: 'OUTCOME_UNKNOWN' }, (route) => route.fetch())
    await act(window)
    await says(window, doubt)
    await window.reload()
    await says(window, doubt)
    await expectAccessible(window)
    // Still without an answer.
    await press(window, again)
    await expect.poll(lost.count).toBe(2)
    await says(window, doubt)
    lost.release()
    await press(window, again)
    await says(window, result)
    expect(await window.getByText('The connection broke').count()).toBe(0)
    expect(JSON.stringify(await ask(count))).toContain('"value":1}')
    await window.reload()
    await expect.poll(isReady).toBe(true)
    expect(await window.getByRole('button', { name: 'Try again' }).count()).toBe(0)
  },
)

it('board: a ticket that is answered after a reload is listed with its own text', async () => {
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

it.each([
  ['/shop', 'Buy Bulldozer', 'mutation Buy', 'Buying…', 'You just bought copy 1'],
  ['/invoice', 'Begin an invoice', 'mutation Reserve', 'Getting the number…', '-00001'],
])('%s: shows after 300 ms that a request is under way', async (path, button, mutation, sign, answer) => {
  const { window } = await openPage(path)
  // Of use once there are numbers.
  await expect.poll(() => window.getByRole('button', { name: button }).isEnabled()).toBe(true)
  const change = await holdBack(window, mutation)
  await window.clock.install()
  await window.clock.pauseAt(Date.now() + 60_000)
  await press(window, button)
  await window.clock.runFor(299)
  expect(await window.getByText(sign).count()).toBe(0)
  await window.clock.runFor(1)
  await window.getByRole('status').getByText(sign).waitFor()
  await expect.poll(change.count).toBe(1)
  change.release()
  await window.getByRole('status').getByText(answer).waitFor()
  expect(await window.getByText(sign).count()).toBe(0)
})

it('shop: what it says of a purchase stays until the next one of that book, whatever else is sold', async () => {
  const { window, ask } = await openPage('/shop')
  const announced = await recordTexts(window, ALERTS)
  const refused = await refuseAll(window, '"title":"Bulldozer', { code: 'UNAVAILABLE' })
  const lost = await refuseAll(window, '"title":"Sparkplug', { code: 'OUTCOME_UNKNOWN' })
  await press(window, 'Buy Bulldozer')
  await alertOf(window, 'Bulldozer').getByText(NOT_SOLD).waitFor()
  await press(window, 'Buy Sparkplug')
  await alertOf(window, 'Sparkplug').getByText(IN_DOUBT).waitFor()
  await press(window, 'Buy Who Rides')
  await says(window, 'You just bought copy 1 of Who Rides')
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 2, namespace: "booksales") { value } }')
  await book(window, 'Bulldozer').getByText('2 copies sold').waitFor()
  expect(await alertOf(window, 'Bulldozer').textContent()).toBe(NOT_SOLD)
  expect(await alertOf(window, 'Sparkplug').textContent()).toBe(IN_DOUBT)
  expect(await announced()).toEqual([NOT_SOLD, IN_DOUBT])
  refused.release()
  lost.release()
  for (const [title, copy] of [
    ['Bulldozer', 3],
    ['Sparkplug', 1],
  ] as const) {
    await press(window, `Buy ${title}`)
    await says(window, `You just bought copy ${copy} of ${title}`)
    expect(await alertOf(window, title).textContent()).toBe('')
  }
})

it('shop: says on its button that a book is sold out, and beside it that somebody else was faster', async () => {
  const { url, ask } = await startService()
  const relay = await startRelay(url)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${relay.url}/shop`)
  await book(window, EDITION).getByText('0 of 100 copies sold').waitFor()
  relay.hold()
  await ask(`mutation { incrementBy(name: "${EDITION}", delta: 100, namespace: "booksales") { value } }`)
  await press(window, `Buy ${EDITION}`)
  await alertOf(window, EDITION).getByText('Not sold: somebody else has bought the last copy').waitFor()
  relay.release()
  const button = window.getByRole('button', { name: `Sold out ${EDITION}` })
  await button.waitFor()
  expect([await button.textContent(), await button.isDisabled()]).toEqual(['Sold out', true])
  expect(await alertOf(window, EDITION).textContent()).toContain('somebody else has bought the last copy')
  await expectAccessible(window)
  // Until there are copies again.
  const reset = (to: number) =>
    ask(`mutation { reset(name: "${EDITION}", to: ${to}, namespace: "booksales") { value } }`)
  await reset(99)
  await book(window, EDITION).getByText('Only 1 left').waitFor()
  expect(await alertOf(window, EDITION).textContent()).toBe('')
  // What may have been sold is still in doubt then.
  await refuseAll(window, 'mutation Buy', { code: 'OUTCOME_UNKNOWN' }, (route) => route.fetch())
  await press(window, `Buy ${EDITION}`)
  await button.waitFor()
  await reset(98)
  await book(window, EDITION).getByText('Only 2 left').waitFor()
  expect(await alertOf(window, EDITION).textContent()).toBe(IN_DOUBT)
})
