// @module-tag slow
import { expect, it } from 'vitest'
import { openBrowser, openPage } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { startProtected } from '../support/client/keys.ts'

/** Texts that are valid names, and hard to draw. */
const TEXTS = [
  '<script>alert(1)</script>',
  `"'&]]>--&#0;`,
  '\u{FFFE}\u{FFFF}\u{1FFFF}',
  '😀'.repeat(191),
  '👩‍👩‍👧‍👦'.repeat(27),
  `a${'\u0301'.repeat(190)}`,
  'עברית و العربية\u202E 123',
  'W'.repeat(191),
]
const STYLES = ['flat', 'flat-square', 'plastic', 'for-the-badge', 'social']

it('badge: is valid XML that shows the whole text in its title, and the image of a page, whatever the text', async () => {
  const { window, url, ask } = await openPage('/nope')
  for (const text of TEXTS) {
    await ask('mutation ($text: String!) { increment(name: $text) { value } }', { text })
    await ask(
      'mutation ($text: String!) { nextInSequence(name: $text, group: $text, namespace: $text) { value } }',
      { text },
    )
    const name = encodeURIComponent(text)
    for (const style of STYLES) {
      for (const [address, message] of [
        [`/badge/counter/default/${name}.svg?style=${style}`, '1'],
        [`/badge/sequence/${name}/${name}.svg?style=${style}&group=${name}&label=${name}`, `${text}-1`],
      ] as const) {
        const { title, label, width, elements } = await window.evaluate(async (address) => {
          const parsed = new DOMParser().parseFromString(await (await fetch(address)).text(), 'image/svg+xml')
          const image = Object.assign(new Image(), { src: address })
          await image.decode()
          const names = [...parsed.querySelectorAll('*')].map(({ localName }) => localName)
          const title = parsed.querySelector('title')?.textContent
          const label = parsed.documentElement.getAttribute('aria-label')
          return { title, label, width: image.width, elements: names }
        }, `${url}${address}`)
        const whole = `${text}: ${message}`.replace(/[\uFFFE\uFFFF]/g, '\uFFFD')
        expect([title, label]).toEqual([whole, whole])
        expect(elements).not.toContain('parsererror')
        expect(elements).not.toContain('script')
        expect(width).toBeLessThan(1700)
      }
    }
  }
})

it.each(['زيارات المدونة هذا الشهر', 'ביקורים באתר', '本月访问量と今月の訪問者数', '😀🚀', 'cafe\u0301'])(
  'badge: draws the letters of %j as wide as their font has them, beside the number',
  async (label) => {
    const { window, url } = await openPage('/nope')
    for (const style of STYLES) {
      const address = `/badge/counter/default/c.svg?label=${encodeURIComponent(label)}&style=${style}`
      const drawn = await window.evaluate(async (address) => {
        document.body.innerHTML = await (await fetch(address)).text()
        const texts = [...document.querySelectorAll('text')]
        const [image, number] = [document.querySelector('svg'), texts.at(-1)].map((element) =>
          element?.getBoundingClientRect(),
        )
        return texts
          .filter(({ textContent }) => textContent !== '0')
          .map((element) => {
            const { left, right, width } = element.getBoundingClientRect()
            element.removeAttribute('textLength')
            const isBeside = image && number && left >= image.left && right <= number.left
            return {
              text: element.textContent,
              isBeside,
              stretched: width / element.getBoundingClientRect().width,
            }
          })
      }, `${url}${address}`)
      expect(drawn.length).toBeGreaterThan(0)
      for (const { text, isBeside, stretched } of drawn) {
        expect([style, text?.toLowerCase(), isBeside]).toEqual([style, label.normalize(), true])
        // Latin has the width that Verdana gives it.
        if (label !== 'cafe\u0301') expect([style, stretched]).toEqual([style, 1])
      }
    }
  },
)

it('badge: shows a page of another origin that it may not be read', async () => {
  const { url } = await startProtected()
  const port = await servePage(`<img src="${url}/badge/counter/default/c.svg" alt="">`)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`http://127.0.0.1:${port}/`)
  const widthOf = () => window.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth)
  await expect.poll(widthOf).toBeGreaterThan(100)
})
