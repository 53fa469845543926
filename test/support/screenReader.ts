import type { Page } from 'playwright-core'

/** Records from now on what a screen reader would announce of live regions with a role, in order. */
export async function listen(window: Page, role: 'alert' | 'status'): Promise<() => Promise<string[]>> {
  const name = `announced_${role}`
  await window.evaluate(`
    window.${name} = []
    for (const place of document.querySelectorAll('[role=${role}]')) {
      const note = () => place.textContent && window.${name}.push(place.textContent)
      new MutationObserver(note).observe(place, { childList: true, characterData: true, subtree: true })
    }
  `)
  return () => window.evaluate(`window.${name}`)
}
