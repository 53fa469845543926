import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { onFinished, openOnce } from '../openOnce.ts'
import { type Service, startService } from '../server/service.ts'
import { PATIENCE_MS } from '../soon.ts'
import { findChromium } from './chromium.mjs'

export interface Window extends Page {
  /** Addresses outside this machine that the page requested. */
  outside: string[]
  /** What the page complained of in its console. */
  complaints: string[]
}

/** `hasSockets`: whether pages may open WebSockets (default); otherwise they have streams of events. */
type WindowOptions = BrowserContextOptions & { hasSockets?: boolean }

interface Windows {
  openWindow(url: string, options?: WindowOptions): Promise<Window>
}

/**
 * Opens a page of a service of its own.
 *
 * @param path of the page, or `about:blank`
 * @param first operations that run before it is opened
 */
export async function openPage(
  path: string,
  { first = [], ...options }: WindowOptions & { first?: string[] } = {},
): Promise<Service & Windows & { window: Window }> {
  const service = await startService()
  for (const operation of first) await service.ask(operation)
  const { openWindow } = await openBrowser()
  return {
    ...service,
    openWindow,
    window: await openWindow(path.startsWith('/') ? service.url + path : path, options),
  }
}

/** Opens windows, closed when the test has finished. Each is a person of their own, with a storage of their own. */
export async function openBrowser(): Promise<Windows> {
  const browser = await openOnce(launchChromium)
  return {
    async openWindow(url, { hasSockets = true, ...options } = {}) {
      const context = await browser.newContext(options)
      if (!hasSockets) await context.addInitScript('delete window.WebSocket')
      context.setDefaultTimeout(PATIENCE_MS)
      onTestFinished(() => context.close())
      const page = await context.newPage()
      const outside: string[] = []
      const complaints: string[] = []
      page.on('request', (request) => {
        const { protocol, hostname } = new URL(request.url())
        if (protocol.startsWith('http') && hostname !== '127.0.0.1') outside.push(request.url())
      })
      page.on('console', (message) => {
        if (message.type() === 'error') complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(error.message))
      await page.goto(url)
      return Object.assign(page, { outside, complaints })
    },
  }
}

async function launchChromium(): Promise<Browser> {
  const executablePath = findChromium()
  if (!executablePath) throw new Error('There is no Chromium on this machine')
  const browser = await chromium.launch({
    executablePath,
    timeout: PATIENCE_MS,
    args: [
      // Chromium's sandbox refuses to run as root.
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      '--disable-gpu',
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  })
  onFinished(() => browser.close())
  return browser
}
