import { expect, it } from 'vitest'
import { tabs } from '../../src/http/graphiql.ts'
import { openBrowser } from '../support/browser.ts'
import { startService } from '../support/service.ts'

it('opens with prepared tabs that run one after another, without any outside address', async () => {
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
    '"nodes"',
    '"previousValue": 15',
  ]
  for (const [index, answer] of answers.entries()) {
    const operation = /(?:query|mutation) (\w+)/.exec(tabs[index] ?? '')?.[1] ?? ''
    await window.getByRole('button', { name: operation, exact: true }).click()
    // GraphiQL writes the operation into the address once it has understood that another one is shown.
    if (index > 0) await expect.poll(() => window.url()).toContain(operation)
    await window.getByRole('button', { name: /execute query/i }).click()
    const result = async () => (await window.locator('.result-window').textContent()) ?? ''
    const spaces = /\s|\u00a0/g
    await expect
      .poll(async () => (await result()).replace(spaces, ''), { timeout: 20_000 })
      .toContain(answer.replace(spaces, ''))
  }
  expect(window.outside).toEqual([])
})
