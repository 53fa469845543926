import { expect, it } from 'vitest'
import { openBrowser, type Window } from '../support/browser.ts'
import { query } from '../support/database.ts'
import { expireAll, numbersIn } from '../support/invoices.ts'
import { startService } from '../support/service.ts'

const YEAR = new Date().getUTCFullYear()

const button = (window: Window, name: string) => window.getByRole('button', { name })
const shows = (window: Window, number: string) =>
  window.getByRole('status').getByText(`INV-${YEAR}-${number}`).waitFor()

async function startInvoices() {
  const { url, target } = await startService()
  const { openWindow } = await openBrowser()
  return { target, openInvoice: () => openWindow(`${url}/invoice`) }
}

it('keeps the number of an invoice when the page is loaded again in the middle', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await shows(window, '00001')
  await window.getByRole('textbox').fill('Ada Lovelace')
  await window.reload()
  await shows(window, '00001')
  expect(await window.getByRole('textbox').inputValue()).toBe('Ada Lovelace')
  expect(await numbersIn(target)).toEqual({ confirmed: [], open: [1], free: [] })
  await button(window, 'Issue invoice').click()
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  await window.reload()
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [], free: [] })
  await button(window, 'Next invoice').click()
  await shows(window, '00002')
  expect(await window.getByRole('textbox').inputValue()).toBe('')
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('gives a discarded number to the next invoice, whichever window that is in', async () => {
  const { target, openInvoice } = await startInvoices()
  const [first, second] = [await openInvoice(), await openInvoice()]
  const numbers = await Promise.all([first, second].map((window) => window.getByText(/^INV-/).textContent()))
  expect(new Set(numbers).size).toBe(2)
  const [low, high] = numbers[0]?.endsWith('1') ? [first, second] : [second, first]
  await button(low, 'Discard').click()
  await low.getByText('Discarded: the next invoice gets this number.').waitFor()
  await high.getByRole('textbox').fill('Grace Hopper')
  await button(high, 'Issue invoice').click()
  await high.getByText('Issued to Grace Hopper.').waitFor()
  await button(high, 'Next invoice').click()
  await shows(high, '00001')
  expect(await numbersIn(target)).toEqual({ confirmed: [2], open: [1], free: [] })
})

it('says when the time is over, and issues nothing then', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await shows(window, '00001')
  await expireAll(target)
  await window.getByRole('textbox').fill('Too late')
  await button(window, 'Issue invoice').click()
  await window.getByText('The time is over: another invoice may have this number.').waitFor()
  await button(window, 'Next invoice').click()
  await window.getByText(/^Yours until/).waitFor()
  await shows(window, '00001')
  expect(await query(target, 'select state from reservation order by state')).toEqual([
    { state: 0 },
    { state: 3 },
  ])
})

it('issues an invoice once, also when the answer is lost', async () => {
  const { target, openInvoice } = await startInvoices()
  const window = await openInvoice()
  await shows(window, '00001')
  let lost = 0
  await window.route('**/graphql', async (route) => {
    if (!route.request().postData()?.includes('mutation Settle') || lost === 2) return route.continue()
    lost += 1
    await route.fetch()
    return route.abort()
  })
  await window.getByRole('textbox').fill('Katherine Johnson')
  await window.keyboard.press('Enter')
  await window.getByText('Issued to Katherine Johnson.').waitFor()
  expect(await numbersIn(target)).toEqual({ confirmed: [1], open: [], free: [] })
})
