// @module-tag slow
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { lexer, type Tokens } from 'marked'
import { expect, it } from 'vitest'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { consolePath } from '../support/browser/console.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { compile } from '../support/client/clientsPage.ts'
import { startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] }

/** What is copied for a way. */
async function copied(window: Window, way: string): Promise<string> {
  const section = window.getByRole('region', { name: 'Use it' })
  await section.getByRole('radio', { name: way }).check()
  await section.getByRole('button', { name: 'Copy', exact: true }).click()
  await section.getByText('Copied.').waitFor()
  return window.evaluate('navigator.clipboard.readText()')
}

const value = (result: string) => JSON.parse(result).data.increment.value

it.each([
  { namespace: 'blog', name: 'visitors' },
  { namespace: `it's "$(id)" \`id\` \${1}`, name: '</script><!-- &amp; \\n \\' },
  { namespace: 'a/b?c#d%2f', name: "(a) [b](c) *d* _e_ !'*~ 'öß🎉 \u2028\u202e<b>" },
])(
  'console, Use it: shows how to use $name of $namespace, with texts that work as they are copied',
  async (counter) => {
    const { url, ask } = await startService()
    const { openWindow } = await openBrowser()
    const window = await openWindow(
      url + consolePath({ namespace: counter.namespace, counter: counter.name }),
      CLIPBOARD,
    )
    const text = (way: string) => copied(window, way)
    expect((await ask(await text('GraphQL'))).increment.value).toBe(1)
    const { stdout } = await promisify(execFile)('sh', ['-c', `${await text('curl')} --silent`])
    expect(value(stdout)).toBe(2)
    const script = await text('fetch')
    expect(await window.evaluate(`(async () => { ${script}; return data.increment.value })()`)).toBe(3)
    // Within a page, too.
    expect(script).not.toMatch(/<\/|<!/)

    const { 'Count.js': component = '' } = await compile({ 'Count.tsx': await text('React') })
    const [, names = ''] = /useCount\((\{.*?\})\)/s.exec(component) ?? []
    expect(new Function('client', `return ${names}`)()).toEqual({ ...counter, client: undefined })

    const html = await text('<nth-count>')
    const page = await openWindow(`http://127.0.0.1:${await servePage(() => html)}`, { locale: 'en' })
    await page.getByText('You are number 4').waitFor()

    const [paragraph] = lexer(await text('Badge')) as Tokens.Paragraph[]
    const [image] = (paragraph?.tokens ?? []) as Tokens.Image[]
    expect([image?.type, paragraph?.tokens.length, image?.text]).toEqual(['image', 1, expect.any(String)])
    const badge = await fetch(image?.href ?? '')
    expect(badge.status).toBe(200)
    expect(await badge.text()).toContain('>4</text>')
    expect(
      await ask(
        'query ($namespace: String!, $name: String!) { counter(name: $name, namespace: $namespace) { value } }',
        counter,
      ),
    ).toEqual({ counter: { value: 4 } })
    expect(window.complaints).toEqual([])
  },
)

it('console, Use it: leaves the key to fill in where a server is protected', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ', 'ADD'], namespace: 'n' }])
  const { openWindow } = await openBrowser()
  const window = await openWindow(url + consolePath({ namespace: 'n', counter: 'visitors' }), CLIPBOARD)
  await window.getByLabel('API key, kept for this tab only').fill(secret)
  await window.keyboard.press('Enter')
  const run = promisify(execFile)
  const options = { env: { ...process.env, NTH_KEY: secret } }
  const { stdout } = await run('sh', ['-c', `${await copied(window, 'curl')} --silent`], options)
  expect(value(stdout)).toBe(1)
  const script = (await copied(window, 'fetch')).replace('nth_…', secret)
  expect(await window.evaluate(`(async () => { ${script}; return data.increment.value })()`)).toBe(2)
  for (const way of ['React', '<nth-count>', 'Badge'])
    expect([way, await copied(window, way)]).toEqual([way, expect.stringContaining('nth_…')])
})

it('console, Use it: begins an empty console with the first counter, and how to use it', async () => {
  const { window, ask } = await openPage(consolePath(), { ...CLIPBOARD })
  await window.getByRole('heading', { name: 'Your first counter' }).waitFor()
  await expectAccessible(window)
  await window.getByRole('textbox', { name: 'Name' }).fill('clicks')
  const request = await copied(window, 'GraphQL')
  expect(request).toContain('increment(namespace: "default", name: "clicks")')
  await window.getByRole('button', { name: 'Create it and count 1' }).click()
  await window.getByRole('heading', { name: 'Counter clicks' }).waitFor()
  expect(await window.locator('.value').textContent()).toBe('1')
  expect(await copied(window, 'GraphQL')).toBe(request)
  expect(await ask('{ counter(name: "clicks") { value } }')).toEqual({ counter: { value: 1 } })
  await window.getByRole('link', { name: 'Home', exact: true }).click()
  await window.getByRole('list', { name: 'Counters that changed last' }).waitFor()
  expect(await window.getByRole('heading', { name: 'Your first counter' }).count()).toBe(0)
})
