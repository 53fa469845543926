// @module-tag slow
import { expect, it } from 'vitest'
import { axeFindings, expectAccessible } from '../support/browser/axe.ts'
import { openPage } from '../support/browser/browser.ts'

it('pages: axe finds nothing wrong with a page that is not there, and finds what is wrong', async () => {
  const { window } = await openPage('/nope')
  await window.getByText('There is nothing here').waitFor()
  await expectAccessible(window)
  await window.evaluate('document.documentElement.removeAttribute("lang")')
  expect(await axeFindings(window)).toContainEqual('1280 light html-has-lang: html')
})
