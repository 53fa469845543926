// @module-tag slow
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { cutOff } from '../support/browser/answers.ts'
import { openBrowser } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const README = join(import.meta.dirname, '../../README.md')

/** Serves the README's page, pointed at a service, from an origin of its own; with a key if there is one. */
async function serveReadme(url: string, key = () => ''): Promise<{ port: number }> {
  const text = await readFile(README, 'utf8')
  const page = text.split('```html\n')[1]?.split('\n```')[0]?.replaceAll('http://127.0.0.1:4000', url) ?? ''
  return {
    port: await servePage(() => (key() ? page.replace("/graphql' }", `/graphql', key: '${key()}' }`) : page)),
  }
}

it('page of the README: lets the page of the README, from another origin, show which visitor you are', {
  tags: 'quick',
}, async () => {
  const { url, ask } = await startService()
  const { port } = await serveReadme(url)
  const { openWindow } = await openBrowser()
  const window = await openWindow(`http://127.0.0.1:${port}/visitor.html`)
  for (const number of [1, 2, 3]) {
    await window.getByRole('button').click()
    await window.getByText(`Visitor #${number}`).waitFor()
  }
  // It counts once.
  await window.getByRole('button').dblclick()
  await window.getByText('Visitor #4').waitFor()
  await window.getByText('4 visitors so far').waitFor()
  const { counters } = await ask('{ counters(names: ["visitors"], namespace: "tour") { value } }')
  expect(counters).toEqual([{ value: 4 }])
  const lost = await cutOff(window)
  await window.getByRole('button').click()
  await window.getByText('trying again …').waitFor()
  lost.release()
  await window.getByText('Visitor #5').waitFor()
})

it('page of the README: shows the code of an error on that page', async () => {
  const { url, ask } = await startService()
  const { port } = await serveReadme(url)
  await ask(
    `mutation { reset(name: "visitors", namespace: "tour", to: ${Number.MAX_SAFE_INTEGER}) { value } }`,
  )
  const { openWindow } = await openBrowser()
  const window = await openWindow(`http://127.0.0.1:${port}/visitor.html`)
  await window.getByRole('button').click()
  await window.getByText('OUT_OF_RANGE: ').waitFor()
})

it('page of the README: keeps pages of foreign origins from counting, though they may import the client', async () => {
  const { url, ask } = await startService()
  const { port } = await serveReadme(url)
  const { openWindow } = await openBrowser()
  // The browser resolves the name to this machine by itself; its origin is none of the allowed ones.
  const window = await openWindow(`http://shop.localhost:${port}/visitor.html`)
  await window.getByRole('button').click()
  await expect.poll(() => window.complaints.join()).toContain('CORS')
  expect(window.complaints.join()).toContain('/graphql')
  expect(window.complaints.join()).not.toContain('/client.js')
  await window.getByText('NO_ANSWER: ').waitFor()
  const { counters } = await ask('{ counters(names: ["visitors"], namespace: "tour") { value } }')
  expect(counters).toEqual([{ value: 0 }])
})

it('page of the README: lets that page count with a key from its origin, and shows the error on another origin', async () => {
  const { url, admin, createKey, post } = await startProtected()
  let key = ''
  const { port } = await serveReadme(url, () => key)
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
