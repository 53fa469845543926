import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { findChromium } from './chromium.mjs'

export interface Window extends Page {
  /** Addresses outside this machine that the page asked for. */
  outside: string[]
  /** What the page complained of in its console. */
  complaints: string[]
}

/** Opens a browser, closed when the test has finished. Each window is a person of their own. */
export async function openBrowser(): Promise<{
  openWindow(url: string, options?: BrowserContextOptions): Promise<Window>
}> {
  const executablePath = findChromium()
  if (!executablePath) throw new Error('There is no Chromium on this machine')
  const browser: Browser = await chromium.launch({
    executablePath,
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
  onTestFinished(() => browser.close())
  return {
    async openWindow(url, options = {}) {
      const page = await (await browser.newContext(options)).newPage()
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
