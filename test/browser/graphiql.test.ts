// @module-tag slow
import { expect, it } from 'vitest'
import { tabs } from '../../src/http/graphiql.ts'
import { openBrowser } from '../support/browser/browser.ts'
import { startService } from '../support/server/service.ts'

it('opens with prepared tabs that run one after another, without any outside address', {
  tags: 'quick',
}, async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  const window = await openWindow(`${url}/graphql`)
  await window.locator('.graphiql-tab').first().waitFor()
  expect(await window.locator('.graphiql-tab').count()).toBe(tabs.length)
  const answers = [
    '"value": 1',
    '"value": 13',
    '"name": "Bulldozer"',
    '"valueIn": 14',
    '"replayed": false',
    '"maxValue": 3',
    '"formatted": "MYBOARD-1"',
    '"state": "RESERVED"',
    '"value": 42',
    '"nodes"',
  ]
  for (const [index, answer] of answers.entries()) {
    const operation = /(?:query|mutation) (\w+)/.exec(tabs[index] ?? '')?.[1] ?? ''
    await window.getByRole('button', { name: operation, exact: true }).click()
    // GraphiQL writes the operation into the address once it has understood that another one is shown.
    if (index > 0) await expect.poll(() => window.url()).toContain(operation)
    await window.getByRole('button', { name: /execute query/i }).click()
    const result = async () => (await window.locator('.result-window').textContent()) ?? ''
    const spaces = /\s|\u00a0/g
    await expect.poll(async () => (await result()).replace(spaces, '')).toContain(answer.replace(spaces, ''))
  }
  expect(window.outside).toEqual([])
})

it('shows its title and the welcome whole', async () => {
  const { url } = await startService()
  const { openWindow } = await openBrowser()
  for (const width of [1280, 1024]) {
    const window = await openWindow(`${url}/graphql`, { viewport: { width, height: 768 } })
    const editor = window.locator('.graphiql-query-editor')
    await editor.getByText('previousValue').waitFor()
    const toolbar = await editor.locator('.graphiql-toolbar').boundingBox()
    const lines = await editor.locator('.view-line > span').all()
    expect(lines.length).toBe(tabs[0]?.split('\n').length)
    for (const line of lines) {
      const { x, width } = (await line.boundingBox()) ?? { x: 0, width: 0 }
      expect(x + width).toBeLessThan(toolbar?.x ?? 0)
    }
    const title = window.locator('.graphiql-logo').getByText('GraphiQL · Nth')
    const box = (await title.boundingBox()) ?? { x: 0, width: 0, height: 0 }
    expect(box.height).toBeLessThan(40)
    expect(box.x + box.width).toBeLessThanOrEqual(width)
  }
  for (const comment of tabs.flatMap((tab) => tab.match(/^# .*/gm) ?? [])) {
    expect(comment.length).toBeLessThanOrEqual(50)
  }
})

it('ends with a tab that changes nothing', { tags: 'quick' }, () => {
  expect(tabs.at(-1)).toMatch(/^query /)
})
