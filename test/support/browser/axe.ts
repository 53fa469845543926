import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

const AXE = fileURLToPath(import.meta.resolve('axe-core/axe.min.js'))

const SIZES = [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
]

/** All rules in the light; in the dark nothing but colours is different. */
const RULES = { light: {}, dark: { runOnly: ['cat.color'] } }

/** Expects that axe finds nothing wrong with a page as it is now. It is left with the size and the colours that it had. */
export async function expectAccessible(window: Page): Promise<void> {
  const size = window.viewportSize()
  expect(await axeFindings(window)).toEqual([])
  if (size) await window.setViewportSize(size)
  await window.emulateMedia({ colorScheme: null, reducedMotion: null })
}

/** What axe finds wrong with a page as it is now, wide and narrow, light and dark. */
export async function axeFindings(window: Page): Promise<string[]> {
  const script = await readFile(AXE, 'utf8')
  const findings: string[] = []
  // Evaluated from outside: the page's CSP allows no inline script.
  await window.evaluate(script)
  for (const size of SIZES) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await window.setViewportSize(size)
      // What is fading in has other colours, and what pulses never ends.
      await window.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      const found: string[] = await window.evaluate(`
        Promise.allSettled(document.getAnimations().map(({ finished }) => finished))
          .then(() => axe.run(${JSON.stringify(RULES[colorScheme])}))
          .then(({ violations }) =>
            violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ': ' + target)))`)
      findings.push(...found.map((finding) => `${size.width} ${colorScheme} ${finding}`))
    }
  }
  return findings
}
