// @module-tag slow
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { axeFindings } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const TABS = new URL('../../src/http/pages/graphiql/tabs.graphql', import.meta.url)

/** The prepared tabs: operations to run in order, on the books of the shop. */
const tabs = (await readFile(TABS, 'utf8')).trim().split('\n\n')

const SALE = 'mutation { increment(name: "Bulldozer", namespace: "booksales") { value } }'

const run = (window: Window) => window.getByRole('button', { name: /execute query/i }).click()

const allTabs = (window: Window) => window.locator('.graphiql-tab')

/** Selects a tab, and waits until GraphiQL has read its operation: before, it would run the one of the last tab. */
async function select(window: Window, name: string) {
  await window.getByRole('button', { name, exact: true }).click()
  const query = () => window.evaluate('sessionStorage.getItem("graphiql:query")')
  await expect.poll(query).toMatch(new RegExp(` ${name}\\b`))
}

/** Waits until a part of GraphiQL shows a text, whatever its spaces. */
async function shows(window: Window, part: string, text: string) {
  const spaces = /\s|\u00a0/g
  const content = async () => ((await window.locator(part).textContent()) ?? '').replace(spaces, '')
  await expect.poll(content).toContain(text.replace(spaces, ''))
}

const answers = (window: Window, text: string) => shows(window, '.result-window', text)

/** What the answer pane says before an operation is run. */
const hint = (window: Window) => window.getByText(/^Press ▶ or (Ctrl|⌘)-Enter to run the operation\.$/)

const enterKey = async (window: Window, key: string) => {
  await window.getByLabel('API key').fill(key)
  await window.getByLabel('API key').press('Enter')
}

const selected = (window: Window) => window.locator('.graphiql-tab [aria-current=true]').textContent()

it('GraphiQL: opens with prepared tabs that run one after another, without any outside address', async () => {
  const { window } = await openPage('/graphql')
  await allTabs(window).first().waitFor()
  expect(await allTabs(window).count()).toBe(tabs.length)
  await hint(window).waitFor()
  const expected = [
    '"value": 1',
    '"value": 13',
    '"name": "Bulldozer"',
    '"valueIn": 14',
    '"replayed": false',
    '"alreadyCounted": false',
    '"maxValue": 3',
    '"held": 2',
    '"formatted": "MYBOARD-1"',
    '"state": "RESERVED"',
    '"value": 42',
    '"valueIn": 15',
    '"nodes"',
  ]
  for (const [index, answer] of expected.entries()) {
    const tab = tabs[index] ?? ''
    await select(window, /(?:query|mutation|subscription) (\w+)/.exec(tab)?.[1] ?? '')
    if (tab.includes('$')) await shows(window, '.graphiql-editor-tool', '"copies": 12')
    await hint(window).waitFor()
    await run(window)
    await answers(window, answer)
    await hint(window).waitFor({ state: 'detached' })
  }
  expect(tabs.filter((tab) => tab.includes('$'))).toHaveLength(1)
  expect(window.outside).toEqual([])
  expect(window.complaints).toEqual([])
})

it('GraphiQL: keeps its tabs and the selected one over a reload, and reads the schema again with another key', async () => {
  const { url } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/graphql`)
  let loads = 0
  window.on('load', () => {
    loads += 1
  })
  await select(window, 'NumberATicket')
  await window.getByRole('button', { name: 'Close Tab' }).last().click()
  await expect.poll(() => allTabs(window).count()).toBe(tabs.length - 1)
  await select(window, 'ReadSeveral')
  await run(window)
  await answers(window, 'UNAUTHENTICATED')
  await window.getByRole('button', { name: 'Show Documentation Explorer' }).click()
  await window.getByText('No GraphQL schema available').waitFor()
  await enterKey(window, ADMIN_KEY)
  await window.getByText('Root Types').waitFor()
  await run(window)
  await answers(window, '"name": "not sold yet"')
  expect([loads, await selected(window)]).toEqual([0, 'ReadSeveral'])
  const stored = () => window.evaluate('sessionStorage.getItem("graphiql:tabState")')
  await expect.poll(stored).not.toContain('"title":"NumberATicket"')
  // Another tab of the browser begins with these tabs, goes on with its own, and has no key.
  const other = await window.context().newPage()
  await other.goto(`${url}/graphql`)
  await expect.poll(() => other.locator('.graphiql-tab').count()).toBe(tabs.length - 1)
  expect(await other.getByLabel('API key').inputValue()).toBe('')
  await other.getByRole('button', { name: 'New tab' }).click()
  await other.getByRole('button', { name: '<untitled>', exact: true }).waitFor()
  await window.reload()
  await shows(window, '.graphiql-query-editor', 'not sold yet')
  expect([await allTabs(window).count(), await selected(window)]).toEqual([tabs.length - 1, 'ReadSeveral'])
  expect(await window.getByLabel('API key').inputValue()).toBe(ADMIN_KEY)
  await run(window)
  await answers(window, '"name": "not sold yet"')
})

it('GraphiQL: asks for a key before anything fails, and shows no error any more once the key is valid', async () => {
  const { url } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/graphql`)
  await window.getByText('This server asks for an API key.').waitFor()
  await window.getByText('The answer appears here.').waitFor()
  const focused = () => window.getByLabel('API key').evaluate((field) => field === document.activeElement)
  await expect.poll(focused).toBe(true)
  expect(window.complaints).toEqual([])
  for (const name of ['ReadSeveral', 'BuyACopy']) {
    await select(window, name)
    await run(window)
    await answers(window, 'UNAUTHENTICATED')
  }
  await enterKey(window, 'nth_unknown')
  await window.getByText('This key is unknown, expired or revoked.').waitFor()
  await answers(window, 'UNAUTHENTICATED')
  await enterKey(window, ADMIN_KEY)
  await hint(window).waitFor()
  expect(await window.locator('.result-window').textContent()).not.toContain('UNAUTHENTICATED')
  expect(await window.locator('#problem').textContent()).toBe('')
  await select(window, 'ReadSeveral')
  await hint(window).waitFor()
  await run(window)
  await answers(window, '"name": "not sold yet"')
})

it('GraphiQL: shows why the schema cannot be read, and its description when it can', async () => {
  const { window, url } = await openPage('about:blank')
  await window.route(/graphql$/, (route) =>
    route.request().method() === 'POST' ? route.abort() : route.continue(),
  )
  await window.goto(`${url}/graphql`)
  await answers(window, 'Failed to fetch')
  await window.unrouteAll()
  await window.getByRole('button', { name: 'Re-fetch GraphQL schema' }).click()
  await hint(window).waitFor()
  expect(await window.locator('.result-window').textContent()).not.toContain('Failed')
  // The editor has colours of its own, and takes those of the dark a moment after the page.
  const isOfEditor = (finding: string) => /color-contrast(-enhanced)?: .*(\.mtk|\.line-numbers)/.test(finding)
  expect((await axeFindings(window)).filter((finding) => !isOfEditor(finding))).toEqual([])
  await window.getByRole('button', { name: 'Show Documentation Explorer' }).click()
  await window.getByText('adds 1 to a counter and returns your own number').waitFor()
})

it('GraphiQL: runs a subscription with the key of its tab, until it is stopped', async () => {
  const { url, admin } = await startProtected()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/graphql`)
  await select(window, 'WatchSales')
  await run(window)
  await answers(window, 'UNAUTHENTICATED')
  await enterKey(window, ADMIN_KEY)
  await run(window)
  await answers(window, '"value": 0')
  await admin.ask(SALE)
  await answers(window, '"value": 1')
  await window.getByRole('button', { name: /stop query/i }).click()
  await window.getByRole('button', { name: /execute query/i }).waitFor()
})

it('GraphiQL: opens the operation of a link in a tab of its own, once', { tags: 'quick' }, async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const query = 'query FromALink($name: String!) { counter(name: $name) { name } }'
  const link = new URLSearchParams({ query, variables: '{ "name": "linked" }' })
  const window = await openWindow(`${url}/graphql?${link}`)
  await shows(window, '.graphiql-query-editor', query)
  await run(window)
  await answers(window, '"name": "linked"')
  expect(await allTabs(window).count()).toBe(tabs.length + 1)
  expect(new URL(window.url()).search).toBe('')
  await window.reload()
  await shows(window, '.graphiql-query-editor', query)
  expect([await allTabs(window).count(), await selected(window)]).toEqual([tabs.length + 1, 'FromALink'])
})

it('GraphiQL: transfers little more than 1 MB before somebody uses it, and nothing of it twice', async () => {
  const { window, url } = await openPage('about:blank')
  const session = await window.context().newCDPSession(window)
  await session.send('Network.enable')
  let bytes = 0
  const urls = new Map<string, string>()
  const loaded: (string | undefined)[] = []
  session.on('Network.responseReceived', ({ requestId, response }) => urls.set(requestId, response.url))
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    bytes += encodedDataLength
    if (encodedDataLength > 0) loaded.push(urls.get(requestId))
  })
  const workers: string[] = []
  window.on('worker', (worker) => workers.push(worker.url()))
  await window.goto(`${url}/graphql`)
  await window.locator('.graphiql-query-editor .view-line').first().waitFor()
  await window.waitForLoadState('networkidle')
  expect(bytes).toBeGreaterThan(500_000)
  expect(bytes).toBeLessThan(1_050_000)
  expect(workers).toEqual([])
  const before = loaded.splice(0)
  await window.goto(`${url}/graphql`)
  await window.locator('.graphiql-query-editor .view-line').first().waitFor()
  await window.waitForLoadState('networkidle')
  const again = loaded.filter((each) => before.includes(each))
  expect(again.filter((each) => /\.(js|css|woff2?|ttf)$/.test(each ?? ''))).toEqual([])
  // What checks and completes an operation comes with the first input.
  await window.locator('.graphiql-query-editor .view-line').first().click()
  await expect.poll(() => workers.join()).toContain('graphql.worker')
})

it('GraphiQL: lets proxies and browsers keep its files, whatever they can decompress, and forbids foreign scripts', async () => {
  const { url } = await startService()
  const page = await fetch(`${url}/graphql`, { headers: { accept: 'text/html' } })
  expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'self'; style-src/)
  const [script = ''] = /\/graphiql\/index-[^"]+\.js/.exec(await page.text()) ?? []
  const texts = new Set<string>()
  for (const encoding of ['br', 'gzip']) {
    const file = await fetch(`${url}${script}`, { headers: { 'accept-encoding': encoding } })
    expect(file.headers.get('content-encoding')).toBe(encoding)
    expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    texts.add(await file.text())
  }
  expect(texts.size).toBe(1)
  for (const path of ['stamp', 'index.html', '../main.js', '%2e%2e/main.js', ''])
    expect((await fetch(`${url}/graphiql/${path}`)).status).toBe(404)
})

it('GraphiQL: keeps its tabs on one line with the selected one in sight, and shows the title and the welcome whole', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  for (const width of [1280, 1024]) {
    const window = await openWindow(`${url}/graphql`, { viewport: { width, height: 768 } })
    const editor = window.locator('.graphiql-query-editor')
    await editor.getByText('previousValue').waitFor()
    const toolbar = await editor.locator('.graphiql-toolbar').boundingBox()
    // All at once: the editor replaces its lines while it colours them.
    const ends = await editor
      .locator('.view-line > span')
      .evaluateAll((lines) => lines.map((line) => line.getBoundingClientRect().right))
    expect(ends.length).toBe(tabs[0]?.split('\n').length)
    for (const end of ends) expect(end).toBeLessThan(toolbar?.x ?? 0)
    for (const place of [window.getByRole('heading', { name: 'GraphiQL' }), window.getByLabel('API key')])
      expect(await rightOf(place)).toBeLessThanOrEqual(width)
    const tops = await allTabs(window).evaluateAll((all) => all.map((tab) => tab.getBoundingClientRect().top))
    expect([tops.length, new Set(tops).size]).toEqual([tabs.length, 1])
    const last = allTabs(window).last()
    expect(await rightOf(last)).toBeGreaterThan(width)
    await select(window, 'ListWhatIsThere')
    await hint(window).waitFor()
    await window.reload()
    await shows(window, '.graphiql-query-editor', 'ListWhatIsThere')
    await expect.poll(() => rightOf(last)).toBeLessThanOrEqual(width)
  }
  for (const comment of tabs.flatMap((tab) => tab.match(/^# .*/gm) ?? [])) {
    expect(comment.length).toBeLessThanOrEqual(50)
  }
})

it('can be used on a phone: tabs scroll, and the answer stands below the operation', async () => {
  const { window } = await openPage('/graphql', { viewport: { width: 375, height: 740 } })
  await select(window, 'ListWhatIsThere')
  await run(window)
  await answers(window, '"nodes"')
  const places = [
    window.locator('.graphiql-query-editor'),
    window.locator('.result-window'),
    window.getByLabel('API key'),
  ]
  for (const place of places) {
    const { x = 0, width = 0, height = 0 } = (await place.boundingBox()) ?? {}
    expect(x).toBeGreaterThanOrEqual(0)
    expect(x + width).toBeLessThanOrEqual(375)
    expect(width).toBeGreaterThan(place === places[2] ? 100 : 300)
    expect(height).toBeGreaterThan(place === places[2] ? 20 : 150)
  }
  expect(await window.evaluate('document.documentElement.scrollWidth')).toBe(375)
})

it('GraphiQL: ends with a tab that changes nothing', { tags: 'quick' }, () => {
  expect(tabs.at(-1)).toMatch(/^query /)
})

async function rightOf(place: ReturnType<Window['locator']>): Promise<number> {
  const { x, width } = (await place.boundingBox()) ?? { x: Number.POSITIVE_INFINITY, width: 0 }
  return x + width
}
