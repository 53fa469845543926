// @module-tag slow
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const entry = (window: Window, name: string) => window.getByRole('article').filter({ hasText: name })
const open = (window: Window, name: string) => window.getByRole('button', { name }).click()

it('hits: tells each reader their number of the entry and of the hour, and fills the hours of all windows', {
  tags: 'quick',
}, async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const [window, other] = [await openWindow(`${url}/hits`), await openWindow(`${url}/hits`)]
  for (const one of [window, other])
    await entry(one, 'The lost reader').getByText('0 readers, 0 this hour').waitFor()
  await window.getByText('Nobody has read it yet in this time.').waitFor()
  await open(window, 'The lost reader')
  await entry(window, 'The lost reader').getByText('You are reader 1, the 1st this hour.').waitFor()
  await window.getByText('one reader is lost').waitFor()
  await entry(other, 'The lost reader').getByText('1 reader, 1 this hour').waitFor()
  await open(other, 'The lost reader')
  await entry(other, 'The lost reader').getByText('You are reader 2, the 2nd this hour.').waitFor()
  for (const one of [window, other]) {
    await expect
      .poll(() => one.locator('#hours .chart').getAttribute('aria-label'))
      .toMatch(/^\w+ \d+, \d\d:00: 2$/)
    await one.locator('#hours').getByText(': 2 readers').waitFor()
  }
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('hits: counts an entry when it is opened, and shows its hours', async () => {
  const { window, ask } = await openPage('/hits')
  await open(window, 'What is read now')
  await entry(window, 'What is read now').getByText('You are reader 1').waitFor()
  await window.getByText('Readers of “What is read now” in each of the last 48 hours').waitFor()
  await open(window, 'What is read now')
  await expect.poll(() => window.getByText('A total only grows').count()).toBe(0)
  await open(window, 'A thousand at once')
  await entry(window, 'A thousand at once').getByText('You are reader 1').waitFor()
  await expectAccessible(window)
  const { counters } = await ask(
    '{ counters(names: ["The lost reader", "What is read now", "A thousand at once"], namespace: "hits") { value } }',
  )
  expect(counters).toEqual([{ value: 0 }, { value: 1 }, { value: 1 }])
})
