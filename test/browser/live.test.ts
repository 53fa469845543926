// @module-tag slow
import { expect, it } from 'vitest'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { urlOf } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'

const book = (window: Window) => window.getByRole('listitem').filter({ hasText: 'Bulldozer' })
const sold = (window: Window, text: string) => book(window).getByText(text, { exact: true }).waitFor()
const buy = (window: Window) => window.getByRole('button', { name: 'Buy Bulldozer' }).click()

async function expectNoMessages(windows: Window[]): Promise<void> {
  // Its pause before the next attempt may have become long.
  for (const window of windows)
    await expect.poll(async () => (await window.getByRole('alert').allTextContents()).join('')).toBe('')
}

it('continues without a click in two windows when the server is killed and restarted', async () => {
  const directory = await dataDirectory()
  const first = await startNth({ NTH_DATA_DIR: directory })
  const { openWindow } = await openBrowser()
  const windows = [await openWindow(`${first.url}/shop`), await openWindow(`${first.url}/shop`)]
  const [window, other] = windows as [Window, Window]
  await buy(window)
  await sold(other, '1 copy sold')
  first.child.kill('SIGKILL')
  await first.exited
  await startNth({ NTH_DATA_DIR: directory, PORT: new URL(first.url).port })
  await buy(other)
  for (const one of windows) await sold(one, '2 copies sold')
  await expectNoMessages(windows)
})

it('shows what is bought at another server, also after one of them was killed', async () => {
  const { target } = await privateServer(await dataDirectory())
  const environment = { DATABASE_URL: urlOf(target) }
  const [one, two] = [await startNth(environment), await startNth(environment)]
  const { openWindow } = await openBrowser()
  const windows = [await openWindow(`${one.url}/shop`), await openWindow(`${two.url}/shop`)]
  const [window, other] = windows as [Window, Window]
  for (const each of windows) await sold(each, '0 copies sold')
  await buy(window)
  await sold(other, '1 copy sold')
  await buy(other)
  await sold(window, '2 copies sold')
  one.child.kill('SIGKILL')
  await one.exited
  await buy(other)
  await sold(other, '3 copies sold')
  await startNth({ ...environment, PORT: new URL(one.url).port })
  await sold(window, '3 copies sold')
  await buy(window)
  for (const each of windows) await sold(each, '4 copies sold')
  await expectNoMessages(windows)
})
