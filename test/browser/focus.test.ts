// @module-tag slow
import { expect, it } from 'vitest'
import { holdBack } from '../support/browser/answers.ts'
import { openPage, type Window } from '../support/browser/browser.ts'

/** The accessible name, or else the text, of what has the focus. */
const focused = (window: Window) =>
  window.evaluate('document.activeElement.ariaLabel || document.activeElement.textContent.trim()')

it('lets a person go on typing in one board when the ticket of the other is answered', async () => {
  const { window } = await openPage('/board')
  const field = (name: string) => window.getByRole('textbox', { name })
  const tickets = await holdBack(window, 'mutation NewTicket')
  await field('NINJA').fill('Sharpen the sword')
  await window.keyboard.press('Enter')
  await expect.poll(tickets.count).toBe(1)
  await field('ROCK').focus()
  await window.keyboard.type('Tune the ')
  tickets.release()
  await window.getByText('Your ticket is NINJA-1.').waitFor()
  await window.keyboard.type('guitar')
  expect(await field('ROCK').inputValue()).toBe('Tune the guitar')
  expect(await field('NINJA').inputValue()).toBe('')
})

it('keeps what a person typed in a board while its ticket was under way', async () => {
  const { window } = await openPage('/board')
  const field = window.getByRole('textbox', { name: 'NINJA' })
  const tickets = await holdBack(window, 'mutation NewTicket')
  await field.fill('Vanish')
  await window.keyboard.press('Enter')
  await expect.poll(tickets.count).toBe(1)
  await field.fill('Appear')
  tickets.release()
  await window.getByText('Your ticket is NINJA-1.').waitFor()
  expect(await field.inputValue()).toBe('Appear')
})

it.each([
  ['the shop', '/shop'],
  ['a book', '/book?title=Bulldozer'],
])('leaves the focus where it is when a purchase in %s is answered', async (_, path) => {
  const { window } = await openPage(path, {
    first: [
      'mutation { defineCounter(name: "Bulldozer", namespace: "booksales", definition: { maxValue: 2 }) { value } }',
    ],
  })
  const purchases = await holdBack(window, 'mutation Buy')
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await expect.poll(purchases.count).toBe(1)
  await window.getByRole('link', { name: 'GraphiQL' }).focus()
  purchases.release()
  await window.getByText('You just bought copy 1 of Bulldozer').waitFor()
  expect(await focused(window)).toBe('GraphiQL')

  // On the button itself, too, also when it has nothing more to sell.
  await window.getByRole('button', { name: 'Buy Bulldozer' }).focus()
  await window.keyboard.press('Enter')
  await window.getByText('You just bought copy 2 of Bulldozer').waitFor()
  expect(await focused(window)).toBe('Sold out Bulldozer')
})

it('leaves the focus where it is when an invoice gets its number, and when it is issued', async () => {
  const { window } = await openPage('/invoice')
  const numbers = await holdBack(window, 'mutation Reserve')
  await window.getByRole('button', { name: 'Begin an invoice' }).click()
  await expect.poll(numbers.count).toBe(1)
  // The person's own click leads to the field.
  expect(await window.evaluate('document.activeElement.id')).toBe('customer')
  await window.getByRole('link', { name: 'Tickets' }).focus()
  numbers.release()
  await window.getByText(/^Yours until/).waitFor()
  expect(await focused(window)).toBe('Tickets')

  await window.getByRole('textbox').fill('Ada Lovelace')
  await window.getByRole('button', { name: 'Issue invoice' }).focus()
  await window.keyboard.press('Enter')
  await window.getByText('Issued to Ada Lovelace.').waitFor()
  expect(await focused(window)).toBe('Issue invoice')
})
