import { expect, it } from 'vitest'
import { openBrowser } from '../support/browser.ts'
import { upTo } from '../support/client.ts'
import { query } from '../support/database.ts'
import { startService } from '../support/service.ts'

const HOUR_MS = 3_600_000

it('shows what was sold of a book by hour and by day, and tells which copy of the month each purchase is', async () => {
  const { url, ask, target } = await startService()
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }')
  // Of which four were sold two hours ago, and a hundred three days ago.
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  await soldAt(target, 1, hour - 2 * HOUR_MS, 4)
  await soldAt(target, 2, hour - (hour % (24 * HOUR_MS)) - 72 * HOUR_MS, 100)
  const { openWindow } = await openBrowser()
  const window = await openWindow(url)
  await window.getByRole('link', { name: 'Bulldozer' }).click()
  await window.getByRole('heading', { name: 'Bulldozer' }).waitFor()
  await window.getByText('20 copies this month').waitFor()
  await window.getByText('Hours and days of the time zone UTC.').waitFor()
  const [hours, days] = [window.locator('#hours .chart'), window.locator('#days .chart')]
  expect(await hours.getAttribute('aria-label')).toMatch(/^\w+ \d+, \d\d:00: 4; \w+ \d+, \d\d:00: 20$/)
  expect(await days.getAttribute('aria-label')).toMatch(/^\w+ \d+: 100; \w+ \d+: 20$/)
  for (const chart of [hours, days]) expect(await isDrawn(chart)).toBe(true)

  for (const _ of upTo(2))
    await ask('mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }')
  await window.getByRole('button', { name: 'Buy Bulldozer' }).click()
  await window.getByText('You just bought copy 23 of Bulldozer, the 23rd this month.').waitFor()
  await expect.poll(() => hours.getAttribute('aria-label')).toMatch(/: 23$/)
  await expect.poll(() => days.getAttribute('aria-label')).toMatch(/: 23$/)
  expect([window.outside, window.complaints]).toEqual([[], []])

  async function isDrawn(chart: typeof hours): Promise<boolean> {
    const canvas = chart.locator('canvas')
    // More than one colour: in the browser, as only it can look.
    return canvas.evaluate((node) => {
      const { width, height } = node as unknown as { width: number; height: number }
      const context = (node as unknown as Canvas).getContext('2d')
      const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)
      return new Set(pixels).size > 2
    })
  }
})

/** What this test looks at of a canvas. */
interface Canvas {
  getContext(kind: '2d'): {
    getImageData(left: number, top: number, width: number, height: number): { data: { buffer: ArrayBuffer } }
  }
}

async function soldAt(target: Parameters<typeof query>[0], period: number, at: number, value: number) {
  const startsAt = new Date(at).toISOString().slice(0, 19).replace('T', ' ')
  await query(
    target,
    `insert into counter_value (counter_id, period, starts_at, slot, version, value)
     select id, ${period}, '${startsAt}', 0, 0, ${value} from counter where name = 'Bulldozer'
     on duplicate key update counter_value.value = counter_value.value + ${value}`,
  )
}

it('says for an edition how few are left, and that it is sold out', async () => {
  const { url, ask } = await startService()
  await ask(
    'mutation { defineCounter(name: "Rare & signed", namespace: "booksales", definition: { maxValue: 2 }) { value } }',
  )
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/book?title=Rare%20%26%20signed`)
  await window.getByText('Only 2 left').waitFor()
  const button = window.getByRole('button', { name: 'Buy Rare & signed' })
  await button.click()
  await window.getByText('the 1st this month').waitFor()
  await window.getByText('Only 1 left').waitFor()
  // From the purchase itself: what is read again then is not answered.
  await window.route('**/graphql', async (route) => {
    if (!route.request().postData()?.includes('query Sales')) await route.continue()
  })
  await button.click()
  await window.getByText('the 2nd this month').waitFor()
  await window.getByText('Sold out').waitFor()
  expect(await button.isDisabled()).toBe(true)
})
