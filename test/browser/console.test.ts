// @module-tag slow
import { expect, it } from 'vitest'
import { cutOff } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { cellsOf, consolePath, createCounters, edit } from '../support/browser/console.ts'
import { runLeaderboardJobs } from '../support/database/leaderboards.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const names = async (window: Window) => (await cellsOf(window, 'Counters')).map(([name]) => name)

const button = (window: Window, name: string) => window.getByRole('button', { name, exact: true })

const nameField = (window: Window) => window.getByRole('searchbox', { name: 'Find or open a counter' })

/** The name of what has the focus. */
const focused = (window: Window) =>
  window.evaluate('document.activeElement.ariaLabel || document.activeElement.textContent.trim()')

/** Increments a counter of the namespace `n` as another client. */
const increment = (name: string) => `mutation { increment(name: "${name}", namespace: "n") { value } }`

it('console: leads from the home page to a namespace, its counters and one of them, and back', {
  tags: 'quick',
}, async () => {
  const { window } = await openPage('/', { first: [increment('visitors')] })
  await window.getByRole('link', { name: 'Console', exact: true }).click()
  await window.getByRole('heading', { name: 'What is happening' }).waitFor()
  await window.getByRole('link', { name: 'n', exact: true }).click()
  await window.getByRole('heading', { name: 'Counters of n' }).waitFor()
  await window.getByRole('link', { name: 'visitors' }).click()
  await window.getByRole('heading', { name: 'Counter visitors' }).waitFor()
  expect(await window.title()).toBe('visitors · n · Console · Nth')
  expect(await focused(window)).toBe('Counter visitors')
  await window.reload()
  await window.getByRole('heading', { name: 'Counter visitors' }).waitFor()
  await window.goBack()
  await window.getByRole('heading', { name: 'Counters of n' }).waitFor()
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('console: says how to open the first counter of a namespace', async () => {
  const { window } = await openPage(consolePath({ namespace: 'default' }))
  await window.getByText('No counter was written or defined in this namespace.').waitFor()
  await expectAccessible(window)
  await nameField(window).fill('visitors')
  await window.getByRole('link', { name: 'the counter' }).click()
  await window.getByText('Neither written nor defined yet: it is created on first use.').waitFor()
  await button(window, 'Increment').click()
  await window.getByRole('status').getByText('1: 1 added to 0.').waitFor()
  await window.getByText(/^Created /).waitFor()
  expect(await window.locator('.value').textContent()).toBe('1')
})

it('console: shows limits and what is held, live, and releases a hold', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'seats' }), {
    first: [
      'mutation { defineCounter(name: "seats", namespace: "n", definition: { maxIn: [{ period: DAY, max: 20 }] }) { name } }',
    ],
  })
  await window.getByText('0 of 20 today, until').waitFor()
  await ask('mutation { hold(changes: [{ name: "seats", delta: 3 }], namespace: "n") { id } }')
  await window.getByText('3 held, and not counted yet').waitFor()
  await window.getByText('0 of 20 today, 3 held, until').waitFor()
  await window.getByText(/^\+3 until /).waitFor()
  await expectAccessible(window)
  await button(window, 'Release').click()
  await window.getByText('3 held, and not counted yet').waitFor({ state: 'detached' })
  expect(await ask('{ counter(name: "seats", namespace: "n") { held } }')).toEqual({ counter: { held: 0 } })
  expect(window.complaints).toEqual([])
})

it('console: loads only the page of counters that it shows', async () => {
  const { window, url, ask } = await openPage('about:blank')
  await createCounters(ask, 'n', 3000)
  const sizes: number[] = []
  window.on('response', async (response) => {
    if (!response.request().postData()?.includes('query Counters')) return
    sizes.push((await response.json()).data.namespace.counters.edges.length)
  })
  await window.goto(url + consolePath({ namespace: 'n' }))
  await window.getByRole('link', { name: 'name 0049' }).waitFor()
  expect((await names(window)).length).toBe(50)
  await window.getByRole('link', { name: 'Next' }).click()
  await window.getByRole('link', { name: 'name 0099' }).waitFor()
  expect((await names(window))[0]).toBe('name 0050')
  await window.getByRole('link', { name: 'Previous' }).click()
  await window.getByRole('link', { name: 'name 0000' }).waitFor()
  await window.goBack()
  await window.getByRole('link', { name: 'name 0099' }).waitFor()
  await window.getByRole('link', { name: 'First' }).click()
  await window.getByRole('link', { name: 'name 0000' }).waitFor()
  await expect.poll(() => sizes).toEqual([50, 50, 50, 50, 50])
})

it('console: finds counters by a part of their names while a person types, and sorts them by value', async () => {
  const { url, ask } = await startService()
  await createCounters(ask, 'n', 120)
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n' }))
  await nameField(window).pressSequentially('E 011')
  await expect.poll(() => names(window)).toHaveLength(10)
  // Searching again, and again, takes no way back to the field.
  expect(await focused(window)).toBe('Find or open a counter')
  expect(await window.getByRole('combobox', { name: 'Order' }).count()).toBe(0)
  await nameField(window).fill('nobody')
  await window.getByText('Nothing contains “\u2068nobody\u2069”.').waitFor()
  await nameField(window).fill('')
  // The order by value is about a second behind.
  const highest = async () => {
    await window.getByRole('combobox', { name: 'Order' }).selectOption('Name')
    await window.getByRole('combobox', { name: 'Order' }).selectOption('Highest value first')
    await expect.poll(() => names(window)).toHaveLength(50)
    return (await cellsOf(window, 'Counters'))[0]?.slice(0, 2)
  }
  await expect.poll(highest).toEqual(['name 0119', '120'])
  expect(window.url()).toContain('order=VALUE_DESC')
})

it('console: shows the places of counters, by value and by what was added this month', async () => {
  const { url, ask, target } = await startService()
  await ask('mutation { defineNamespace(name: "n", definition: { leaderboards: [MONTH] }) { name } }')
  await createCounters(ask, 'n', 3)
  await ask('mutation { incrementBy(name: "name 0000", delta: 1, namespace: "n") { value } }')
  await ask('mutation { reset(name: "name 0001", to: 9, namespace: "n") { value } }')
  await runLeaderboardJobs(target)
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n' }))
  const rows = async () =>
    (await cellsOf(window, 'Counters')).map(([name, amount, , place]) => [name, amount, place])
  await window.getByRole('combobox', { name: 'Order' }).selectOption('Highest value first')
  await expect.poll(rows).toEqual([
    ['name 0001', '9', '1'],
    ['name 0002', '3', '2'],
    ['name 0000', '2', '3'],
  ])
  await window.getByRole('combobox', { name: 'Order' }).selectOption('Most added this month')
  await expect.poll(rows).toEqual([
    ['name 0002', '+3', '1'],
    ['name 0001', '+2', '2'],
    ['name 0000', '+2', '2'],
  ])
  await window.getByRole('link', { name: 'name 0000' }).click()
  await window.getByRole('link', { name: '3rd by value' }).waitFor()
  await ask('mutation { incrementBy(name: "name 0000", delta: 20, namespace: "n") { value } }')
  await window.getByRole('link', { name: '1st by value' }).waitFor()
  await window.getByRole('link', { name: '1st this month' }).click()
  await expect.poll(rows).toEqual([
    ['name 0000', '+22', '1'],
    ['name 0002', '+3', '2'],
    ['name 0001', '+2', '3'],
  ])
  expect(window.complaints).toEqual([])
})

it('console: shows what others count, by one subscription for the page', async () => {
  const { window, url, ask } = await openPage('about:blank')
  await createCounters(ask, 'n', 60)
  let subscriptions = 0
  window.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => {
      if (String(payload).includes('subscription ')) subscriptions += 1
    }),
  )
  await window.goto(url + consolePath({ namespace: 'n' }))
  await window.getByRole('cell', { name: '50', exact: true }).waitFor()
  await ask(`mutation { incrementBy(name: "name 0007", delta: 1000, namespace: "n") { value } }`)
  await window.getByRole('cell', { name: '1,008', exact: true }).waitFor()
  expect(subscriptions).toBe(1)
})

it('console: closes its subscription while its tab is hidden, and catches up afterwards', async () => {
  const { window, url, ask } = await openPage('about:blank')
  await ask(increment('visitors'))
  const opened = window.waitForEvent('websocket')
  await window.goto(url + consolePath({ namespace: 'n', counter: 'visitors' }))
  await window.getByText(': 1 added').first().waitFor()
  const closed = (await opened).waitForEvent('close')
  await setHidden(true)
  await closed
  await ask(increment('visitors'))
  expect(await window.locator('.value').textContent()).toBe('1')
  await setHidden(false)
  await expect.poll(() => window.locator('.value').textContent()).toBe('2')

  function setHidden(isHidden: boolean): Promise<unknown> {
    return window.evaluate(`
      Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))`)
  }
})

it('console: says that its numbers may be old while there is no subscription, and connects again at once on request', async () => {
  const { window, url, ask } = await openPage('about:blank', { hasSockets: false })
  await ask(increment('visitors'))
  const streams = await cutOff(window, 'subscription ')
  await window.goto(url + consolePath({ namespace: 'n' }))
  await window.getByRole('alert').getByText("The numbers may be old: The server can't be reached.").waitFor()
  await expectAccessible(window)
  // By then it waits for longer than a test does.
  await expect.poll(streams.count).toBeGreaterThan(3)
  streams.release()
  await button(window, 'Retry now').click()
  await expect.poll(() => window.getByText('may be old').count()).toBe(0)
  await ask(increment('visitors'))
  await window.getByRole('cell', { name: '2', exact: true }).waitFor()
})

it('console: shows without a click, once the server is back, what could not be read before', async () => {
  const { window, url, ask } = await openPage('about:blank', { hasSockets: false })
  await ask(increment('visitors'))
  const answers = await cutOff(window)
  await window.goto(url + consolePath({ namespace: 'n' }))
  await window.getByRole('alert').getByText("The server can't be reached.").waitFor()
  const before = answers.count()
  await expect.poll(answers.count).toBeGreaterThan(before)
  answers.release()
  await window.getByRole('cell', { name: '1', exact: true }).waitFor()
  await expect.poll(() => window.getByText("can't be reached").count()).toBe(0)
})

it('console: shows the history of a counter by hour, day, week, month and year, live', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'visitors' }), {
    first: ['mutation { incrementBy(name: "visitors", delta: 20, namespace: "n") { value } }'],
  })
  const chart = window.locator('.chart')
  await window.getByText('Added in each of the last 30 days').waitFor()
  for (const [period, text] of [
    ['Hour', '48 hours'],
    ['Week', '26 weeks'],
    ['Month', '24 months'],
    ['Year', '10 years'],
  ] as const) {
    await window.getByRole('group', { name: 'Totals of each' }).getByText(period).click()
    await window.getByText(`Added in each of the last ${text}`).waitFor()
    await expect.poll(() => chart.getAttribute('aria-label')).toMatch(/: 20$/)
    expect(await chart.locator('svg').count()).toBe(1)
  }
  await ask(increment('visitors'))
  await expect.poll(() => chart.getAttribute('aria-label')).toMatch(/: 21$/)
  await window.reload()
  await window.getByText('Added in each of the last 10 years').waitFor()
  expect(window.complaints).toEqual([])
})

it('console: shows whole numbers beside the bars, however long they are, and its buttons side by side', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'visitors' }), {
    first: [increment('visitors')],
  })
  await ask('mutation { incrementBy(name: "visitors", delta: 4000000000000000, namespace: "n") { value } }')
  const text = await window.getByText('5,000,000,000,000,000').boundingBox()
  const chart = await window.locator('.chart').boundingBox()
  expect(text?.x).toBeGreaterThanOrEqual(chart?.x ?? Number.POSITIVE_INFINITY)
  expect(text?.height).toBeLessThan(30)
  const topOf = async (name: string) => (await button(window, name).boundingBox())?.y
  expect(await topOf('Increment')).toBe(await topOf('Add'))
})

it('console: counts by its buttons, and shows the GraphQL that it sent, to be copied', {
  tags: 'quick',
}, async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', counter: 'visitors' }), {
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  await button(window, 'Increment').click()
  await window.getByText('1: 1 added to 0.').waitFor()
  await window.getByRole('textbox', { name: 'Add' }).fill('-12')
  await button(window, 'Add').click()
  await window.getByText('-11: -12 added to 1.').waitFor()
  await button(window, 'Copy GraphQL').click()
  await window.getByText('Copied.').waitFor()
  const copied = await window.evaluate(() => navigator.clipboard.readText())
  expect(copied).toContain('incrementBy(name: "visitors", delta: -12, namespace: "n")')
  expect((await ask(copied)).incrementBy.value).toBe(-23)
})

it('console: changes a definition, and nothing but what was changed in the form', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'seats' }), {
    first: ['mutation { defineCounter(name: "seats", namespace: "n", definition: { slots: 1 }) { id } }'],
  })
  await edit(window)
  await window.getByRole('textbox', { name: 'Highest value' }).fill('100')
  await window.getByRole('checkbox', { name: 'Keep weeks' }).check()
  // Meanwhile, by somebody else.
  await ask('mutation { defineCounter(name: "seats", namespace: "n", definition: { minValue: -5 }) { id } }')
  await button(window, 'Save').click()
  await window.getByRole('status').getByText('Saved.').waitFor()
  // It is read again.
  await expect.poll(() => window.getByRole('textbox', { name: 'Lowest value' }).inputValue()).toBe('-5')
  const { counter } = await ask(
    '{ counter(name: "seats", namespace: "n") { minValue maxValue slots timeZone periods { period keepDays } } }',
  )
  expect(counter).toEqual({
    minValue: -5,
    maxValue: 100,
    slots: 1,
    timeZone: 'UTC',
    periods: [
      { period: 'HOUR', keepDays: 90 },
      { period: 'DAY', keepDays: null },
      { period: 'WEEK', keepDays: null },
      { period: 'MONTH', keepDays: null },
    ],
  })
})

it('console: shows beside a field what the API says is wrong with it', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', counter: 'seats' }))
  await edit(window)
  for (const [label, value, message] of [
    ['Lowest value', 'many', 'SafeInt must be a JSON number, not a string'],
    ['Lowest value', '5', 'The current value 0 is below minValue 5.'],
    ['Slots', '0', 'Argument "definition.slots" must be from 1 to 1024; it is 0.'],
    ['Time zone', 'Atlantis', 'must be the name of an IANA time zone'],
  ] as const) {
    const field = window.getByRole('textbox', { name: label })
    const before = await field.inputValue()
    await field.fill(value)
    await button(window, 'Save').click()
    await window.locator('.field', { has: field }).getByRole('alert').getByText(message).waitFor()
    expect(await field.getAttribute('aria-invalid')).toBe('true')
    await field.fill(before)
  }
  await window.getByRole('textbox', { name: 'Add' }).fill('1.5')
  await button(window, 'Add').click()
  await window.getByRole('alert').getByText('SafeInt must be').waitFor()
  await expectAccessible(window)
})

it('console: resets a counter after a question, and returns the focus to the button', async () => {
  const { window } = await openPage(consolePath({ namespace: 'n', counter: 'seats' }), {
    first: ['mutation { defineCounter(name: "seats", namespace: "n", definition: { maxValue: 9 }) { id } }'],
  })
  await edit(window)
  await button(window, 'Reset…').click()
  await window.getByRole('dialog', { name: 'Reset' }).waitFor()
  await expectAccessible(window)
  await button(window, 'Cancel').click()
  expect([await window.getByRole('dialog').count(), await focused(window)]).toEqual([0, 'Reset…'])
  await button(window, 'Reset…').click()
  await window.getByRole('dialog').getByRole('textbox', { name: 'New value' }).fill('10')
  await button(window, 'Reset').click()
  await window.getByRole('dialog').getByRole('alert').getByText('above').waitFor()
  await window.getByRole('dialog').getByRole('textbox', { name: 'New value' }).fill('7')
  await window.keyboard.press('Enter')
  await window.getByRole('status').getByText('Set to 7; it was 0.').waitFor()
  expect([await window.getByRole('dialog').count(), await focused(window)]).toEqual([0, 'Reset…'])
  await expect.poll(() => window.locator('.value').textContent()).toBe('7')
})

it('console: resets a counter only if it still has the value that was shown, unless that is left out', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n', counter: 'c' }), {
    first: ['mutation { incrementBy(name: "c", delta: 5, namespace: "n") { value } }'],
  })
  await edit(window)
  await button(window, 'Reset…').click()
  const expected = window.getByRole('textbox', { name: 'Only if it still is' })
  expect(await expected.inputValue()).toBe('5')
  await ask('mutation { increment(name: "c", namespace: "n") { value } }')
  await window.locator('.value').getByText('6').waitFor()
  // It stays as it was when the question was asked.
  expect(await expected.inputValue()).toBe('5')
  await button(window, 'Reset').click()
  await window
    .getByRole('alert')
    .getByText('The value is 6, not 5 as expected. Nothing was changed.')
    .waitFor()
  await expected.fill('')
  await button(window, 'Reset').click()
  await window.getByText('Set to 0; it was 6.').waitFor()
})

it('console: deletes a counter after a question, and shows the others', async () => {
  const { url, ask } = await startService()
  await createCounters(ask, 'n', 2)
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', counter: 'name 0000' }))
  await edit(window)
  await button(window, 'Delete…').click()
  await window.keyboard.press('Escape')
  await expect.poll(() => window.getByRole('dialog').count()).toBe(0)
  await button(window, 'Delete…').click()
  await button(window, 'Delete').click()
  await window.getByRole('heading', { name: 'Counters of n' }).waitFor()
  await expect.poll(() => names(window)).toEqual(['name 0001'])
  expect(await focused(window)).toBe('Counters of n')
})

it('console: closes a question when the person goes back', async () => {
  const { window, ask } = await openPage(consolePath({ namespace: 'n' }), {
    first: [increment('visitors')],
  })
  await window.getByRole('link', { name: 'visitors' }).click()
  await edit(window)
  await button(window, 'Delete…').click()
  await window.getByRole('dialog').waitFor()
  await window.goBack()
  await window.getByRole('heading', { name: 'Counters of n' }).waitFor()
  expect(await window.getByRole('dialog').count()).toBe(0)
  expect((await ask('{ counter(name: "visitors", namespace: "n") { value } }')).counter.value).toBe(1)
})

it('console: can be used with the keyboard only', async () => {
  const { window } = await openPage(consolePath(), { first: [increment('visitors')] })
  await window.getByRole('heading', { name: 'What is happening' }).waitFor()
  await tabTo('n')
  await window.keyboard.press('Enter')
  await window.getByRole('heading', { name: 'Counters of n' }).waitFor()
  await tabTo('visitors')
  await window.keyboard.press('Enter')
  await window.getByRole('heading', { name: 'Counter visitors' }).waitFor()
  await tabTo('Increment')
  await window.keyboard.press('Enter')
  await window.getByText('2: 1 added to 1.').waitFor()
  await tabTo('Edit definition, reset, delete')
  await window.keyboard.press('Enter')
  await tabTo('Delete…')
  await window.keyboard.press('Space')
  await tabTo('Delete')
  await window.keyboard.press('Enter')
  await window.getByText('No counter was written or defined in this namespace.').waitFor()

  async function tabTo(name: string): Promise<void> {
    for (let step = 0; step < 50 && (await focused(window)) !== name; step += 1)
      await window.keyboard.press('Tab')
    expect(await focused(window)).toBe(name)
  }
})

it.each([
  '<img src=x onerror="alert(1)"><b>bold</b>',
  `${'0'.repeat(190)}😀`,
  '\u202eright to left\u2066 עברית',
  '  "quotes\\" and & spaces  ',
])('console: shows the name %s unchanged', async (name) => {
  const { url, ask } = await startService()
  const namespace = `of ${name}`.slice(0, 191)
  await ask('mutation ($n: String!, $s: String!) { increment(name: $n, namespace: $s) { value } }', {
    n: name,
    s: namespace,
  })
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath(), { viewport: { width: 360, height: 740 } })
  await window.getByRole('table').getByRole('link').click()
  await window.getByRole('heading', { name: 'Counters of' }).waitFor()
  expect(await names(window)).toEqual([name])
  await window.getByRole('table').getByRole('link').click()
  await window.getByRole('heading', { name: 'Counter ', exact: false }).first().waitFor()
  await button(window, 'Increment').click()
  await window.getByText('2: 1 added to 1.').waitFor()
  expect(await window.locator('h2').textContent()).toBe(`Counter ${name}`)
  await edit(window)
  await button(window, 'Delete…').click()
  expect(await window.locator('dialog h2').textContent()).toContain(name)
  expect(await window.evaluate('document.documentElement.scrollWidth')).toBe(360)
  expect(window.complaints).toEqual([])
})

it('console: shows names of nothing but blanks and invisible characters with escapes, and opens them', async () => {
  const { url, ask } = await startService()
  const escapes = new Map([
    ['   ', '\\u0020\\u0020\\u0020'],
    ['\u200b', '\\u200b'],
    ['\u3164\u00a0', '\\u3164\\u00a0'],
    ['\u2800', '\\u2800'],
    ['\u{e0020}', '\\udb40\\udc20'],
  ])
  for (const name of escapes.keys())
    await ask('mutation ($name: String!) { increment(name: $name, namespace: $name) { value } }', { name })
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath())
  for (const [name, text] of escapes) {
    await window.getByRole('table').getByRole('link', { name: text, exact: true }).click()
    await window.getByRole('heading', { name: `Counters of ${text}`, exact: true }).waitFor()
    await window.getByRole('table').getByRole('link', { name: text, exact: true }).click()
    await button(window, 'Increment').click()
    await window.getByText('2: 1 added to 1.').waitFor()
    expect(await window.title()).toBe(`${text} · Console · Nth`)
    await edit(window)
    await button(window, 'Delete…').click()
    expect(await window.locator('dialog h2').textContent()).toBe(`Delete “\u2068${text}\u2069”?`)
    const { counter } = await ask(
      'query ($name: String!) { counter(name: $name, namespace: $name) { value } }',
      { name },
    )
    expect(counter).toEqual({ value: 2 })
    await window.goto(url + consolePath())
  }
})
