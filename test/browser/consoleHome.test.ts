// @module-tag slow
import { expect, it } from 'vitest'
import { cutOff, loseAnswers } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { cellsOf, consolePath } from '../support/browser/console.ts'
import { startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const increment = (name: string, namespace = 'n') =>
  `mutation { increment(name: "${name}", namespace: "${namespace}") { value } }`

const button = (window: Window, name: string) => window.getByRole('button', { name, exact: true })

const search = (window: Window) => window.getByRole('searchbox', { name: 'Find any name' })

/** The names, values and totals of the counters that the home shows as moving. */
const moving = (window: Window) =>
  window
    .getByRole('list', { name: 'Counters that changed last' })
    .getByRole('listitem')
    .evaluateAll((items) =>
      items.map((item) =>
        ['a', '.value', '.hint:last-child'].map((part) => item.querySelector(part)?.textContent),
      ),
    )

it('console: shows on its home which counters move, with their totals of today, and those that begin to', async () => {
  const { window, ask } = await openPage(consolePath(), {
    first: [
      increment('visitors'),
      'mutation { incrementBy(name: "readers", delta: 30, namespace: "m") { value } }',
    ],
  })
  const shown = [
    ['readers', '30', '+30 today'],
    ['visitors', '1', '+1 today'],
  ]
  await expect.poll(() => moving(window)).toEqual(shown)
  await ask('mutation { incrementBy(name: "visitors", delta: 1233, namespace: "n") { value } }')
  // What moves keeps its place.
  const moved = [shown[0], ['visitors', '1,234', '+1,234 today']]
  await expect.poll(() => moving(window)).toEqual(moved)
  await ask(increment('buyers'))
  await expect.poll(async () => (await moving(window))[0]).toEqual(['buyers', '1', '+1 today'])
  await expectAccessible(window)
  await window.getByRole('list').getByRole('link', { name: 'readers' }).click()
  await window.getByRole('heading', { name: 'Counter readers' }).waitFor()
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('console: finds counters, sequences and namespaces by parts of their names while a person types, in any case', {
  tags: 'quick',
}, async () => {
  const { url, ask } = await startService()
  for (const [name, namespace] of [
    ['Red Horse Hill', 'booksales'],
    ['redirects', 'hits'],
    ['rest', 'hits'],
    ['blue', 'reds'],
  ] as const)
    await ask(increment(name, namespace))
  await ask('mutation { nextInSequence(name: "redemption", namespace: "vouchers") { value } }')
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ view: 'keys' }))
  await search(window).pressSequentially('ED')
  await window.getByRole('heading', { name: 'Names that contain ED' }).waitFor()
  const found = [
    ['reds', 'namespace', ''],
    ['Red Horse Hill', '1', 'booksales'],
    ['redirects', '1', 'hits'],
    ['redemption', 'sequence', 'vouchers'],
  ]
  await expect.poll(() => cellsOf(window, 'Found')).toEqual(found)
  expect(await window.locator('#summary').textContent()).toBe('4 shown.')
  expect(await search(window).evaluate((field) => field === document.activeElement)).toBe(true)
  await window.reload()
  await expect.poll(() => cellsOf(window, 'Found')).toEqual(found)
  expect(await search(window).inputValue()).toBe('ED')
  // The list of a namespace has all that was found in it.
  await window.getByRole('link', { name: 'vouchers' }).click()
  await window.getByRole('heading', { name: 'Sequences of vouchers' }).waitFor()
  await window.getByRole('link', { name: 'redemption' }).click()
  await window.getByRole('heading', { name: 'Sequence redemption' }).waitFor()
  const field = window.getByRole('searchbox')
  expect([await field.count(), await field.inputValue()]).toEqual([1, ''])
  await field.fill('demp')
  await window.getByRole('heading', { name: 'Sequences of vouchers' }).waitFor()
  await expect.poll(() => cellsOf(window, 'Sequences')).toHaveLength(1)
  // Typing made one step of the way back.
  for (const _ of 'four') await window.goBack()
  await window.getByRole('heading', { name: 'API keys' }).waitFor()
})

it('console: offers to open what a search has not found', async () => {
  const { window } = await openPage(consolePath())
  await search(window).fill('visitors')
  await window.getByText('Nothing contains “\u2068visitors\u2069”.').waitFor()
  await expectAccessible(window)
  await window.getByRole('link', { name: 'the counter' }).click()
  await button(window, 'Increment').click()
  await window.getByText('1: 1 added to 0.').waitFor()
})

it('console: keeps a change whose answer was lost over a reload, and makes it once', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'visitors' }))
  const retries = await cutOff(window, 'mutation')
  await loseAnswers(window, 'mutation', 1)
  await window.getByRole('textbox', { name: 'Add' }).fill('7')
  await button(window, 'Add').click()
  await expect.poll(retries.count).toBeGreaterThan(0)
  await window.reload()
  await window.getByText('The last answer was lost: this may or may not be done.').waitFor()
  retries.release()
  await button(window, 'Try again').click()
  await window.getByText('7: 7 added to 0.').waitFor()
  expect(await button(window, 'Try again').count()).toBe(0)
  await button(window, 'Increment').click()
  await window.getByText('8: 1 added to 7.').waitFor()
  expect((await ask('{ counter(name: "visitors", namespace: "n") { value } }')).counter.value).toBe(8)
})

it('console: lets the keyboard choose the period of a chart and one of its bars, and announces its total', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'visitors' }), {
    first: ['mutation { incrementBy(name: "visitors", delta: 20, namespace: "n") { value } }'],
  })
  await window.getByRole('radio', { name: 'Day' }).focus()
  await window.keyboard.press('ArrowRight')
  await window.keyboard.press('ArrowRight')
  await window.getByText('Added in each of the last 24 months').waitFor()
  expect(window.url()).toContain('period=MONTH')
  expect(await window.getByRole('radio', { name: 'Month' }).isChecked()).toBe(true)
  const slider = window.getByRole('slider', { name: 'Month' })
  const announced = () => slider.getAttribute('aria-valuetext')
  await expect.poll(announced).toMatch(/^\w+ \d{4}: 20 added$/)
  await slider.focus()
  await window.keyboard.press('ArrowLeft')
  await expect.poll(announced).toMatch(/: 0 added$/)
  expect(await window.locator('.reading').textContent()).toBe(await announced())
  await window.keyboard.press('Home')
  const first = await announced()
  await ask(increment('visitors'))
  await expect.poll(() => window.locator('.value').textContent()).toBe('21')
  // What was chosen stays so while numbers change.
  expect(await announced()).toBe(first)
  await window.keyboard.press('End')
  await expect.poll(announced).toMatch(/: 21 added$/)
})

it('console: moves nothing when a number changes', async () => {
  const { window, url, ask } = await openPage('about:blank')
  await ask(increment('visitors'))
  const places = () =>
    window
      .locator('h1, h2, h3, a, input, button, li, th')
      .evaluateAll((all) => all.map((one) => [one.tagName, one.getBoundingClientRect().toJSON()]))
  let value = 1
  for (const [parts, text] of [
    [{}, () => `+${value} today`],
    [{ namespace: 'n' }, () => `+${value}`],
    [{ namespace: 'n', counter: 'visitors' }, () => `+${value} today, +${value} this month`],
  ] as const) {
    await window.goto(url + consolePath(parts))
    await window.getByText(text(), { exact: true }).waitFor()
    await window.getByText('You use no API key: you may do everything').waitFor()
    const before = await places()
    await ask(increment('visitors'))
    value += 1
    await window.getByText(text(), { exact: true }).waitFor()
    expect(await places()).toEqual(before)
  }
})

it('console: works with a key that may count in one namespace, from the home page to a change', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask(increment('visitors'))
  await admin.ask(increment('secrets', 'other'))
  const { secret } = await createKey([{ scopes: ['READ', 'ADD'], namespace: 'n' }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath())
  await window.getByRole('alert').getByText('This server asks for an API key.').waitFor()
  await window.getByLabel('API key, kept for this tab only').fill(secret)
  await window.keyboard.press('Enter')
  await window.getByText('you may read and add 1 on every name in “\u2068n\u2069”.').waitFor()
  await expect.poll(() => moving(window)).toEqual([['visitors', '1', '+1 today']])
  await expect.poll(async () => (await cellsOf(window, 'Namespaces')).map(([name]) => name)).toEqual(['n'])
  await search(window).fill('secret')
  await window.getByText('Nothing contains “\u2068secret\u2069”.').waitFor()
  await search(window).fill('v')
  await window.getByRole('link', { name: 'visitors', exact: true }).click()
  await button(window, 'Increment').click()
  await window.getByText('2: 1 added to 1.').waitFor()
  await button(window, 'Add').click()
  await window.locator('#access').getByRole('alert').getByText('Enter another API key.').waitFor()
  expect(window.complaints.filter((text) => !/status of 40[13]/.test(text))).toEqual([])
})
