// @module-tag slow
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'

const press = (window: Window, name: string) => window.getByRole('button', { name }).click()
const says = (window: Window, text: string | RegExp) => window.getByText(text).first().waitFor()
const keyField = (window: Window) => window.getByLabel('API key, kept for this tab only')

async function useKey(window: Window, key: string): Promise<void> {
  await keyField(window).fill(key)
  await press(window, 'Use this key')
}

const demos: [path: string, act: (window: Window) => Promise<unknown>, result: string | RegExp][] = [
  ['/', (window) => press(window, 'Buy a copy'), 'You just bought copy 1 of Red Horse Hill'],
  ['/shop', (window) => press(window, 'Buy Bulldozer'), 'You just bought copy 1 of Bulldozer'],
  [
    '/book?title=Bulldozer',
    (window) => press(window, 'Buy Bulldozer'),
    'You just bought copy 1 of Bulldozer',
  ],
  [
    '/board',
    async (window) => {
      await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
      await press(window, 'New ticket on NINJA')
    },
    'Your ticket is NINJA-1.',
  ],
  ['/hits', (window) => press(window, 'The lost reader'), 'You are reader 1, the 1st this hour.'],
  [
    '/invoice',
    async (window) => {
      await press(window, 'Try again')
      await window.getByRole('textbox', { name: 'To' }).fill('Ada Lovelace')
      await says(window, /^Yours until/)
      await press(window, 'Issue invoice')
    },
    'Issued to Ada Lovelace.',
  ],
]

it.each(demos)(
  'protected pages: asks for a key on %s of a protected server, and works with it',
  async (path, act, result) => {
    const { url } = await startProtected()
    const { openWindow } = await openBrowser()
    const window = await openWindow(`${url}${path}`)
    if (path === '/invoice') await press(window, 'Begin an invoice')
    await says(window, 'This server asks for an API key.')
    await useKey(window, 'a-wrong-key-of-somebody-else-0123456789')
    if (path === '/invoice') await press(window, 'Try again')
    await expect
      .poll(() => window.getByRole('alert').allTextContents())
      .not.toContain('This server asks for an API key.')
    await useKey(window, ADMIN_KEY)
    await says(window, 'This tab uses an API key.')
    await act(window)
    await says(window, result)
    expect(await window.evaluate(() => sessionStorage.getItem('nth-key'))).toBe(ADMIN_KEY)
    expect(await window.evaluate(() => localStorage.length)).toBe(0)
  },
)

it('protected pages: uses the key of the tab on all pages, until it is forgotten', {
  tags: 'quick',
}, async () => {
  const { url } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/shop`)
  await useKey(window, ADMIN_KEY)
  await says(window, '0 of 100 copies sold')
  await window.getByRole('link', { name: 'Tickets' }).click()
  await says(window, '0 tickets')
  await window.getByRole('link', { name: 'Hits' }).click()
  await says(window, '0 readers, 0 this hour')
  expect(await keyField(window).count()).toBe(0)
  await press(window, 'Forget it')
  await says(window, 'This server asks for an API key.')
  await expectAccessible(window)
  expect(await window.evaluate(() => sessionStorage.getItem('nth-key'))).toBeNull()
})

it('protected pages: asks for another key where that of the tab may read and not buy', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'booksales' }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/book?title=Bulldozer`)
  await useKey(window, secret)
  await says(window, '0 copies sold')
  await press(window, 'Buy Bulldozer')
  await window.getByRole('alert').getByText('The credentials do not include the scope ADD').first().waitFor()
  await expectAccessible(window)
  await useKey(window, ADMIN_KEY)
  await press(window, 'Buy Bulldozer')
  await says(window, 'You just bought copy 1 of Bulldozer')
})

it('protected pages: sells the books that the key is for, beside others that it is not for', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([
    { scopes: ['READ', 'ADD'], namespace: 'booksales', names: ['Bulldozer', 'Red Horse Hill'] },
  ])
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/shop`)
  await useKey(window, secret)
  await press(window, 'Buy Bulldozer')
  await says(window, 'You just bought copy 1 of Bulldozer')
  expect(await window.getByRole('button', { name: 'Buy The Long' }).isDisabled()).toBe(true)
  await window.goto(url)
  await press(window, 'Buy a copy')
  await says(window, 'You just bought copy 1 of Red Horse Hill')
  expect(window.complaints.filter((text) => !text.includes('401'))).toEqual([])
})
