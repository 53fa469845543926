// @module-tag slow
import { expect, it } from 'vitest'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { consolePath, edit } from '../support/browser/console.ts'
import { startService } from '../support/server/service.ts'

const LARGE = 123_456_789_012_345

const TITLES = ['Red Horse Hill', 'Bulldozer', 'The Long Trains Roll']

const SETUP = `mutation ($books: [CounterDeltaInput!]!, $entries: [CounterDeltaInput!]!, $large: SafeInt!) {
  books: incrementMany(changes: $books, namespace: "booksales") { value }
  entries: incrementMany(changes: $entries, namespace: "hits") { value }
  visitors: incrementBy(name: "visitors", delta: $large, namespace: "n") { value }
  debt: incrementBy(name: "debt", delta: -9007199254740991, namespace: "n") { value }
  bound: defineCounter(name: "visitors", definition: { maxValue: 9007199254740991 }, namespace: "n") { id }
  tickets: defineSequence(name: "ticket", definition: { startValue: $large }, namespace: "boards") { id }
  invoices: defineSequence(name: "invoice", definition: { startValue: $large, gapless: true }, namespace: "shop") { id }
}`

/** Numbers that are broken over lines, beyond the window, or beyond what contains them; and fields with such values. */
const CUT = `(() => {
  const cut = []
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const { currentNode: node } = texts
    const parent = node.parentElement
    if (parent.closest('pre, .unseen, script, noscript') || !parent.checkVisibility()) continue
    for (const { 0: number, index } of node.data.matchAll(/(?:(?<!\\w)[-+])?\\d(?:[\\d,\\u2009]*\\d)?/g)) {
      const range = document.createRange()
      range.setStart(node, index)
      range.setEnd(node, index + number.length)
      const { left, right } = range.getBoundingClientRect()
      const isOutside = (box) => left < box.left - 1 || right > box.right + 1
      let isCut = range.getClientRects().length !== 1 || isOutside({ left: 0, right: innerWidth })
      for (let box = parent; box !== document.body; box = box.parentElement) {
        const { display, overflowX } = getComputedStyle(box)
        const isBounded = box.matches('.card, .plate, td, th') || (overflowX !== 'visible' && display !== 'inline')
        if (isBounded && isOutside(box.getBoundingClientRect())) isCut = true
      }
      if (isCut) cut.push(number + ' in ' + parent.className + ' ' + parent.tagName)
    }
  }
  for (const field of document.querySelectorAll('input'))
    if (/\\d/.test(field.value) && field.scrollWidth > field.clientWidth) cut.push(field.value + ' in ' + field.name)
  if (document.documentElement.scrollWidth > innerWidth) cut.push('the page')
  return cut
})()`

const press = (window: Window, name: string) => window.getByRole('button', { name }).click()
const says = (window: Window, text: string | RegExp) => window.getByText(text).first().waitFor()

/** What is done on each page until it shows its numbers. */
const pages: [path: string, act: (window: Window) => Promise<unknown>][] = [
  [consolePath(), (window) => says(window, '+123,456,789,012,345 today')],
  [consolePath({ contains: 'i' }), (window) => says(window, '123,456,789,012,345')],
  [consolePath({ namespace: 'n' }), (window) => says(window, '123,456,789,012,345')],
  [consolePath({ namespace: 'n', order: 'VALUE_DESC' }), (window) => says(window, '123,456,789,012,345')],
  [
    consolePath({ namespace: 'n', counter: 'visitors' }),
    async (window) => {
      await says(window, ': 123,456,789,012,345 added')
      await edit(window)
      await press(window, 'Increment')
      await says(window, '123,456,789,012,346: 1 added to 123,456,789,012,345.')
    },
  ],
  [consolePath({ namespace: 'boards', list: 'sequences' }), (window) => says(window, 'ticket')],
  [
    consolePath({ namespace: 'boards', sequence: 'ticket' }),
    async (window) => {
      await edit(window)
      await press(window, 'Issue')
      await says(window, /^1234567890123/)
    },
  ],
  [
    '/',
    async (window) => {
      await press(window, 'Buy a copy')
      await says(window, 'You just bought copy 123,456,789,012,')
    },
  ],
  [
    '/shop',
    async (window) => {
      await press(window, 'Buy Bulldozer')
      await says(window, 'You just bought copy 123,456,789,012,')
    },
  ],
  ['/book?title=Bulldozer', (window) => says(window, '123,456,789,012,')],
  [
    '/board',
    async (window) => {
      await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
      await press(window, 'New ticket on NINJA')
      await says(window, 'Your ticket is NINJA-123456789012')
    },
  ],
  [
    '/hits',
    async (window) => {
      await press(window, 'The lost reader')
      await says(window, 'You are reader 123,456,789,012,346')
    },
  ],
  [
    '/invoice',
    async (window) => {
      await press(window, 'Begin an invoice')
      await says(window, /^INV-\d{4}-123456789012345$/)
    },
  ],
]

it('pages: shows every number whole, however long it is and however narrow the window', async () => {
  const { url, ask } = await startService()
  const many = (names: string[]) => names.map((name) => ({ name, delta: LARGE }))
  await ask(SETUP, { books: many(TITLES), entries: many(['The lost reader']), large: LARGE })
  const { openWindow } = await openBrowser()
  const cut: Record<string, unknown> = {}
  for (const [path, act] of pages) {
    const window = await openWindow(`${url}${path}`)
    await act(window)
    for (const width of [1280, 768, 390]) {
      await window.setViewportSize({ width, height: 800 })
      const found = await window.evaluate<string[]>(CUT)
      if (found.length > 0) cut[`${path} at ${width}`] = found
    }
    await window.context().close()
  }
  expect(cut).toEqual({})
})
