// @module-tag slow
import { expect, it } from 'vitest'
import { cutOff, holdBack, loseAnswers, refuseAll } from '../support/browser/answers.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { ALERTS, recordTexts } from '../support/browser/texts.ts'
import { upTo } from '../support/client/client.ts'
import { startRelay } from '../support/client/relay.ts'
import { type Service, startService } from '../support/server/service.ts'

const EDITION = 'Red Horse Hill, signed'

const book = (window: Window, title: string) => window.getByRole('listitem').filter({ hasText: title })

/** Has another client change a number of a page, and waits until the page shows it. */
async function showsAnother(window: Window, { ask }: Service, path: string): Promise<void> {
  if (path === '/board') {
    const { nextInSequence } = await ask(
      'mutation { nextInSequence(name: "ticket", group: "ROCK", namespace: "boards") { value } }',
    )
    const { value } = nextInSequence
    await window.getByText(`${value} ticket${value === 1 ? '' : 's'}`, { exact: true }).waitFor()
    return
  }
  const title = path === '/shop' ? 'The Long Trains Roll' : 'Bulldozer'
  const { incrementBy } = await ask(
    `mutation { incrementBy(name: "${title}", delta: 2, namespace: "booksales") { value } }`,
  )
  await window.getByText(`${incrementBy.value} copies sold`).waitFor()
}

const pages = [
  ['the shop', '/shop', '0 of 100 copies sold'],
  ['a book', '/book?title=Bulldozer', '0 copies sold'],
  ['the boards', '/board', '0 tickets'],
] as const

it.each(pages)(
  'says once, in %s, that the numbers may be old, and until they are fresh',
  async (_, path, text) => {
    const service = await startService()
    const relay = await startRelay(service.url)
    const { openWindow } = await openBrowser()
    const window = await openWindow(`${relay.url}${path}`)
    await window.getByText(text).first().waitFor()
    const announced = await recordTexts(window, ALERTS)
    relay.cut()
    await window
      .getByRole('alert')
      .getByText("The numbers may be old: The server can't be reached.")
      .waitFor()
    await expect.poll(relay.refused).toBeGreaterThan(4)
    relay.restore()
    await showsAnother(window, service, path)
    await expect.poll(() => window.getByText('may be old').count()).toBe(0)
    expect(await announced()).toEqual(["The numbers may be old: The server can't be reached."])
  },
)

it.each(pages)(
  'says in %s that the server is out of reach where there are no numbers',
  async (_, path, text) => {
    const { window, url } = await openPage('about:blank', { hasSockets: false })
    const reading = await cutOff(window)
    await window.goto(`${url}${path}`)
    await window.getByRole('alert').getByText("The server can't be reached.").waitFor()
    const announced = await recordTexts(window, ALERTS)
    await expect.poll(reading.count).toBeGreaterThan(2)
    expect(await window.getByText('may be old').count()).toBe(0)
    expect(await announced()).toEqual([])
    reading.release()
    await window.getByText(text).first().waitFor()
    await expect.poll(() => window.getByText("can't be reached").count()).toBe(0)
  },
)

it('says the same where the server has no numbers', async () => {
  const { window, url } = await openPage('about:blank', { hasSockets: false })
  await refuseAll(window, 'Sales', { code: 'UNAVAILABLE' })
  await window.goto(`${url}/shop`)
  await window.getByRole('alert').getByText("The numbers can't be reached: Try later.").waitFor()
  expect(await window.getByText('may be old').count()).toBe(0)
})

it('shows that numbers are loading when they take long', async () => {
  const { window, url } = await openPage('about:blank', { hasSockets: false })
  const reading = await holdBack(window, 'Sales')
  await window.goto(`${url}/shop`)
  await window.getByRole('status').getByText('Loading the numbers…').waitFor()
  reading.release()
  await book(window, 'Bulldozer').getByText('0 copies sold').waitFor()
  expect(await window.getByText('Loading the numbers…').count()).toBe(0)
})

it.each([
  ['/shop', 'Buy Bulldozer', 'mutation Buy', 'Buying…', 'You just bought copy 1'],
  ['/book?title=Bulldozer', 'Buy Bulldozer', 'mutation Buy', 'Buying…', 'You just bought copy 1'],
  ['/board', 'New ticket on NINJA', 'mutation NewTicket', 'Taking a number…', 'Your ticket is NINJA-1.'],
  ['/invoice', 'Begin an invoice', 'mutation Reserve', 'Getting the number…', '-00001'],
])('shows in %s after 300 ms that a request is under way', async (path, button, mutation, sign, answer) => {
  const { window } = await openPage(path)
  if (path === '/board') await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
  // Of use once there are numbers.
  await expect.poll(() => window.getByRole('button', { name: button }).isEnabled()).toBe(true)
  const change = await holdBack(window, mutation)
  await window.clock.install()
  await window.clock.pauseAt(Date.now() + 60_000)
  await window.getByRole('button', { name: button }).click()
  await window.clock.runFor(299)
  expect(await window.getByText(sign).count()).toBe(0)
  await window.clock.runFor(1)
  await window.getByRole('status').getByText(sign).waitFor()
  await expect.poll(change.count).toBe(1)
  change.release()
  await window.getByRole('status').getByText(answer).waitFor()
  expect(await window.getByText(sign).count()).toBe(0)
})

it('keeps beside a book that it was not sold, until the next purchase there', async () => {
  const service = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${service.url}/shop`)
  const alert = book(window, 'Bulldozer').getByRole('alert')
  const announced = await recordTexts(window, ALERTS)
  const refused = await refuseAll(window, 'mutation Buy', { code: 'UNAVAILABLE' })
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await alert.getByText('Not sold: Try later.').waitFor()
  refused.release()
  await window.getByRole('button', { name: 'Buy Who Rides' }).click()
  await window.getByText('You just bought copy 1 of Who Rides').waitFor()
  for (const _ of upTo(2)) await showsAnother(window, service, '/shop')
  expect(await alert.textContent()).toBe('Not sold: Try later.')
  expect(await announced()).toEqual(['Not sold: Try later.'])
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await window.getByText('You just bought copy 1 of Bulldozer').waitFor()
  expect(await alert.textContent()).toBe('')
})

it.each([
  ['/shop', 'Bulldozer'],
  ['/book?title=Bulldozer', 'Bulldozer'],
])('keeps in %s that a copy may or may not have been sold', async (path, title) => {
  const service = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${service.url}${path}`)
  const lost = await refuseAll(window, 'mutation Buy', { code: 'OUTCOME_UNKNOWN' })
  await window.getByRole('button', { name: `Buy ${title}` }).click()
  const text = 'The connection broke: this copy may or may not have been sold.'
  await window.getByRole('alert').getByText(text).waitFor()
  for (const _ of upTo(2)) await showsAnother(window, service, path)
  expect(await window.getByRole('alert').getByText(text).count()).toBe(1)
  lost.release()
  await window.getByRole('button', { name: `Buy ${title}` }).click()
  await window.getByText('You just bought copy').waitFor()
  expect(await window.getByText(text).count()).toBe(0)
})

it('says that a copy may have been sold where its answer was lost, and every retry was refused', async () => {
  const { window, ask } = await openPage('/shop')
  await book(window, 'Bulldozer').getByText('0 copies sold').waitFor()
  const refused = await refuseAll(window, 'mutation Buy', {
    code: 'UNAVAILABLE',
    retryable: true,
    retryAfterMs: 60_000,
  })
  await loseAnswers(window, 'mutation Buy', 1)
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await book(window, 'Bulldozer')
    .getByRole('alert')
    .getByText('The connection broke: this copy may or may not have been sold.')
    .waitFor()
  expect(refused.count()).toBe(1)
  expect(await ask('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')).toEqual({
    counter: { value: 1 },
  })
})

it('says on the button of a book that it is sold out, and beside it that somebody else was faster', async () => {
  const service = await startService()
  const { ask } = service
  const relay = await startRelay(service.url)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${relay.url}/shop`)
  await book(window, EDITION).getByText('0 of 100 copies sold').waitFor()
  relay.hold()
  await ask(`mutation { incrementBy(name: "${EDITION}", delta: 100, namespace: "booksales") { value } }`)
  await window.getByRole('button', { name: `Buy ${EDITION}` }).click()
  const alert = book(window, EDITION).getByRole('alert')
  await alert.getByText('Not sold: somebody else has bought the last copy').waitFor()
  relay.release()
  const button = window.getByRole('button', { name: `Sold out ${EDITION}` })
  await button.waitFor()
  expect([await button.textContent(), await button.isDisabled()]).toEqual(['Sold out', true])
  for (const _ of upTo(2)) await showsAnother(window, service, '/shop')
  expect(await alert.textContent()).toContain('somebody else has bought the last copy')
  // Until there are copies again.
  await ask(`mutation { reset(name: "${EDITION}", to: 99, namespace: "booksales") { value } }`)
  await book(window, EDITION).getByText('Only 1 left').waitFor()
  expect(await alert.textContent()).toBe('')
  await window.getByRole('button', { name: `Buy ${EDITION}` }).click()
  await window.getByText('You just bought copy 100').waitFor()
})

it('keeps beside a sold-out book that a copy may have been sold, also when there are copies again', async () => {
  const { window, ask } = await openPage('/shop')
  await book(window, EDITION).getByText('0 of 100 copies sold').waitFor()
  await ask(`mutation { reset(name: "${EDITION}", to: 99, namespace: "booksales") { value } }`)
  await book(window, EDITION).getByText('Only 1 left').waitFor()
  await refuseAll(window, 'mutation Buy', { code: 'OUTCOME_UNKNOWN' }, (route) => route.fetch())
  await window.getByRole('button', { name: `Buy ${EDITION}` }).click()
  await window.getByRole('button', { name: `Sold out ${EDITION}` }).waitFor()
  await ask(`mutation { reset(name: "${EDITION}", to: 98, namespace: "booksales") { value } }`)
  await book(window, EDITION).getByText('Only 2 left').waitFor()
  expect(await book(window, EDITION).getByRole('alert').textContent()).toContain(
    'may or may not have been sold',
  )
})

it('says beside a board that it got no ticket, and nothing beside the other', async () => {
  const service = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${service.url}/board`)
  const board = (name: string) => window.getByRole('region', { name })
  const refused = await refuseAll(window, 'mutation NewTicket', { code: 'UNAVAILABLE' })
  await board('NINJA').getByRole('textbox').fill('Vanish')
  await window.keyboard.press('Enter')
  await board('NINJA').getByRole('alert').getByText('No ticket: Try later.').waitFor()
  expect(await board('ROCK').getByRole('alert').textContent()).toBe('')
  refused.release()
  await board('ROCK').getByRole('textbox').fill('Roll')
  await window.keyboard.press('Enter')
  await window.getByText('Your ticket is ROCK-1.').waitFor()
  for (const _ of upTo(2)) await showsAnother(window, service, '/board')
  expect(await board('NINJA').getByRole('alert').textContent()).toBe('No ticket: Try later.')
})
