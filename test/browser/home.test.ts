// @module-tag slow
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { loseAnswers } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openPage, type Window } from '../support/browser/browser.ts'
import { upTo } from '../support/client/client.ts'
import { compile } from '../support/client/clientsPage.ts'

const buy = (window: Window) => window.getByRole('button', { name: /^Buy/ }).click()
const says = (window: Window, text: string) => window.getByText(text).waitFor()
const plate = (window: Window) => window.locator('.plate .number').textContent()

const sell = (name: string, delta: number) =>
  `mutation { incrementBy(name: "${name}", delta: ${delta}, namespace: "booksales") { value } }`

it('home page: gives a visitor a number of their own, and shows what others buy meanwhile', {
  tags: 'quick',
}, async () => {
  const { window, ask } = await openPage('/', { first: [sell('Red Horse Hill', 4216)] })
  await window.getByRole('heading', { name: 'Every caller gets a number of their own.' }).waitFor()
  await says(window, '4,216 sold so far')
  await says(window, 'Nobody else has bought one yet.')
  await buy(window)
  await says(window, 'You just bought copy 4,217 of Red Horse Hill, the 4,217th this month.')
  expect(await plate(window)).toBe('No. 4\u2009217')
  await says(window, '{ "value": 4217, "valueIn": 4217 }')

  await ask(sell('Bulldozer', 1))
  const others = window.getByRole('region', { name: 'Sold to others just now' }).getByRole('listitem')
  await expect.poll(() => others.allTextContents()).toEqual(['No. 1 Bulldozer'])
  await ask(sell('Red Horse Hill', 2))
  await expect
    .poll(() => others.allTextContents())
    .toEqual(['Nos. 4\u2009218–4\u2009219 Red Horse Hill', 'No. 1 Bulldozer'])
  expect([window.outside, window.complaints]).toEqual([[], []])

  await window.reload()
  await expect.poll(() => plate(window)).toBe('No. 4\u2009217')
})

it('home page: lists no copy of the visitor among those of others', async () => {
  const { window, ask } = await openPage('/')
  await says(window, '0 sold so far')
  // The event of the purchase arrives before its answer.
  await loseAnswers(window, 'mutation Buy', 1)
  await buy(window)
  await says(window, 'You just bought copy 1 of')
  await ask(sell('Red Horse Hill', 1))
  const others = window.getByRole('region', { name: 'Sold to others just now' }).getByRole('listitem')
  await expect.poll(() => others.allTextContents()).toEqual(['No. 2 Red Horse Hill'])
  await expectAccessible(window)
})

it('home page: shows requests that work as they are copied', async () => {
  const { window, url, ask } = await openPage('/', { permissions: ['clipboard-read', 'clipboard-write'] })
  const copied = async (way: string): Promise<string> => {
    await window.getByRole('radio', { name: way }).check()
    await window.getByRole('button', { name: 'Copy', exact: true }).click()
    await window.getByText('Copied.').waitFor()
    return window.evaluate('navigator.clipboard.readText()')
  }
  expect(await ask(await copied('GraphQL'))).toEqual({ increment: { value: 1, valueIn: 1 } })
  const { stdout } = await promisify(execFile)('sh', ['-c', `${await copied('curl')} --silent`])
  expect(JSON.parse(stdout)).toEqual({ data: { increment: { value: 2, valueIn: 2 } } })
  const script = await copied('fetch')
  expect(await window.evaluate(`(async () => { ${script}; return data.increment.value })()`)).toBe(3)
  const component = await copied('React')
  expect(component).toContain(`createClient({ url: '${url}/graphql' })`)
  expect(await compile({ 'Buy.tsx': component })).toHaveProperty('Buy.js')
})

it('home page: changes the way to send the request by keyboard', async () => {
  const { window } = await openPage('/')
  await window.getByRole('radio', { name: 'GraphQL' }).focus()
  await window.keyboard.press('ArrowRight')
  expect(await window.getByRole('radio', { name: 'curl' }).isChecked()).toBe(true)
  for (const _ of upTo(2)) await window.keyboard.press('ArrowLeft')
  await window.getByText('![Red Horse Hill]').waitFor()
})

it.each([1280, 375])('home page: moves nothing when a number arrives, at a width of %i', async (width) => {
  const { window, ask } = await openPage('/', { viewport: { width, height: 800 } })
  await says(window, '0 sold so far')
  const place = () => window.getByRole('heading', { name: 'Four demos to try' }).boundingBox()
  const before = await place()
  await ask(sell('Red Horse Hill', 1_234_566))
  await says(window, '1,234,566 sold so far')
  await buy(window)
  await says(window, 'You just bought copy 1,234,567 of')
  expect(await place()).toEqual(before)
  expect(await window.evaluate('document.documentElement.scrollWidth')).toBe(width)
})
