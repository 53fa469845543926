// @module-tag slow
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { holdBack, loseAllAnswers, refuseAll } from '../support/browser/answers.ts'
import { openBrowser, type Window } from '../support/browser/browser.ts'
import { serveBuilt } from '../support/browser/builtPage.ts'
import { startRelay } from '../support/client/relay.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Shows counters as JSON, each with a button, and keeps all that it has shown. */
const CODE = `
  import { createElement, StrictMode } from 'react'
  import { createRoot } from 'react-dom/client'
  import { createClient } from 'nth-counters/client'
  import { useCount } from 'nth-counters/react'

  const client = createClient({ url: import.meta.env.VITE_NTH_URL })
  window.shown = []

  function Counter({ options }) {
    const { increment, error, ...count } = useCount({ client, ...options })
    const state = { ...count, error: error?.code ?? null }
    window.shown.push({ name: options.name, ...state })
    return createElement('p', {},
      createElement('button', { onClick: increment }, 'Count'),
      createElement('output', {}, JSON.stringify(state)),
    )
  }

  const root = createRoot(document.querySelector('#root'))
  window.show = (...counters) => root.render(createElement(StrictMode, {},
    counters.map((options, index) => createElement(Counter, { key: index, options }))))
`

interface Shown {
  name: string
  value: number | null
  valueIn: number | null
  mine: number | null
  status: string
  error: string | null
}

/** A page of a service, by a line that can be cut. */
async function openCounters() {
  const service = await startService()
  const relay = await startRelay(service.url)
  const folder = await temporaryDirectory()
  await writeFile(
    join(folder, 'index.html'),
    '<!doctype html><div id="root"></div><script type="module" src="/main.js"></script>',
  )
  await writeFile(join(folder, 'main.js'), CODE)
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const modules = ['client', 'react'].map((name) => [
    `nth-counters/${name}`,
    join(ROOT, `dist/client/${name}.js`),
  ])
  const page = await serveBuilt(folder, relay.url, { resolve: { alias: Object.fromEntries(modules) } })
  const { openWindow } = await openBrowser()
  const window = await openWindow(page)
  return {
    ...service,
    relay,
    window,
    show: (...counters: object[]) => window.evaluate(`show(...${JSON.stringify(counters)})`),
    /** What all counters show. */
    states: async (): Promise<Shown[]> =>
      (await window.locator('output').allTextContents()).map((text) => JSON.parse(text)),
    /** What was shown of a counter until now. */
    shown: async (name: string): Promise<Shown[]> =>
      (await window.evaluate<Shown[]>('shown')).filter((state) => state.name === name),
    total: async (name: string): Promise<number> =>
      (await service.ask('query ($name: String!) { counter(name: $name) { value } }', { name })).counter
        .value,
    add: (name: string) =>
      service.ask('mutation ($name: String!) { increment(name: $name) { value } }', { name }),
  }
}

const button = (window: Window, index = 0) => window.getByRole('button').nth(index)

/** How many subscriptions a page has open over its WebSockets. */
function countSubscriptions(window: Window): () => number {
  const ids = new Set<string>()
  window.on('websocket', (socket) => {
    socket.on('framesent', ({ payload }) => {
      const { type, id } = JSON.parse(String(payload))
      if (type === 'subscribe') ids.add(id)
      if (type === 'complete') ids.delete(id)
    })
  })
  return () => ids.size
}

it('useCount: counts a double click once, shows it at once, and its number only when it was answered', async () => {
  const { window, show, states, shown, add, total } = await openCounters()
  await add('c')
  await show({ name: 'c', period: 'MONTH' })
  const live = { value: 1, valueIn: 1, mine: null, status: 'live', error: null }
  await expect.poll(states).toEqual([live])
  const held = await holdBack(window, 'mutation')
  await button(window).dblclick()
  await expect.poll(states).toEqual([{ ...live, value: 2, status: 'counting' }])
  await expect.poll(held.count).toBe(1)
  // Of others, while it is on its way.
  await add('c')
  await expect.poll(async () => (await states())[0]?.valueIn).toBe(2)
  expect((await states())[0]?.mine).toBe(null)
  held.release()
  await expect.poll(states).toEqual([{ ...live, value: 3, valueIn: 3, mine: 3 }])
  expect(held.count()).toBe(1)
  expect(await total('c')).toBe(3)
  const values = (await shown('c')).map(({ value }) => Number(value))
  expect(values).toEqual(values.toSorted())
  expect(Math.max(...values)).toBe(3)
  expect(window.complaints).toEqual([])
})

it('useCount: shows the value without an increment again that was refused, and why', async () => {
  const { window, show, states, ask } = await openCounters()
  await ask('mutation { defineCounter(name: "c", definition: { maxValue: 0 }) { id } }')
  await show({ name: 'c' })
  const live = { value: 0, valueIn: null, mine: null, status: 'live', error: null }
  await expect.poll(states).toEqual([live])
  const held = await holdBack(window, 'mutation')
  await button(window).click()
  await expect.poll(states).toEqual([{ ...live, value: 1, status: 'counting' }])
  held.release()
  await expect.poll(states).toEqual([{ ...live, error: 'LIMIT_REACHED' }])
})

it('useCount: follows another counter when its options change, where no earlier answer arrives, and none when it is unmounted', async () => {
  const { window, show, states, shown, add } = await openCounters()
  const subscriptions = countSubscriptions(window)
  await show({ name: 'c' })
  await expect.poll(async () => (await states())[0]).toMatchObject({ value: 0, status: 'live' })
  const held = await holdBack(window, 'mutation')
  await button(window).click()
  await expect.poll(held.count).toBe(1)
  await add('d')
  await add('d')
  await show({ name: 'd' })
  await expect.poll(async () => (await states())[0]).toMatchObject({ value: 2, status: 'live' })
  expect(subscriptions()).toBe(1)
  await show({ name: 'd' }, { name: 'c' })
  await expect.poll(async () => (await states())[1]).toMatchObject({ status: 'counting' })
  held.release()
  const live = { valueIn: null, mine: null, status: 'live', error: null }
  await expect.poll(states).toEqual([
    { ...live, value: 2 },
    { ...live, value: 1 },
  ])
  expect((await shown('d')).filter(({ mine, status }) => mine !== null || status === 'counting')).toEqual([])
  await show()
  await expect.poll(subscriptions).toBe(0)
})

it('useCount: waits while its connection is made again, and then shows what has changed', async () => {
  const { show, states, add, relay } = await openCounters()
  await show({ name: 'c', initial: 7 })
  await expect.poll(async () => (await states())[0]).toMatchObject({ value: 0, status: 'live' })
  relay.cut()
  await expect.poll(async () => (await states())[0]).toMatchObject({ value: 0, status: 'waiting' })
  await add('c')
  relay.restore()
  await expect.poll(async () => (await states())[0]).toMatchObject({ value: 1, status: 'live', error: null })
})

it('useCount: repeats a doubtful increment in every component and after a reload, until one has its number', async () => {
  const { window, show, states, total } = await openCounters()
  const both = () => show({ name: 'c' }, { name: 'c' })
  await both()
  const live = { value: 1, valueIn: null, mine: null, status: 'live', error: null }
  await expect.poll(states).toEqual(Array(2).fill({ ...live, value: 0 }))
  const lost = await loseAllAnswers(window, 'mutation')
  await button(window).click()
  const doubtful = { ...live, status: 'doubtful' }
  await expect.poll(states).toEqual(Array(2).fill({ ...doubtful, error: 'NO_ANSWER' }))
  await window.reload()
  await both()
  await expect.poll(states).toEqual(Array(2).fill(doubtful))
  lost.release()
  const code = { code: 'UNAVAILABLE', retryable: true, retryAfterMs: 3_600_000 }
  const refused = await refuseAll(window, 'mutation', code)
  await button(window).click()
  await expect.poll(states).toEqual(Array(2).fill({ ...doubtful, error: 'UNAVAILABLE' }))
  refused.release()
  await button(window, 1).click()
  await expect.poll(states).toEqual([live, { ...live, mine: 1 }])
  await button(window).click()
  await expect.poll(states).toEqual([
    { ...live, value: 2, mine: 2 },
    { ...live, value: 2, mine: 1 },
  ])
  expect(await total('c')).toBe(2)
})
