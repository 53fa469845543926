// @module-tag slow
import { expect, it } from 'vitest'
import { cutOff, holdBack, refuseAll } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage } from '../support/browser/browser.ts'
import { ALERTS, recordTexts } from '../support/browser/texts.ts'
import { startRelay } from '../support/client/relay.ts'
import { startService } from '../support/server/service.ts'

const OLD = "The numbers may be old: The server can't be reached."

/** Opens a page through a line that can be cut. */
async function openThroughRelay(path: string, hasSockets = true) {
  const { url, ask } = await startService()
  const relay = await startRelay(url)
  const { openWindow } = await openBrowser()
  return { relay, ask, url: relay.url + path, window: await openWindow('about:blank', { hasSockets }) }
}

it('shop: says once that its numbers may be old, until they are fresh again, without a click', async () => {
  const { window, relay, ask, url } = await openThroughRelay('/shop')
  await window.goto(url)
  await window.getByText('0 of 100 copies sold').waitFor()
  const announced = await recordTexts(window, ALERTS)
  relay.cut()
  await window.getByRole('alert').getByText(OLD).waitFor()
  await expectAccessible(window)
  await expect.poll(relay.refused).toBeGreaterThan(4)
  relay.restore()
  await ask('mutation { incrementBy(name: "Bulldozer", delta: 2, namespace: "booksales") { value } }')
  await window.getByText('2 copies sold').waitFor()
  await expect.poll(() => window.getByText('may be old').count()).toBe(0)
  expect(await announced()).toEqual([OLD])
})

it.each([
  ['/', '0 sold so far'],
  ['/shop', '0 of 100 copies sold'],
  ['/book?title=Bulldozer', '0 copies sold'],
  ['/board', '0 tickets'],
  ['/hits', '0 readers'],
])(
  '%s: reconnects at once when a person asks for it, and moves no focus with the answer',
  async (path, text) => {
    // Of sockets, nobody counts which attempts are under way.
    const { window, relay, url } = await openThroughRelay(path, false)
    await window.clock.install()
    let open = 0
    window.on('request', () => {
      open += 1
    })
    for (const event of ['requestfailed', 'requestfinished'] as const)
      window.on(event as 'requestfailed', () => {
        open -= 1
      })
    await window.goto(url)
    await window.getByText(text).first().waitFor()
    relay.cut()
    await window.getByText('The numbers may be old').waitFor()
    // Its last attempt of its own is made now, and fails.
    await window.clock.pauseAt(Date.now() + 3_600_000)
    await expect.poll(() => open).toBe(0)
    await window.getByText('Waiting to reconnect.').waitFor()
    relay.restore()
    await window.getByRole('button', { name: 'Retry now' }).click()
    await expect.poll(() => window.getByText('may be old').count()).toBe(0)
    expect(await window.evaluate("document.activeElement.matches('.freshness')")).toBe(true)
  },
)

it('shop: says that its numbers are loading, or why there are none, until they are there', async () => {
  const { window, url } = await openPage('about:blank', { hasSockets: false })
  const slow = await holdBack(window, 'Sales')
  await window.goto(`${url}/shop`)
  await window.getByRole('status').getByText('Loading the numbers…').waitFor()
  await expectAccessible(window)
  slow.release()
  await window.getByText('0 of 100 copies sold').waitFor()
  expect(await window.getByText('Loading the numbers…').count()).toBe(0)

  const reading = await cutOff(window, 'Sales')
  await window.reload()
  await window.getByRole('alert').getByText("The server can't be reached.").waitFor()
  await expectAccessible(window)
  const announced = await recordTexts(window, ALERTS)
  const before = reading.count()
  await expect.poll(reading.count).toBeGreaterThan(before + 1)
  expect(await window.getByText('may be old').count()).toBe(0)
  expect(await announced()).toEqual([])
  reading.release()
  await window.getByText('0 of 100 copies sold').waitFor()
  await expect.poll(() => window.getByText("can't be reached").count()).toBe(0)

  await refuseAll(window, 'Sales', { code: 'UNAVAILABLE' })
  await window.reload()
  await window.getByRole('alert').getByText("The numbers can't be reached: Try later.").waitFor()
  expect(await window.getByText('may be old').count()).toBe(0)
})
