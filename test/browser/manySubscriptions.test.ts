// @module-tag slow
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { servePage } from '../support/browser/otherPage.ts'
import { upTo } from '../support/client/client.ts'
import { startFront } from '../support/server/front.ts'

/** A page of another origin, which may call a server. */
async function startPage(
  html: (url: string) => string,
  through: (url: string) => Promise<string> = async (url) => url,
) {
  const first = await startFront({ allowedOrigins: ['*'] })
  const url = await through(first.url)
  const port = await servePage(html(url))
  return { ...first, url, page: `http://127.0.0.1:${port}` }
}

/** Lets all requests through but WebSockets, as some proxies do. Browsers open six connections to it. */
async function withoutSockets(url: string): Promise<string> {
  const server = createServer((request, response) => {
    const { method, headers, url: path } = request
    const sent = forward({ port: new URL(url).port, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    response.on('close', () => sent.destroy())
    sent.on('error', () => response.destroy())
    request.pipe(sent)
  })
  server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  // It listens at a port.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Books with a live number and a button each, one subscription for each of them. */
const shop = (count: number) => (url: string) =>
  `<!doctype html><title>A shop</title><ul></ul>
  <script type="module">
    import { createClient } from '${url}/client.js'
    const client = createClient({ url: '${url}/graphql' })
    for (let book = 1; book <= ${count}; book++) {
      const item = document.createElement('li')
      item.innerHTML = '<output></output> <button>Buy ' + book + '</button> <i></i>'
      document.querySelector('ul').append(item)
      const [output, button, own] = item.children
      client.subscribe('subscription ($n: String!) { counters(names: [$n]) { id revision value } }', { n: 'book ' + book },
        { onData: ({ counters }) => { output.textContent = counters[0].value } })
      button.onclick = async () => {
        const { increment } = await client.mutate('mutation ($n: String!) { increment(name: $n) { value } }', { n: 'book ' + book })
        own.textContent = 'You are buyer #' + increment.value
      }
    }
  </script>`

const numbersOf = (window: Window) => window.locator('output').allInnerTexts()
/** Counts the WebSockets that a window opens. */
const socketsOf = (window: Window) => {
  let count = 0
  window.on('websocket', () => {
    count += 1
  })
  return () => count
}

it.each([8, 30])(
  'many subscriptions: has %d books with a live number each on a page, and Buy answers, over HTTP/1.1',
  async (count) => {
    const { page, ask } = await startPage(shop(count))
    const { openWindow } = await openBrowser()
    const window = await openWindow('about:blank')
    const sockets = socketsOf(window)
    await window.goto(page)
    await expect.poll(() => numbersOf(window)).toEqual(Array(count).fill('0'))
    await window.getByRole('button', { name: `Buy ${count}`, exact: true }).click()
    await window.getByText('You are buyer #1').waitFor()
    await expect.poll(() => numbersOf(window)).toEqual([...Array(count - 1).fill('0'), '1'])
    await ask('mutation { increment(name: "book 1") { value } }')
    await expect.poll(async () => (await numbersOf(window))[0]).toBe('1')
    expect(sockets()).toBe(1)
    expect(window.complaints).toEqual([])
  },
)

it('many subscriptions: has three windows of eight books in one browser, all live, and comes back after the server', async () => {
  const { page, url, close } = await startPage(shop(8))
  const { openWindow } = await openBrowser()
  const first = await openWindow(page)
  // Of the same person: its connections to a server are those of all its windows.
  const others = [await first.context().newPage(), await first.context().newPage()]
  for (const window of others) await window.goto(page)
  const windows = [first, ...others] as Window[]
  for (const window of windows) await window.bringToFront()
  for (const window of windows) await expect.poll(() => numbersOf(window)).toEqual(Array(8).fill('0'))
  for (const [index, window] of windows.entries()) {
    await window.getByRole('button', { name: 'Buy 3' }).click()
    await window.getByText(`You are buyer #${index + 1}`).waitFor()
  }
  for (const window of windows) await expect.poll(async () => (await numbersOf(window))[2]).toBe('3')
  await close()
  const second = await startFront({ allowedOrigins: ['*'], port: Number(new URL(url).port) })
  await second.ask('mutation { incrementBy(name: "book 3", delta: 40) { value } }')
  for (const window of windows) await expect.poll(async () => (await numbersOf(window))[2]).toBe('40')
})

it('many subscriptions: reads numbers from time to time where WebSockets are refused, and Buy answers', async () => {
  const { page, ask } = await startPage(shop(30), withoutSockets)
  const { openWindow } = await openBrowser()
  const window = await openWindow(page)
  await expect.poll(() => numbersOf(window)).toEqual(Array(30).fill('0'))
  await window.getByRole('button', { name: 'Buy 30' }).click()
  await window.getByText('You are buyer #1').waitFor()
  await ask('mutation { increment(name: "book 7") { value } }')
  await expect
    .poll(() => numbersOf(window))
    .toEqual(upTo(30).map((book) => (book === 7 || book === 30 ? '1' : '0')))
})

it('many subscriptions: has 32 elements in 8 namespaces, with one connection, and one request for each namespace', async () => {
  const elements = upTo(32).map((index) => {
    const place = `namespace="n${index % 8}" name="c${index}"`
    if (index > 16) return `<nth-count src="@" ${place}>…</nth-count>`
    return `<nth-count src="@" ${place} live action="increment">…<button>Clap ${index}</button></nth-count>`
  })
  const { page, ask } = await startPage(
    (url) =>
      `<!doctype html><title>A blog</title><script src="${url}/nth.js" async></script>${elements.join('\n').replaceAll('@', url)}`,
  )
  const { openWindow } = await openBrowser()
  const window = await openWindow('about:blank')
  const sockets = socketsOf(window)
  let posts = 0
  window.on('request', (request) => {
    if (request.method() === 'POST') posts += 1
  })
  await window.goto(page)
  const shown = () =>
    window
      .locator('nth-count')
      .evaluateAll((all) => all.map((each) => (each.querySelector('output') ?? each).textContent))
  await expect.poll(shown).toEqual(Array(32).fill('0'))
  expect([sockets(), posts]).toEqual([1, 8])
  await window.getByRole('button', { name: 'Clap 16' }).click()
  await expect.poll(async () => (await shown())[15]).toBe('1')
  await ask('mutation { incrementBy(name: "c1", namespace: "n1", delta: 7) { value } }')
  await expect.poll(async () => (await shown())[0]).toBe('7')
  expect(window.complaints).toEqual([])
})
