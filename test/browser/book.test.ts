// @module-tag slow
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage } from '../support/browser/browser.ts'
import { recordTexts } from '../support/browser/texts.ts'
import { upTo } from '../support/client/client.ts'
import { startRelay } from '../support/client/relay.ts'
import { query } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const HOUR_MS = 3_600_000

it('book page: shows what was sold of a book by hour and by day, and says which copy of the month each purchase is', {
  tags: 'quick',
}, async () => {
  const { url, ask, target } = await startService()
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }')
  // Of which four were sold two hours ago, and a hundred three days ago.
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  await soldAt(target, 1, hour - 2 * HOUR_MS, 4)
  await soldAt(target, 2, hour - (hour % (24 * HOUR_MS)) - 72 * HOUR_MS, 100)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/shop`)
  await window.getByRole('link', { name: 'Bulldozer' }).click()
  await window.getByRole('heading', { name: 'Bulldozer' }).waitFor()
  await window.getByText('20 copies this month').waitFor()
  await window.getByText('Hours of the time zone UTC.').waitFor()
  const [hours, days] = [window.locator('#hours .chart'), window.locator('#days .chart')]
  expect(await hours.getAttribute('aria-label')).toMatch(/^\w+ \d+, \d\d:00: 4; \w+ \d+, \d\d:00: 20$/)
  expect(await days.getAttribute('aria-label')).toMatch(/^\w+ \d+: 100; \w+ \d+: 20$/)
  for (const chart of [hours, days])
    expect(await chart.locator('rect:not(.chosen, [height="0"])').count()).toBe(2)

  for (const _ of upTo(2))
    await ask('mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }')
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await window.getByText('You just bought copy 23 of Bulldozer, the 23rd this month.').waitFor()
  await expect.poll(() => hours.getAttribute('aria-label')).toMatch(/: 23$/)
  await expect.poll(() => days.getAttribute('aria-label')).toMatch(/: 23$/)
  expect([window.outside, window.complaints]).toEqual([[], []])
})

async function soldAt(target: Parameters<typeof query>[0], period: number, at: number, value: number) {
  await query(
    target,
    `insert into counter_history (counter_id, period, start, value)
     select id, ${period}, ${Math.floor(at / 1000)}, ${value} from counter where name = 'Bulldozer'
     on duplicate key update counter_history.value = counter_history.value + ${value}`,
  )
}

it('book page: shows how few copies of an edition are left, and that it is sold out', async () => {
  const { url, ask } = await startService()
  await ask(
    'mutation { defineCounter(name: "Rare & signed", namespace: "booksales", definition: { maxValue: 2 }) { value } }',
  )
  const { openWindow } = await openBrowser()
  const relay = await startRelay(url)
  const window = await openWindow(`${relay.url}/book?title=Rare%20%26%20signed`)
  await window.getByText('Only 2 left').waitFor()
  const button = window.getByRole('button', { name: 'Rare & signed' })
  await button.click()
  await window.getByText('the 1st this month').waitFor()
  await window.getByText('Only 1 left').waitFor()
  // From the purchase itself: no event arrives then.
  relay.hold()
  await button.click()
  await window.getByText('the 2nd this month').waitFor()
  await window.getByText('Sold out').waitFor()
  expect(await button.isDisabled()).toBe(true)
  await expectAccessible(window)
})

it('book page: shows nothing of an event that arrives after newer numbers', async () => {
  const { url, ask } = await startService()
  const sell = (delta: number) =>
    ask(`mutation { incrementBy(name: "Bulldozer", delta: ${delta}, namespace: "booksales") { value } }`)
  await sell(20)
  const relay = await startRelay(url)
  const { openWindow } = await openBrowser()
  const [window, other] = [
    await openWindow(`${relay.url}/book?title=Bulldozer`),
    await openWindow(`${url}/book?title=Bulldozer`),
  ]
  await window.locator('#days').getByText(': 20 sold').waitFor()
  relay.hold()
  await sell(5)
  await other.getByText('25 copies sold').waitFor()
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await window.getByText('26 copies sold').waitFor()
  const shown = await recordTexts(window, '.sold, .month, #days .reading')
  relay.release()
  await window.locator('#days').getByText(': 26 sold').waitFor()
  await window.getByText('26 copies this month').waitFor()
  expect((await shown()).filter((text) => /\b25 (copies|sold)/.test(text))).toEqual([])
})

it('book page: shows the value of each bar by touch and by keyboard', async () => {
  const { url, ask, target } = await startService()
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }')
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  await soldAt(target, 1, hour - 2 * HOUR_MS, 4)
  const { openWindow } = await openBrowser()
  const narrow = { hasTouch: true, viewport: { width: 360, height: 740 } }
  const window = await openWindow(`${url}/book?title=Bulldozer`, narrow)
  const hours = window.locator('#hours')
  const reading = hours.locator('.reading')
  const slider = hours.getByRole('slider', { name: 'Hour' })
  await expect.poll(() => reading.textContent()).toMatch(/^\w+ \d+, \d\d:00: 20 sold$/)

  await slider.focus()
  for (const _ of upTo(2)) await window.keyboard.press('ArrowLeft')
  expect(await reading.textContent()).toMatch(/: 4 sold$/)
  expect(await slider.getAttribute('aria-valuetext')).toBe(await reading.textContent())
  await window.keyboard.press('Home')
  expect(await reading.textContent()).toMatch(/: 0 sold$/)
  await window.keyboard.press('End')
  expect(await reading.textContent()).toMatch(/: 20 sold$/)

  const plot = hours.locator('svg')
  const { width, height } = (await plot.boundingBox()) ?? { width: 0, height: 0 }
  // The bar of two hours ago is the third of 48 from the right.
  await plot.tap({ position: { x: (width * 45.5) / 48, y: height / 2 } })
  expect(await reading.textContent()).toMatch(/: 4 sold$/)
})

it('book page: keeps the selected bar when the next hour begins', async () => {
  const { url, ask, target } = await startService()
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }')
  await soldAt(target, 1, Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 2 * HOUR_MS, 4)
  const relay = await startRelay(url)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${relay.url}/book?title=Bulldozer`, { hasSockets: false })
  const reading = window.locator('#hours .reading')
  await reading.getByText(': 20 sold').waitFor()
  const plot = window.locator('#hours svg')
  const { width, height } = (await plot.boundingBox()) ?? { width: 0, height: 0 }
  // The bar of two hours ago is the third of 48 from the right.
  await plot.hover({ position: { x: (width * 45.5) / 48, y: height / 2 } })
  await reading.getByText(': 4 sold').waitFor()

  // As the page gets them by the stream that it opens when the next hour has begun.
  await window.route(/\/graphql/, async (route) => {
    const { query: text, variables } = route.request().postDataJSON()
    const data = await ask(text.replace('subscription', 'query'), variables)
    const { hours } = data.counters[0]
    const start = Date.parse(hours.at(-1)?.start ?? '') + HOUR_MS
    hours.splice(0, 48, ...hours.slice(1), { start: new Date(start).toISOString(), value: 7 })
    const body = `event: next\ndata: ${JSON.stringify({ data })}\n\n`
    return route.fulfill({ contentType: 'text/event-stream', body })
  })
  relay.cut()
  relay.restore()
  const label = () => window.locator('#hours .chart').getAttribute('aria-label')
  await expect.poll(label).toMatch(/: 7$/)
  expect(await reading.textContent()).toMatch(/: 4 sold$/)
  expect(await window.getByRole('slider', { name: 'Hour' }).inputValue()).toBe('44')
})

it('book page: reports that there are no sales yet, and shows the first one', async () => {
  const { window } = await openPage('/book?title=Bulldozer')
  for (const name of ['#hours', '#days']) {
    await window.locator(name).getByText('No sales yet').waitFor()
    expect(await window.locator(name).getByRole('slider').count()).toBe(0)
  }
  await expectAccessible(window)
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  for (const name of ['#hours', '#days']) {
    await window.locator(name).getByText(': 1 sold').waitFor()
    expect(await window.locator(name).getByText('No sales yet').count()).toBe(0)
  }
  await expectAccessible(window)
})

it('book page: says that the shop has no book of a title that was never counted', async () => {
  const { window, ask } = await openPage('/book?title=Who%20Rides')
  await window.getByText('The shop has no book of this title.').waitFor()
  expect(await window.getByRole('button').count()).toBe(0)
  await ask('mutation { increment(name: "Who Rides", namespace: "booksales") { value } }')
  await window.getByText('1 copy sold').waitFor()
})

it('book page: wraps a long title', async () => {
  const { url, ask } = await startService()
  const title = 'W'.repeat(191)
  await ask('mutation($title: String!) { increment(name: $title, namespace: "booksales") { value } }', {
    title,
  })
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/book?title=${title}`, { viewport: { width: 360, height: 740 } })
  await window.getByRole('button').click()
  await window.getByText(`You just bought copy 2 of ${title}`).waitFor()
  expect(await window.evaluate('document.documentElement.scrollWidth')).toBe(360)
})
