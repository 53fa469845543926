// @module-tag slow
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { BrowserContextOptions } from 'playwright-core'
import { expect, it } from 'vitest'
import { cutOff, loseAnswers } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { startProtected } from '../support/client/keys.ts'
import { stopClock } from '../support/model/periods.ts'

const ROOT = join(import.meta.dirname, '../..')

stopClock()

/** What the texts of all elements are. */
const textsOf = (window: Window) => window.locator('nth-count').allInnerTexts()

/** Counters of the blog that count without a subject, too. */
const PLAIN = ['visits', 'claps']

/**
 * A protected server with a key for the pages of another origin, and a page there. The key has `onceOnly`, except for the
 * counters in `PLAIN`.
 *
 * @param body of the page; `@` stands for the address, namespace and key
 * @param loading how it loads the element: `async`, or before its body
 */
async function startBlog(body: string, scopes = ['READ', 'ADD'], loading = 'async') {
  const service = await startProtected()
  const { url, admin, createKey } = service
  const { openWindow } = await openBrowser()
  const html = (key: string) => `<!doctype html>
    <html lang="en"><head><title>A blog</title><script src="${url}/nth.js" ${loading}></script></head>
    <body><main><h1>A blog</h1> ${body.replaceAll('@', `src="${url}" namespace="blog" key="${key}"`)}</main></body></html>`
  let key = 'nth_wrong'
  const port = await servePage(() => html(key))
  const origin = `http://127.0.0.1:${port}`
  const grants = [
    { scopes, namespace: 'blog', onceOnly: true },
    { scopes, namespace: 'blog', names: PLAIN },
  ]
  const { secret } = await createKey(grants, { origins: [origin] })
  return {
    ...service,
    /** Opens the page with the key; each window is another browser. */
    async open(options: BrowserContextOptions = {}): Promise<Window> {
      key = secret
      return openWindow(origin, { locale: 'en-US', ...options })
    },
    openWithWrongKey: () => openWindow(origin),
    add: (name: string, delta = 1) =>
      admin.ask(
        'mutation ($name: String!, $delta: SafeInt!) { incrementBy(name: $name, delta: $delta, namespace: "blog") { value } }',
        { name, delta },
      ),
    async valueOf(name: string): Promise<number> {
      const { counter } = await admin.ask(
        'query ($name: String!) { counter(name: $name, namespace: "blog") { value } }',
        { name },
      )
      return counter.value
    },
  }
}

it('<nth-count>: shows a counter in a page of another origin, in the language of the reader', {
  tags: 'quick',
}, async () => {
  const blog =
    await startBlog(`<nth-count @ name="visits">some</nth-count>, <nth-count @ name="visits" lang="de" ordinal>
    </nth-count>, <nth-count @ name="visits" period="month">none</nth-count>`)
  await blog.add('visits', 1_234_567)
  for (const [locale, texts] of [
    ['en-US', ['1,234,567', '1.234.567.', '1,234,567']],
    ['de-DE', ['1.234.567', '1.234.567.', '1.234.567']],
  ] as const) {
    const window = await blog.open({ locale })
    await expect.poll(() => textsOf(window)).toEqual(texts)
    expect(window.complaints).toEqual([])
  }
  expect(await blog.valueOf('visits')).toBe(1_234_567)
})

it('<nth-count>: counts when the page is opened, a reader once, and each click of a button, and shows the number of the reader', async () => {
  const blog = await startBlog(
    `<nth-count @ name="visits" action="increment" own ordinal>…</nth-count> <nth-count @ name="readers" action="once" own>…</nth-count>
    <nth-count @ name="claps" action="increment"><button>Clap</button></nth-count>`,
  )
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1st', '1', 'Clap 0'])
  const other = await blog.open()
  await expect.poll(() => textsOf(other)).toEqual(['2nd', '2', 'Clap 0'])
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['3rd', '1', 'Clap 0'])
  for (const claps of [1, 2, 3]) {
    await window.getByRole('button', { name: 'Clap' }).click()
    await expect.poll(() => textsOf(window)).toEqual(['3rd', '1', `Clap ${claps}`])
  }
  for (const [name, value] of Object.entries({ visits: 3, readers: 2, claps: 3 }))
    expect([name, await blog.valueOf(name)]).toEqual([name, value])
  const token = await window.evaluate(() => localStorage.getItem('nth-count'))
  expect(token?.length).toBeGreaterThanOrEqual(16)
  expect([window.complaints, other.complaints]).toEqual([[], []])
})

it('<nth-count>: counts with a key that may only add', async () => {
  const blog = await startBlog('<nth-count @ name="visits" action="increment" own>…</nth-count>', ['ADD'])
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1'])
  expect(window.complaints).toEqual([])
})

it('<nth-count>: likes once, remembers it, and takes it back', async () => {
  const blog = await startBlog(
    '<nth-count @ name="likes" action="once" undo><button>Like</button> <output></output></nth-count>',
  )
  const window = await blog.open()
  const like = (isPressed: boolean) => window.getByRole('button', { name: 'Like', pressed: isPressed })
  await blog.add('likes', 41)
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['Like 41'])
  await like(false).click()
  await expect.poll(() => textsOf(window)).toEqual(['Like 42'])
  await window.reload()
  await like(true).waitFor()
  await expect.poll(() => textsOf(window)).toEqual(['Like 42'])
  await like(true).click()
  await expect.poll(() => textsOf(window)).toEqual(['Like 41'])
  await like(false).click()
  await like(true).waitFor()
  expect(await blog.valueOf('likes')).toBe(42)
  await expectAccessible(window)
})

it('<nth-count>: shows the total without the right to read what this browser counted, and says why in the console', async () => {
  const blog = await startBlog(
    '<nth-count @ name="visits" action="once" undo><button>Like</button> <output></output></nth-count>',
  )
  await blog.add('visits', 41)
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['Like 41'])
  const warnings: string[] = []
  window.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['Like 41'])
  await expect.poll(() => warnings).toHaveLength(1)
  expect(warnings[0]).toMatch(/`changeOf`.+`onceOnly`/)
  const button = window.getByRole('button', { name: 'Like' })
  await button.click()
  await expect.poll(() => textsOf(window)).toEqual(['Like 42'])
  // It can't be taken back.
  await button.click()
  await expect.poll(() => warnings).toHaveLength(2)
  expect(await textsOf(window)).toEqual(['Like 42'])
  expect(await blog.valueOf('visits')).toBe(42)
})

const POLL = ['Tea', 'Coffee'].map(
  (name) => `<nth-count @ name="${name}" action="once" poll="drinks"><button>${name}</button></nth-count>`,
)

it('<nth-count>: has one vote for a person in a poll, which stays', async () => {
  const blog = await startBlog(POLL.join(' '))
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['Tea 0', 'Coffee 0'])
  await window.getByRole('button', { name: 'Tea' }).click()
  await expect.poll(() => textsOf(window)).toEqual(['Tea 1', 'Coffee 0'])
  await window.reload()
  await window.getByRole('button', { name: 'Tea', pressed: true, disabled: true }).waitFor()
  await window.getByRole('button', { name: 'Coffee', pressed: false, disabled: true }).click({ force: true })
  await expect.poll(() => textsOf(window)).toEqual(['Tea 1', 'Coffee 0'])
  expect([await blog.valueOf('Tea'), await blog.valueOf('Coffee')]).toEqual([1, 0])
})

it('<nth-count>: moves that vote if it may be taken back', async () => {
  const blog = await startBlog(POLL.join(' ').replaceAll('poll=', 'undo poll='))
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['Tea 0', 'Coffee 0'])
  await window.getByRole('button', { name: 'Tea' }).click()
  await expect.poll(() => textsOf(window)).toEqual(['Tea 1', 'Coffee 0'])
  await window.getByRole('button', { name: 'Coffee' }).click()
  await expect.poll(() => textsOf(window)).toEqual(['Tea 0', 'Coffee 1'])
  expect([await blog.valueOf('Tea'), await blog.valueOf('Coffee')]).toEqual([0, 1])
})

it.each(['async', ''])(
  '<nth-count>: follows what others count, all elements of a page in one subscription (%s)',
  async (loading) => {
    const names = Array.from({ length: 8 }, (_, index) => `post ${index}`)
    const blog = await startBlog(
      names.map((name) => `<nth-count @ name="${name}" live>…</nth-count>`).join(' '),
      ['READ'],
      loading,
    )
    const window = await blog.open()
    await expect.poll(() => textsOf(window)).toEqual(names.map(() => '0'))
    let subscriptions = 0
    window.on('websocket', (socket) =>
      socket.on('framesent', ({ payload }) => {
        if (String(payload).includes('"type":"subscribe"')) subscriptions += 1
      }),
    )
    await window.reload()
    await expect.poll(() => textsOf(window)).toEqual(names.map(() => '0'))
    for (const name of names) await blog.add(name, 5)
    await expect.poll(() => textsOf(window)).toEqual(names.map(() => '5'))
    expect(subscriptions).toBe(1)
    // Elements come and go.
    await window.evaluate(() => document.querySelector('nth-count')?.setAttribute('name', 'post 7'))
    await expect.poll(() => textsOf(window)).toEqual(names.map(() => '5'))
    await blog.add('post 7', 5)
    await expect.poll(() => textsOf(window)).toEqual(names.map((_, index) => (index % 7 === 0 ? '10' : '5')))
    expect(window.complaints).toEqual([])
  },
)

it('<nth-count>: leaves its content as it is while the server is down, and counts once when it is there again', async () => {
  const blog = await startBlog(
    '<nth-count @ name="visits" action="increment">many</nth-count> <nth-count @ name="likes" action="once"><button>Like</button></nth-count>',
  )
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1', 'Like 0'])
  const down = await cutOff(window)
  const warnings: string[] = []
  window.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
  await window.reload()
  await expect.poll(down.count).toBeGreaterThan(3)
  expect(await textsOf(window)).toEqual(['many', 'Like'])
  await window.getByRole('button').click()
  await window.reload()
  await window.getByRole('button').click()
  down.release()
  await expect.poll(() => textsOf(window)).toEqual(['2', 'Like 1'])
  expect([await blog.valueOf('visits'), await blog.valueOf('likes')]).toEqual([2, 1])
  expect(warnings).toEqual([])
})

it('<nth-count>: counts once if answers are lost, also if the page is opened again before there is one', async () => {
  const blog = await startBlog(
    '<nth-count @ name="visits" action="increment">many</nth-count> <nth-count @ name="likes" action="once"><button>Like</button></nth-count>',
  )
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1', 'Like 0'])
  const lost = await loseAnswers(window, 'mutation', Number.POSITIVE_INFINITY)
  for (const _ of [1, 2]) {
    const before = lost.count()
    await window.reload()
    await expect.poll(lost.count).toBeGreaterThan(before)
  }
  await window.getByRole('button').click()
  await window.unrouteAll({ behavior: 'ignoreErrors' })
  await expect.poll(() => textsOf(window)).toEqual(['2', 'Like 1'])
  expect([await blog.valueOf('visits'), await blog.valueOf('likes')]).toEqual([2, 1])
})

it('<nth-count>: leaves its content as it is with a wrong key, and says so in the console', async () => {
  const blog = await startBlog(
    '<nth-count @ name="visits" action="increment" live>many</nth-count> <nth-count @ name="likes" action="once"><button>Like</button></nth-count> <p id="end">The end.</p>',
  )
  const window = await blog.openWithWrongKey()
  const warnings: string[] = []
  window.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
  const failures: Error[] = []
  window.on('pageerror', (error) => failures.push(error))
  await window.reload()
  await expect.poll(() => warnings.length).toBeGreaterThan(1)
  await window.getByRole('button').click()
  await expect.poll(() => warnings.length).toBeGreaterThan(2)
  expect(warnings[0]).toContain('The credentials are not valid')
  expect([await textsOf(window), failures]).toEqual([['many', 'Like'], []])
})

it('<nth-count>: moves a number only for readers who like that, and tells others politely', async () => {
  const blog = await startBlog('<nth-count @ name="visits" live>…</nth-count>')
  for (const [reducedMotion, animations] of [
    ['no-preference', 1],
    ['reduce', 0],
  ] as const) {
    const window = await blog.open({ reducedMotion })
    const element = window.locator('nth-count')
    await expect.poll(() => element.getAttribute('aria-live')).toBe('polite')
    await window.evaluate(() => {
      const { animate } = Element.prototype
      Object.assign(window, { animations: 0 })
      Element.prototype.animate = function (...given) {
        Object.assign(window, { animations: 1 })
        return animate.apply(this, given)
      }
    })
    const before = await element.textContent()
    await blog.add('visits')
    await expect.poll(() => element.textContent()).not.toBe(before)
    expect(await window.evaluate('animations')).toBe(animations)
    expect(await element.evaluate(({ style }: HTMLElement) => style.fontVariantNumeric)).toBe('tabular-nums')
  }
})

/** Records the changes that the elements of a page report, and those that a form around them would get. */
const RECORD = `<script>
  const changes = [], bubbled = []
  addEventListener('change', ({ target, detail }) => changes.push(target.id + ' ' + detail.number + ' ' + target.innerText), true)
  addEventListener('change', () => bubbled.push(1))
</script>`

it('<nth-count>: shows what is left, and reports each new number of an element by an event', async () => {
  const blog = await startBlog(
    `${RECORD} <nth-count @ name="seats" id="left" left live>some</nth-count> <nth-count @ name="seats" id="buy" action="increment" left><button>Buy</button></nth-count>
    <nth-count @ name="seats" id="sold" ordinal>none</nth-count> <nth-count @ name="visits" id="endless" left>many</nth-count>`,
  )
  await blog.admin.ask(
    'mutation { defineCounter(name: "seats", namespace: "blog", definition: { maxValue: 1240 }) { name } }',
  )
  await blog.add('seats', 3)
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1,237', 'Buy 1,237', '3rd', 'many'])
  const changes = (): Promise<string[]> => window.evaluate('changes')
  expect((await changes()).sort()).toEqual(['buy 1237 Buy 1,237', 'left 1237 1,237', 'sold 3 3rd'])
  await blog.add('seats')
  await expect.poll(async () => (await changes()).slice(3)).toEqual(['left 1236 1,236'])
  await blog.admin.ask('mutation { hold(changes: [{ name: "seats", delta: 36 }], namespace: "blog") { id } }')
  await expect.poll(() => window.locator('#left').textContent()).toBe('1,200')
  // The same number in another language is no change.
  await window.locator('#left').evaluate((element: HTMLElement) => element.setAttribute('lang', 'de'))
  await expect.poll(() => window.locator('#left').textContent()).toBe('1.200')
  expect((await changes()).length).toBe(5)
  expect(await window.evaluate('bubbled')).toEqual([])
  expect(window.complaints).toEqual([])
})

it('<nth-count>: counts nothing in a browser that has nth-skip, and shows the numbers', async () => {
  const blog = await startBlog(
    '<nth-count @ name="visits" action="increment">…</nth-count> <nth-count @ name="readers" action="once">…</nth-count> <nth-count @ name="claps" action="increment"><button>Clap</button></nth-count> <nth-count @ name="likes" action="once" undo><button>Like</button></nth-count>',
  )
  const window = await blog.open()
  await expect.poll(() => textsOf(window)).toEqual(['1', '1', 'Clap 0', 'Like 0'])
  await window.evaluate(() => localStorage.setItem('nth-skip', ''))
  const changes: string[] = []
  window.on('request', (request) => {
    const text = request.postData() ?? ''
    if (text.includes('mutation')) changes.push(text)
  })
  const notices: string[] = []
  window.on('console', (message) => message.type() === 'info' && notices.push(message.text()))
  await blog.add('visits', 41)
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['42', '1', 'Clap 0', 'Like 0'])
  for (const name of ['Clap', 'Like']) await window.getByRole('button', { name }).click()
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['42', '1', 'Clap 0', 'Like 0'])
  expect(changes).toEqual([])
  const notice = '<nth-count> counts nothing: localStorage has "nth-skip".'
  expect(notices).toEqual([notice, notice])
  expect(await blog.valueOf('visits')).toBe(42)
  await window.evaluate(() => localStorage.removeItem('nth-skip'))
  await window.reload()
  await expect.poll(() => textsOf(window)).toEqual(['43', '1', 'Clap 0', 'Like 0'])
})

it('<nth-count>: has less than 8 kB compressed, is cached until it changes, and has the hash that the docs show', {
  tags: 'quick',
}, async () => {
  const { url } = await startProtected()
  const { headers, status } = await fetch(`${url}/nth.js`, { headers: { origin: 'https://blog.example' } })
  expect([status, headers.get('access-control-allow-origin')]).toEqual([200, '*'])
  expect(headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  const again = await fetch(`${url}/nth.js`, { headers: { 'if-none-match': headers.get('etag') ?? '' } })
  expect(again.status).toBe(304)
  const file = await readFile(join(ROOT, 'dist/client/nth.js'))
  expect(gzipSync(file).length).toBeLessThan(8000)
  const [, hash] = /integrity="([^"]+)"/.exec(await readFile(join(ROOT, 'docs/embed.md'), 'utf8')) ?? []
  expect(hash).toBe(`sha384-${createHash('sha384').update(file).digest('base64')}`)
})
