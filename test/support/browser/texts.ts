import type { Page } from 'playwright-core'

/** Records from now on the texts that appear in the places of a selector, in order; not that they become empty. */
export async function recordTexts(window: Page, selector: string): Promise<() => Promise<string[]>> {
  const texts = `texts[${JSON.stringify(selector)}]`
  await window.evaluate(`
    window.texts ??= {}
    ${texts} = []
    for (const place of document.querySelectorAll(${JSON.stringify(selector)})) {
      const note = () => place.textContent && ${texts}.push(place.textContent)
      new MutationObserver(note).observe(place, { childList: true, characterData: true, subtree: true })
    }
  `)
  return () => window.evaluate(texts)
}

/** What a screen reader would announce. */
export const ALERTS = '[role=alert]'
