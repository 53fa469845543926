import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { type Answer, inParallel, sorted, upTo } from '../support/client/client.ts'
import { createRandom } from '../support/random.ts'
import { startService } from '../support/server/service.ts'

type Once = (query: string, variables?: Record<string, unknown>, key?: string) => Promise<Answer>

/** The function that docs/exactly-once.md shows, for a server at another address. */
async function onceAt(url: string): Promise<{ once: Once; lines: number }> {
  const page = await readFile(join(import.meta.dirname, '../../docs/exactly-once.md'), 'utf8')
  const code = /```js\n(async function once\([^`]+)```/.exec(page)?.[1] ?? ''
  const moved = code.replace('http://127.0.0.1:4000', url)
  expect(moved).not.toBe(code)
  const once: Once = new Function(`${moved}; return once`)()
  return { once, lines: code.trim().split('\n').length }
}

/** Stands between a browser and Nth, and loses a request or an answer when `isLost` says so of the key of its call. */
async function startLossyLine(
  url: string,
  isLost: (key: string | undefined) => boolean,
): Promise<{ url: string; losses: () => number }> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let losses = 0
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    let key: string | undefined
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end).on('close', end)
    }
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('data', (bytes) => {
        if (from === client) key = /^idempotency-key: (.+)\r$/im.exec(bytes.toString())?.[1] ?? key
        if (!isLost(key)) return to.write(bytes)
        losses += 1
        return end()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, losses: () => losses }
}

const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'

it('is short', async () => {
  expect((await onceAt('http://127.0.0.1:1')).lines).toBeLessThan(20)
})

it('reports by a code that nobody answered', async () => {
  const clock = Date.now
  const began = clock()
  // Each look at the clock is 20 seconds on: its time is over after one retry.
  let looks = 0
  Date.now = () => began + 20_000 * looks++
  onTestFinished(() => {
    Date.now = clock
  })
  const { once } = await onceAt('http://127.0.0.1:1')
  const { errors } = await once(INCREMENT, { name: 'c' })
  expect(errors).toMatchObject([{ extensions: { code: 'OUTCOME_UNKNOWN' } }])
})

it('counts every call once, and returns its number, over a line that loses requests and answers', async () => {
  const { url, ask } = await startService()
  // Of each call at most four, so that every one succeeds before `once` gives up, after 30 seconds.
  const random = createRandom()
  const lost = new Map<string | undefined, number>()
  const line = await startLossyLine(url, (key) => {
    const before = lost.get(key) ?? 0
    if (before === 4 || random.fraction() > 0.3) return false
    lost.set(key, before + 1)
    return true
  })
  const { once } = await onceAt(line.url)
  const answers = await inParallel(20, 100, () => once(INCREMENT, { name: 'c' }))
  expect(sorted(answers.map(({ data }) => data?.increment.value))).toEqual(upTo(100))
  expect(line.losses()).toBeGreaterThan(10)
  expect(lost.size).toBeGreaterThan(10)
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 100 } })
})

it('says that the outcome is unknown where an answer was lost, and every retry was refused', async () => {
  const unavailable = { code: 'UNAVAILABLE', retryable: true, retryAfterMs: 60_000 }
  const send = vi.fn(async () =>
    Response.json({ errors: [{ message: 'Starting.', extensions: unavailable }] }),
  )
  vi.stubGlobal('fetch', send.mockRejectedValueOnce(new TypeError('fetch failed')))
  onTestFinished(() => void vi.unstubAllGlobals())
  const { once } = await onceAt('http://127.0.0.1:1')
  const { errors } = await once(INCREMENT, { name: 'c' })
  expect(errors).toMatchObject([{ extensions: { code: 'OUTCOME_UNKNOWN' } }])
  expect(send).toHaveBeenCalledTimes(2)
})

it('returns a refusal at once', async () => {
  const { url, ask } = await startService()
  await ask('mutation { defineCounter(name: "c", definition: { maxValue: 0 }) { maxValue } }')
  let requests = 0
  const line = await startLossyLine(url, () => {
    requests += 1
    return false
  })
  const { once } = await onceAt(line.url)
  const { errors } = await once(INCREMENT, { name: 'c' })
  expect(errors?.[0]?.extensions.code).toBe('LIMIT_REACHED')
  // There, and back.
  expect(requests).toBe(2)
})

it('does the same again when it is given the key of an earlier call', async () => {
  const { url } = await startService()
  const { once } = await onceAt(url)
  const answers = [await once(INCREMENT, { name: 'c' }, 'mine'), await once(INCREMENT, { name: 'c' }, 'mine')]
  expect(answers).toEqual([{ data: { increment: { value: 1 } } }, { data: { increment: { value: 1 } } }])
})
