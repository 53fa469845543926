// @module-tag slow
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { consolePath } from '../support/browser/console.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { ADMIN_KEY, as, startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const button = (window: Window, name: string) => window.getByRole('button', { name, exact: true })

async function enterKey(window: Window, key: string): Promise<void> {
  await window.getByLabel('API key, kept for this tab only').fill(key)
  await button(window, 'Use this key').click()
}

it('console, keys: requests a key on a protected server, keeps it for the tab, and forgets it on request', async () => {
  const { url, admin } = await startProtected()
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n' }))
  await window.getByRole('alert').getByText('This server asks for an API key.').waitFor()
  await enterKey(window, 'nth_wrong')
  await window.getByRole('alert').getByText('Enter another API key.').waitFor()
  await enterKey(window, ADMIN_KEY)
  await window.getByText("You use the administrator's key: you may do everything").waitFor()
  await window.getByRole('cell', { name: '1', exact: true }).waitFor()
  expect(await window.locator('#access .problem').textContent()).toBe('')
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  await window.getByRole('cell', { name: '2', exact: true }).waitFor()
  await window.reload()
  await window.getByText("You use the administrator's key: you may do everything").waitFor()
  expect(await window.evaluate(() => localStorage.length)).toBe(0)
  const other = await openWindow(url + consolePath({ namespace: 'n' }))
  await other.getByRole('alert').getByText('This server asks for an API key.').waitFor()
  await window.locator('summary').click()
  await button(window, 'Forget the key').click()
  await window.getByText('You use no API key: you may do nothing here.').waitFor()
  await expect.poll(() => window.getByRole('table').count()).toBe(0)
  expect(await window.getByLabel('API key, kept for this tab only').inputValue()).toBe('')
})

it('console, keys: shows a counter to a key that may not see its place', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'n', names: ['visitors'] }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', counter: 'visitors' }))
  const refused = window.waitForResponse((response) => !!response.request().postData()?.includes('Places'))
  await enterKey(window, secret)
  expect((await (await refused).json()).errors[0].extensions.code).toBe('FORBIDDEN')
  await window.getByText('1 today, +1 this month').waitFor()
  expect(await window.getByText('by value').count()).toBe(0)
  expect((await window.getByRole('alert').allTextContents()).join('')).toBe('')
})

it('console, keys: shows what a key may do, and what it may not', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  const { secret } = await createKey([
    { scopes: ['READ'], namespace: 'n' },
    { scopes: ['ADD'], namespace: 'o', onceOnly: true },
  ])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', counter: 'visitors' }))
  await enterKey(window, secret)
  await window.getByText('You use the API key').waitFor()
  const rights =
    'read on every name in “\u2068n\u2069”; add 1 on every name in “\u2068o\u2069”, once per subject.'
  await window.getByText(`you may ${rights}`).waitFor()
  expect(await window.getByRole('link', { name: 'API keys' }).count()).toBe(0)
  await button(window, 'Increment').click()
  await window.locator('#access').getByRole('alert').getByText('Enter another API key.').waitFor()
  await expectAccessible(window)
})

it('console, keys: lets a key for a prefix search, and open a counter by its name', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "a1", namespace: "n") { value } }')
  const { secret } = await createKey([{ scopes: ['READ'], namespace: 'n', prefix: 'a' }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n' }))
  await enterKey(window, secret)
  await window.getByText('You use the API key').waitFor()
  await window.getByRole('searchbox', { name: 'Find or open a counter' }).fill('a')
  await window.keyboard.press('Enter')
  await window.getByRole('cell', { name: '1', exact: true }).waitFor()
  expect(await window.locator('#summary').textContent()).toBe('1 shown.')
})

it('console, keys: stops showing values once its key is revoked, and asks for another', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  const { secret, id } = await createKey([{ scopes: ['READ'], namespace: 'n' }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n' }))
  await enterKey(window, secret)
  await window.getByRole('cell', { name: '1', exact: true }).waitFor()
  await admin.ask(`mutation { revokeApiKey(id: "${id}") { id } }`)
  await window.locator('#access').getByRole('alert').getByText('Enter another API key.').waitFor()
  await window.getByText('The numbers may be old').waitFor()
})

it('console, keys: creates a key that is shown once and works, and revokes it', async () => {
  const service = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(service.url + consolePath(), {
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  await window.getByRole('link', { name: 'API keys' }).click()
  await window.getByText('There are no API keys.').waitFor()
  expect(await window.locator('input, textarea').count()).toBe(2)
  await button(window, 'For a server').click()
  for (const scope of ['READ', 'ADD', 'NUMBER']) await window.getByRole('checkbox', { name: scope }).uncheck()
  await button(window, 'Create the key').click()
  await window.getByRole('alert').getByText('Argument "label" must not be empty.').waitFor()
  await window.getByRole('textbox', { name: 'Label' }).fill('<i>shop</i>')
  await button(window, 'Create the key').click()
  await window
    .getByRole('group', { name: 'It may' })
    .getByRole('alert')
    .getByText('must not be empty')
    .waitFor()
  await window.getByRole('checkbox', { name: 'ADD' }).check()
  await window.getByRole('textbox', { name: 'Namespace' }).fill('n')
  await window.getByText('More limits').click()
  await window.getByRole('textbox', { name: 'Exactly these names' }).fill('visitors\nreaders')
  await window.getByRole('textbox', { name: 'Limit of ADD' }).fill('5')
  await window.getByRole('checkbox', { name: 'Once per subject' }).check()
  await window.getByRole('textbox', { name: 'Changes a minute' }).fill('60')
  await window.getByLabel('Valid until').fill('2099-12-31T23:59')
  await button(window, 'Create the key').click()
  await window.getByText('Copy the key now: it is not shown again.').waitFor()
  await expectAccessible(window)
  await button(window, 'Copy the key').click()
  await window.getByText('Copied.').waitFor()
  const secret = await window.evaluate(() => navigator.clipboard.readText())
  const { key } = (
    await as(service, secret).ask('{ viewer { key { label grants { names maxDelta onceOnly } } } }')
  ).viewer
  expect(key).toEqual({
    label: '<i>shop</i>',
    grants: [{ names: ['visitors', 'readers'], maxDelta: 5, onceOnly: true }],
  })
  expect(await window.getByRole('textbox', { name: 'Label' }).inputValue()).toBe('')
  expect(await window.getByRole('textbox', { name: 'Limit of ADD' }).inputValue()).toBe('1')
  const item = window.getByRole('row').filter({ hasText: '<i>shop</i>' })
  await item.getByText('add up to 5 on').waitFor()
  await window.reload()
  await item.waitFor()
  expect(await window.getByText(secret).count()).toBe(0)
  await item.getByRole('button', { name: 'Revoke' }).click()
  await expectAccessible(window)
  await button(window, 'Cancel').click()
  await item.getByRole('button', { name: 'Revoke' }).click()
  await button(window, 'Revoke').click()
  await item.getByText(/^Revoked \d\d:\d\d\.$/).waitFor()
  const { status } = await as(service, secret).send('{ viewer { kind } }')
  expect(status).toBe(401)
  expect(window.complaints).toEqual([])
})

it('console, keys: begins a key with what it is for, and ends with lines that work as they are pasted', async () => {
  const { window, openWindow, ask } = await openPage(consolePath({ view: 'keys' }))
  let pasted = ''
  const port = await servePage(() => `<!doctype html><title>A blog</title>${pasted}`)
  const linesOf = async () => (await window.locator('pre').last().textContent()) ?? ''
  await button(window, 'For a page').click()
  expect(await window.getByRole('checkbox', { name: 'ADMIN' }).count()).toBe(0)
  await window.getByRole('textbox', { name: 'Label' }).fill('blog')
  await button(window, 'Create the key').click()
  await window.getByRole('alert').getByText('must have 1 to 100 origins').waitFor()
  await window.getByRole('textbox', { name: 'Origins of your pages' }).fill(`http://127.0.0.1:${port}`)
  await window.getByRole('textbox', { name: 'Namespace' }).fill('blog')
  await window.getByRole('textbox', { name: 'Exactly these names' }).fill('"visits" & more\nclaps')
  await button(window, 'Create the key').click()
  await button(window, 'Copy the lines').waitFor()
  pasted = await linesOf()
  const blog = await openWindow(`http://127.0.0.1:${port}`)
  await expect.poll(() => blog.locator('nth-count').textContent()).toBe('1')

  await button(window, 'For a server').click()
  await window.getByRole('textbox', { name: 'Label' }).fill("the owner's server")
  await window.getByRole('textbox', { name: 'Namespace' }).fill("Ada's")
  await button(window, 'Create the key').click()
  await expect.poll(linesOf).toContain('curl')
  const { stdout } = await promisify(execFile)('sh', ['-c', `${await linesOf()} --silent`])
  expect(JSON.parse(stdout)).toEqual({ data: { increment: { value: 1, valueIn: 1 } } })
  const { counter } = await ask('{ counter(name: "visitors", namespace: "Ada\'s") { value } }')
  expect(counter).toEqual({ value: 1 })
})

it('console, keys: opens the limits of a key where one of them is wrong', async () => {
  const { window } = await openPage(consolePath({ view: 'keys' }))
  await button(window, 'For a server').click()
  await window.getByRole('textbox', { name: 'Label' }).fill('shop')
  await window.getByText('More limits').click()
  await window.getByRole('textbox', { name: 'Changes a minute' }).fill('0')
  await window.getByText('More limits').click()
  await button(window, 'Create the key').click()
  await window.getByRole('alert').getByText('must be from 1').waitFor()
  expect(await window.getByRole('textbox', { name: 'Changes a minute' }).isVisible()).toBe(true)
})

it.each([
  ['the console', '/console?namespace=n&counter=visitors'],
  ['a list of the console', '/console?namespace=n'],
  ['the shop', '/shop'],
])('console, keys: says once in %s, as a person would, that a key is not valid', async (_, path) => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask('mutation { increment(name: "visitors", namespace: "n") { value } }')
  const { secret, id } = await createKey([{ scopes: ['READ', 'ADD'] }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}${path}`)
  await enterKey(window, secret)
  const act = button(window, path === '/shop' ? 'Buy Bulldozer' : 'Increment')
  if (path.includes('counter=')) await act.waitFor()
  else
    await window
      .getByText(/visitors|copies sold/)
      .first()
      .waitFor()
  await admin.ask(`mutation { revokeApiKey(id: "${id}") { id } }`)
  const refusal = 'This key is not valid: it may have expired, or been revoked. Enter another API key.'
  await window.getByText(refusal).waitFor()
  if (await act.isVisible()) await act.click()
  await window.reload()
  await window.getByText(refusal).waitFor()
  const text = (await window.locator('main').textContent()) ?? ''
  expect(text.match(/not valid|expired|revoked/g)).toHaveLength(3)
  expect(text).not.toMatch(/authorization|bearer|credentials/i)
})

it('console, keys: adds the documents of a manifest, binds a key to one, and removes another', async () => {
  const { url, admin, post } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ view: 'documents' }))
  await enterKey(window, ADMIN_KEY)
  await window.getByText('No documents were added.').waitFor()
  const manifest = window.getByRole('textbox', { name: 'Manifest' })
  await manifest.fill('{ nonsense')
  await button(window, 'Add the documents').click()
  await window.getByText('must have 1 to 500 documents; it has 0').waitFor()
  const texts = { who: 'query Who {\n  viewer { kind }\n}', other: '{ nope }' }
  await manifest.fill(JSON.stringify(texts, null, 2))
  await button(window, 'Add the documents').click()
  await window.getByText('is not valid: Cannot query field "nope"').waitFor()
  await manifest.fill(JSON.stringify({ ...texts, other: '{ __typename }' }))
  await button(window, 'Add the documents').click()
  await window.getByText('Added: 2.').waitFor()
  await expectAccessible(window)
  await window.locator('summary').getByText('query Who').click()
  await window.locator('td pre').getByText('viewer { kind }').waitFor()
  await button(window, 'Remove other').click()
  await button(window, 'Remove').click()
  await expect.poll(() => window.getByRole('row').count()).toBe(2)
  await window.getByRole('link', { name: 'API keys' }).click()
  await button(window, 'For a server').click()
  await window.getByRole('textbox', { name: 'Label' }).fill('page')
  await window.getByText('More limits').click()
  await window.getByRole('textbox', { name: 'Only these documents' }).fill('who\n')
  await button(window, 'Create the key').click()
  await window.getByText('trusted documents only: 1').waitFor()
  const { nodes } = (await admin.ask('{ apiKeys { nodes { documents } } }')).apiKeys
  expect(nodes).toEqual([{ documents: ['who'] }])
  const secret = (await window.locator('pre').first().textContent()) ?? ''
  const answer = await post('{"documentId":"who"}', { authorization: `Bearer ${secret.trim()}` })
  expect(answer.body).toEqual({ data: { viewer: { kind: 'KEY' } } })
})
