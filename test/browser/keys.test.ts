// @module-tag slow
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openBrowser } from '../support/browser/browser.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'

const README = join(import.meta.dirname, '../../README.md')

/** Serves the README's page with a key, pointed at a service, from an origin of its own. */
async function servePage(url: string, key: () => string): Promise<number> {
  const page = (await readFile(README, 'utf8')).split('```html\n')[1]?.split('\n```')[0] ?? ''
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(
      page.replaceAll('http://127.0.0.1:4000', url).replace("/graphql' }", `/graphql', key: '${key()}' }`),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

it('lets the page of the README count with a key from its origin, and shows the error on another origin', async () => {
  const { url, admin, createKey, post } = await startProtected()
  let key = ''
  const port = await servePage(url, () => key)
  const origins = [`http://shop.localhost:${port}`]
  key = (await createKey([{ scopes: ['ADD'], namespace: 'tour', names: ['visitors'] }], { origins })).secret
  const { openWindow } = await openBrowser()
  const window = await openWindow(`http://shop.localhost:${port}/visitor.html`)
  for (const number of [1, 2]) {
    await window.getByRole('button').click()
    await window.getByText(`Visitor #${number}`).waitFor()
  }
  const other = await openWindow(`http://evil.localhost:${port}/visitor.html`)
  await other.getByRole('button').click()
  await other
    .getByText(`FORBIDDEN: These credentials may not be used from http://evil.localhost:${port}.`)
    .waitFor()
  // A program sends no origin.
  const query = 'mutation { increment(name: "visitors", namespace: "tour") { value } }'
  const { status, body } = await post(JSON.stringify({ query }), { authorization: `Bearer ${key}` })
  expect([status, body.errors?.[0]?.extensions.code]).toEqual([403, 'FORBIDDEN'])
  const read = '{ counter(name: "visitors", namespace: "tour") { value } }'
  expect(await admin.ask(read)).toEqual({ counter: { value: 2 } })
})

it('takes a key in GraphiQL, for its tab only', async () => {
  const { url } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/graphql?query=${encodeURIComponent('{ viewer { kind } }')}`)
  const result = async () => (await window.locator('.result-window').textContent()) ?? ''
  const run = async (kind: string) => {
    await window.getByRole('button', { name: /execute query/i }).click()
    await expect.poll(result).toContain(kind)
  }
  await window.getByText('This server asks for an API key.').waitFor()
  // Until GraphiQL has its editors, its button does nothing.
  for (const place of ['.graphiql-query-editor', '.result-window'])
    await window.locator(`${place} .monaco-editor`).first().waitFor()
  await run('ANONYMOUS')
  await window.getByLabel('API key').fill(ADMIN_KEY)
  await window.getByLabel('API key').press('Enter')
  await window.getByText('This server asks for an API key.').waitFor({ state: 'hidden' })
  await run('ADMIN')
  expect(await window.getByLabel('API key').inputValue()).toBe(ADMIN_KEY)
  expect(await window.evaluate(() => localStorage.getItem('nth-key'))).toBeNull()
})
