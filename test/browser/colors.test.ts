// @module-tag slow
import { expect, it } from 'vitest'
import { openPage, type Window } from '../support/browser/browser.ts'

/** How much two colours of a place differ, as WCAG 2 measures it: from 1 to 21. */
function contrast(window: Window, selector: string, pseudo: string, property: string): Promise<number> {
  return window.evaluate(`(() => {
    const place = document.querySelector('${selector}')
    const luminanceOf = (color) => {
      const [red, green, blue] = color.match(/[\\d.]+/g).map((part) => {
        const share = part / 255
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
      })
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const isSeen = (node) => getComputedStyle(node).backgroundColor !== 'rgba(0, 0, 0, 0)'
    let ground = ${pseudo === '' ? 'place.parentElement' : 'place'}
    while (!isSeen(ground)) ground = ground.parentElement
    const [low, high] = [
      getComputedStyle(place, '${pseudo}').${property},
      getComputedStyle(ground).backgroundColor,
    ].map(luminanceOf).sort((a, b) => a - b)
    return (high + 0.05) / (low + 0.05)
  })()`)
}

it.each(['light', 'dark'] as const)(
  'colours: has placeholders and borders that can be seen in the %s',
  async (colorScheme) => {
    const { window, url } = await openPage('/board', { colorScheme })
    expect(await contrast(window, 'input', '::placeholder', 'color')).toBeGreaterThanOrEqual(4.5)
    expect(await contrast(window, 'input', '', 'borderTopColor')).toBeGreaterThanOrEqual(3)
    await window.goto(`${url}/invoice`)
    await window.getByRole('button', { name: 'Begin an invoice' }).click()
    await window.getByText(/^Yours until/).waitFor()
    expect(await contrast(window, '#discard', '', 'borderTopColor')).toBeGreaterThanOrEqual(3)
    await window.getByRole('button', { name: 'Discard' }).click()
    await window.getByText('Discarded:').waitFor()
    expect(await contrast(window, '#discard', '', 'borderTopColor')).toBeGreaterThanOrEqual(3)
  },
)

it.each(['light', 'dark'] as const)(
  'colours: has fields and buttons in the console that can be seen in the %s',
  async (colorScheme) => {
    const { window } = await openPage('/console?namespace=n&counter=visitors', { colorScheme })
    await window.getByText('Neither written nor defined yet').waitFor()
    expect(await contrast(window, '#minValue', '::placeholder', 'color')).toBeGreaterThanOrEqual(4.5)
    for (const selector of ['#minValue', '#overflow', '.danger', '.quiet'])
      expect(await contrast(window, selector, '', 'borderTopColor')).toBeGreaterThanOrEqual(3)
  },
)

it('colours: shows where its buttons and fields are when colours are forced', async () => {
  const { window } = await openPage('/board', { forcedColors: 'active' })
  for (const selector of ['input', 'button']) {
    const width = `getComputedStyle(document.querySelector('${selector}')).borderTopWidth`
    expect(await window.evaluate(width)).toBe('1px')
    expect(await contrast(window, selector, '', 'borderTopColor')).toBeGreaterThanOrEqual(3)
  }
})

it('colours: leaves the forced colours of its buttons to the browser', async () => {
  const { window } = await openPage('/shop', { forcedColors: 'active' })
  const background = (selector: string) =>
    window.evaluate(`getComputedStyle(document.querySelector('${selector}')).backgroundColor`)
  await window.evaluate(
    `document.body.append(Object.assign(document.createElement('input'), { type: 'button' }))`,
  )
  await window.evaluate(`document.body.lastChild.style.backgroundColor = 'ButtonFace'`)
  await window.getByText('0 of 100 copies sold').waitFor()
  expect(await background('button')).toBe(await background('input[type=button]'))
})

it('colours: draws its charts in the forced colours', async () => {
  const { window } = await openPage('/book?title=Bulldozer', {
    first: ['mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }'],
  })
  await window.locator('#hours').getByText(': 20 sold').waitFor()
  const fillOf = (node: string) => window.evaluate(`getComputedStyle(${node}).fill`)
  await window.evaluate(`document.body.style.fill = 'Highlight'`)
  const bar = `document.querySelector('#hours rect:last-of-type')`
  expect(await fillOf(bar)).not.toBe(await fillOf('document.body'))
  await window.emulateMedia({ forcedColors: 'active' })
  await expect.poll(() => fillOf(bar)).toBe(await fillOf('document.body'))
})
