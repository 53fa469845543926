// @module-tag slow
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { cellsOf, consolePath, edit } from '../support/browser/console.ts'
import { expireAll } from '../support/client/invoices.ts'
import { startService } from '../support/server/service.ts'

const button = (window: Window, name: string) => window.getByRole('button', { name, exact: true })

const groups = async (window: Window) => (await cellsOf(window, 'Groups')).map((cells) => cells.slice(0, 3))

const INVOICE =
  'mutation { defineSequence(name: "invoice", namespace: "n", definition: { gapless: true, format: "INV-{value:3}" }) { id } }'

it('console, sequences: issues numbers of a sequence in groups, and shows those that others issue', {
  tags: 'quick',
}, async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', sequence: 'ticket' }))
  await window.getByText('No number was issued yet.').waitFor()
  await window.getByRole('textbox', { name: 'Group' }).fill('NINJA')
  await button(window, 'Issue').click()
  await window.getByRole('status').getByText('NINJA-1').waitFor()
  await expect.poll(() => groups(window)).toEqual([['NINJA', 'NINJA-1', 'NINJA-2']])
  await window.getByRole('textbox', { name: 'How many' }).fill('3')
  await button(window, 'Issue').click()
  await window.getByText('3 numbers from 2 to 4').waitFor()
  expect(await window.locator('pre').textContent()).toContain('count: 3')
  await ask('mutation { nextInSequence(name: "ticket", group: "NINJA", namespace: "n") { value } }')
  await expect.poll(() => groups(window)).toEqual([['NINJA', 'NINJA-5', 'NINJA-6']])
  await window.getByRole('link', { name: 'Sequences of n' }).click()
  await expect.poll(() => cellsOf(window, 'Sequences')).toMatchObject([['ticket', 'the number', /./]])
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('console, sequences: lists the groups of a sequence in pages, and searches them', async () => {
  const { url, ask } = await startService()
  const fields = Array.from(
    { length: 60 },
    (_, index) =>
      `g${index}: nextInSequence(name: "ticket", group: "G${String(index).padStart(2, '0')}", namespace: "n") { value }`,
  )
  await ask(`mutation { ${fields.slice(0, 30).join(' ')} }`)
  await ask(`mutation { ${fields.slice(30).join(' ')} }`)
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', sequence: 'ticket' }))
  await expect.poll(() => groups(window)).toHaveLength(50)
  await window.getByRole('link', { name: 'Next' }).click()
  await expect.poll(() => groups(window)).toHaveLength(10)
  await window.getByRole('searchbox', { name: 'Find a group' }).fill('39')
  await window.getByRole('link', { name: 'G39' }).click()
  await expect.poll(() => window.getByRole('textbox', { name: 'Group' }).inputValue()).toBe('G39')
})

it('console, sequences: changes the definition of a sequence, and shows what is wrong with it', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', sequence: 'ticket' }))
  await edit(window)
  const format = window.getByRole('textbox', { name: 'Format' })
  await format.fill('T-{number}')
  await button(window, 'Save').click()
  await window
    .locator('.field', { has: format })
    .getByRole('alert')
    .getByText('unknown field {number}')
    .waitFor()
  await format.fill('T-{yyyy}-{value:4}')
  await window.getByRole('combobox', { name: 'Restarts' }).selectOption('Yearly')
  await window.getByRole('textbox', { name: 'Step' }).fill('2')
  await button(window, 'Save').click()
  await window.getByRole('status').getByText('Saved.').waitFor()
  const { sequence } = await ask(
    '{ sequence(name: "ticket", namespace: "n") { format restartEvery step startValue gapless } }',
  )
  expect(sequence).toEqual({
    format: 'T-{yyyy}-{value:4}',
    restartEvery: 'YEAR',
    step: 2,
    startValue: 1,
    gapless: false,
  })
})

it('console, sequences: keeps what a person typed into a definition while numbers are issued', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', sequence: 'ticket' }))
  await edit(window)
  await window.getByRole('textbox', { name: 'Step' }).fill('2')
  await button(window, 'Issue').click()
  await expect.poll(() => groups(window)).toEqual([['without a name', '1', '2']])
  expect(await window.getByRole('textbox', { name: 'Step' }).inputValue()).toBe('2')
  await expectAccessible(window)
})

it('console, sequences: restarts and deletes a sequence, each after a question', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', sequence: 'ticket' }), {
    first: ['mutation { nextInSequence(name: "ticket", count: 9, namespace: "n") { value } }'],
  })
  await edit(window)
  await button(window, 'Restart…').click()
  await window.getByRole('dialog').getByRole('textbox', { name: 'Next number' }).fill('5')
  await button(window, 'Restart').click()
  await window.getByRole('status').getByText('The next number is').waitFor()
  await expect.poll(async () => (await groups(window))[0]?.[2]).toBe('5')
  await button(window, 'Delete…').click()
  await button(window, 'Delete').click()
  await window.getByText('No sequence was used or defined in this namespace.').waitFor()
})

it('console, sequences: reserves, confirms and releases numbers of a gapless sequence', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', sequence: 'invoice' }), {
    first: [INVOICE],
  })
  await window.getByText('The API does not list those of others.').waitFor()
  for (const number of [1, 2]) {
    await button(window, 'Reserve').click()
    await window.getByRole('status').getByText(`INV-00${number}`).waitFor()
  }
  await expectAccessible(window)
  const row = (number: number) =>
    window
      .getByRole('row')
      .filter({ hasText: `INV-00${number}` })
      .first()
  await row(1).getByRole('button', { name: 'Release' }).click()
  await row(1).getByText('Released').waitFor()
  expect(await window.evaluate('document.activeElement.textContent')).toContain('Released')
  await row(2).getByRole('button', { name: 'Confirm' }).click()
  await row(2).getByText('Confirmed').waitFor()
  await expect.poll(() => groups(window)).toEqual([['without a name', 'INV-002', 'INV-001']])
  // They are kept for the tab, in their order.
  await window.reload()
  await row(1).getByText('Released').waitFor()
  const states = async () => (await cellsOf(window, 'Reservations of this tab')).map(([number]) => number)
  await expect.poll(states).toEqual(['INV-002', 'INV-001'])
})

it('console, sequences: shows that a reservation has expired', async () => {
  const { window, target } = await openPage(consolePath({ namespace: 'n', sequence: 'invoice' }), {
    first: [INVOICE],
  })
  await button(window, 'Reserve').click()
  await window.getByText('Held until').waitFor()
  await expireAll(target)
  await window.getByText('Expired').waitFor()
  expect(await button(window, 'Confirm').count()).toBe(0)
})

it('console, sequences: offers reservations as soon as a sequence is gapless', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', sequence: 'invoice' }))
  await edit(window)
  await window.getByRole('checkbox', { name: 'Gapless' }).check()
  await button(window, 'Save').click()
  await button(window, 'Reserve').waitFor()
})
