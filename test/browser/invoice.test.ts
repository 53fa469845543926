// @module-tag slow
import { expect, it } from 'vitest'
import { holdBack, loseAnswers, refuseAll } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { expireAll, numbersIn } from '../support/client/invoices.ts'
import { query } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const button = (window: Window, name: string) => window.getByRole('button', { name })
const shows = (window: Window, number: string) =>
  window.getByRole('status').getByText(`INV-${new Date().getUTCFullYear()}-${number}`).waitFor()

const begin = (window: Window) => button(window, 'Begin an invoice').click()

async function startInvoices() {
  const { url, target } = await startService()
  const { openWindow } = await openBrowser()
  return { target, openInvoice: (options = {}) => openWindow(`${url}/invoice`, options) }
}

it('invoice: takes no number before an invoice is begun', async () => {
  const { target, openInvoice } = await startInvoices()
  const windows = [await openInvoice(), await openInvoice(), await openInvoice()]
  for (const window of windows) await window.reload()
  const [window = await openInvoice()] = windows
  expect(await window.getByRole('textbox').count()).toBe(0)
  await expectAccessible(window)
  await begin(window)
  await shows(window, '00001')
  expect(await numbersIn(target)).toEqual({ confirmed: [], open: [1], free: [] })
})

it('invoice: keeps the number of an invoice when the page is reloaded in the middle', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await begin(window)
  await shows(window, '00001')
  await window.getByRole('textbox').fill('Ada Lovelace')
  await expectAccessible(window)
  await window.reload()
  await shows(window, '00001')
  expect(await window.getByRole('textbox').inputValue()).toBe('Ada Lovelace')
  expect(await numbersIn(target)).toEqual({ confirmed: [], open: [1], free: [] })
  await button(window, 'Issue invoice').click()
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  await expectAccessible(window)
  await window.reload()
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [], free: [] })
  await button(window, 'Next invoice').click()
  await shows(window, '00002')
  expect(await window.getByRole('textbox').inputValue()).toBe('')
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('invoice: gives a discarded number to the next invoice, whichever window that is in', async () => {
  const { target, openInvoice } = await startInvoices()
  const [low, high] = [await openInvoice(), await openInvoice()]
  await begin(low)
  await shows(low, '00001')
  await begin(high)
  await shows(high, '00002')
  await button(low, 'Discard').click()
  await low.getByText('Discarded: the next invoice gets this number.').waitFor()
  await high.getByRole('textbox').fill('Grace Hopper')
  await button(high, 'Issue invoice').click()
  await high.getByText('Issued to Grace Hopper.').waitFor()
  await button(high, 'Next invoice').click()
  await shows(high, '00001')
  expect(await numbersIn(target)).toEqual({ confirmed: [2], open: [1], free: [] })
})

it('invoice: reports when the time is over, and then issues nothing', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await begin(window)
  await shows(window, '00001')
  await expireAll(target)
  await window.getByRole('textbox').fill('Too late')
  await button(window, 'Issue invoice').click()
  await window.getByText('The time is over: another invoice may have this number.').waitFor()
  await expectAccessible(window)
  await button(window, 'Next invoice').click()
  await window.getByText(/^Yours until/).waitFor()
  await shows(window, '00001')
  expect(await query(target, 'select state from reservation order by state')).toEqual([
    { state: 0 },
    { state: 3 },
  ])
})

it('invoice: reports without a click that the time is over', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await window.clock.install()
  await begin(window)
  await window.getByText(/^Yours until/).waitFor()
  // By the clock of this machine it is over, by that of the database it isn't.
  const look = window.waitForResponse((response) => !!response.request().postData()?.includes('query Look'))
  await window.clock.fastForward(15 * 60_000)
  await look
  await window.getByText(/^Yours until/).waitFor()
  expect(await button(window, 'Issue invoice').isEnabled()).toBe(true)
  await expireAll(target)
  await window.clock.fastForward(5000)
  await window.getByText('The time is over: another invoice may have this number.').waitFor()
  for (const name of ['Issue invoice', 'Discard']) expect(await button(window, name).isDisabled()).toBe(true)
  expect(await window.getByRole('textbox').isEditable()).toBe(false)
})

it.each([
  ['de-DE', /^Yours until \d\d:\d\d\.$/],
  ['en-US', /^Yours until \d{1,2}:\d\d\s[AP]M\.$/],
])('invoice: says the time as it is written in %s', async (locale, text) => {
  const { openInvoice } = await startInvoices()
  const window = await openInvoice({ locale })
  await begin(window)
  await window.getByText(text).waitFor()
})

it('invoice: tries again to get the same number when it got no answer, also after a reload', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  const lost = await refuseAll(window, 'mutation Reserve', { code: 'OUTCOME_UNKNOWN' }, (route) =>
    route.fetch(),
  )
  await begin(window)
  await window.getByRole('alert').getByText('There is no number now: Try later.').waitFor()
  await expectAccessible(window)
  await window.reload()
  await window.getByRole('alert').getByText('There is no number now: Try later.').waitFor()
  lost.release()
  await button(window, 'Try again').click()
  await shows(window, '00001')
  expect(await window.getByRole('alert').textContent()).toBe('')
  expect(await numbersIn(target)).toEqual({ confirmed: [], open: [1], free: [] })
})

it('invoice: issues an invoice once, also when the answer is lost', { tags: 'quick' }, async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await begin(window)
  await shows(window, '00001')
  const lost = await loseAnswers(window, 'mutation Settle', 1)
  await window.getByRole('textbox').fill('Katherine Johnson')
  await window.keyboard.press('Enter')
  await window.getByRole('alert').getByText('Try again: it is done only once.').waitFor()
  await window.keyboard.press('Enter')
  await window.getByText('Issued to Katherine Johnson.').waitFor()
  expect(lost.count()).toBe(1)
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [], free: [] })
})

it('invoice: leaves the focus where it is when an invoice gets its number', async () => {
  const { openInvoice } = await startInvoices()
  const window = await openInvoice()
  const numbers = await holdBack(window, 'mutation Reserve')
  await begin(window)
  await expect.poll(numbers.count).toBe(1)
  // The person's own click leads to the field.
  expect(await window.evaluate('document.activeElement.id')).toBe('customer')
  await window.getByRole('link', { name: 'Tickets' }).focus()
  numbers.release()
  await window.getByText(/^Yours until/).waitFor()
  expect(await window.evaluate('document.activeElement.textContent')).toBe('Tickets')
})

it('invoice: says that an invoice was not issued, and issues it on a second request', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await begin(window)
  await shows(window, '00001')
  const refused = await refuseAll(window, 'mutation Settle', { code: 'UNAVAILABLE' })
  await window.getByRole('textbox').fill('Ada Lovelace')
  await button(window, 'Issue invoice').click()
  await window.getByRole('alert').getByText('Not done: Try later.').waitFor()
  await expectAccessible(window)
  refused.release()
  await button(window, 'Issue invoice').click()
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  expect(await window.getByRole('alert').textContent()).toBe('')
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [], free: [] })
})
