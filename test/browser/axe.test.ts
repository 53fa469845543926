// @module-tag slow
import { expect, it } from 'vitest'
import { axeFindings } from '../support/browser/axe.ts'
import { openBrowser, openPage } from '../support/browser/browser.ts'
import { states } from '../support/browser/pageStates.ts'
import { startService } from '../support/server/service.ts'

it.each(Object.entries(states))('finds nothing wrong with %s', async (_, { path, before, after }) => {
  const service = await startService()
  const { openWindow } = await openBrowser()
  // Colours are those after a number has arrived.
  const window = await openWindow('about:blank', { reducedMotion: 'reduce', hasSockets: false })
  await before?.(window, service)
  await window.goto(`${service.url}${path}`)
  await after(window, service)
  expect(await axeFindings(window)).toEqual([])
})

it('finds what is wrong', async () => {
  const { window } = await openPage('/shop')
  await window.getByText('0 of 100 copies sold').waitFor()
  await window.evaluate('document.documentElement.removeAttribute("lang")')
  expect(await axeFindings(window)).toContainEqual('1280 light html-has-lang: html')
})
