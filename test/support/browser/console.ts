import type { Service } from '../server/service.ts'
import type { Window } from './browser.ts'

/** The path of a view of the console. */
export function consolePath(parts: Record<string, string> = {}): string {
  return `/console?${new URLSearchParams(parts)}`
}

/** Opens what changes the counter or the sequence itself: its definition, and what can't be undone. */
export const edit = (window: Window) => window.locator('summary').getByText('Edit').click()

/** Creates counters `name 0000`, `name 0001` …, whose values are 1, 2 … */
export async function createCounters(ask: Service['ask'], namespace: string, count: number): Promise<void> {
  for (let start = 0; start < count; start += 1000) {
    const length = Math.min(1000, count - start)
    const changes = Array.from({ length }, (_, index) => ({
      name: `name ${String(start + index).padStart(4, '0')}`,
      delta: start + index + 1,
    }))
    await ask(
      `mutation ($changes: [CounterDeltaInput!]!, $namespace: String!) {
        incrementMany(changes: $changes, namespace: $namespace) { value }
      }`,
      { changes, namespace },
    )
  }
}

/** The texts of the cells of a table's body, row by row. */
export function cellsOf(window: Window, caption: string): Promise<string[][]> {
  return window.evaluate(`
    [...document.querySelectorAll('table')]
      .filter((table) => table.caption.textContent === ${JSON.stringify(caption)})
      .flatMap(({ tBodies }) => [...tBodies[0].rows])
      .map(({ cells }) => [...cells].map(({ textContent }) => textContent))`)
}
