// @module-tag slow
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Clients } from '../../src/http/clients.ts'
import { openConnections } from '../../src/http/connections.ts'
import { SILENT } from '../../src/operations/log.ts'
import { openWire, postHead } from '../support/client/wire.ts'
import { startFront } from '../support/server/front.ts'
import { createGate } from '../support/server/gate.ts'
import { connectionsAt } from '../support/server/processes.ts'

/** An answer of 9 MB: more than the system keeps for a caller. */
const LARGE = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
const readMetrics = async () => `${'# a long line\n'.repeat(650_000)}# end\n`

const SMALL = 'GET /graphql?query={__typename} HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** How many connections the server holds. */
async function held(url: string): Promise<number> {
  const [count = 0] = await connectionsAt(url, [process.pid])
  return count
}

/** A caller that reads, once the server has its connection and those that were opened before. */
async function openReader(url: string) {
  const reader = openWire(url)
  reader.write(SMALL)
  await reader.received('{"data":{"__typename":"Query"}}')
  return reader
}

/** Lets time pass in which something must not happen. */
async function passing(ms: number): Promise<void> {
  const began = performance.now()
  await expect.poll(() => performance.now() - began).toBeGreaterThan(ms)
}

/** A caller that has requested several large answers, and reads nothing. */
function openDeaf(url: string) {
  const wire = openWire(url)
  wire.pause()
  wire.write(LARGE.repeat(5))
  return wire
}

describe('a caller that reads slowly', () => {
  it('ends the connection of a caller who reads nothing of its answer', async () => {
    const { url } = await startFront({ readMetrics, stallMs: 200 })
    openDeaf(url)
    await openReader(url)
    await expect.poll(() => held(url)).toBe(1)
  })

  it('tolerates a caller who reads its answer slowly', async () => {
    const stallMs = 800
    const { url } = await startFront({ readMetrics, stallMs })
    const wire = openDeaf(url)
    // It takes 64 kB at a time. The system notifies the server once a sixteenth of its buffer of 6 MB was taken.
    let isSlow = true
    const pace = setInterval(() => {
      wire.resume()
      setImmediate(() => isSlow && wire.pause())
    }, stallMs / 80)
    await passing(stallMs * 4)
    expect(await held(url)).toBe(1)
    clearInterval(pace)
    isSlow = false
    wire.resume()
    wire.write(SMALL)
    await wire.received('{"data":{"__typename":"Query"}}')
  })

  it('ends no idle connection whose answer was read', async () => {
    const gate = createGate()
    const stallMs = 800
    const { url } = await startFront({ readMetrics, ...gate, stallMs })
    const wire = openWire(url)
    wire.pause()
    const body = '{"query":"mutation { increment(name: \\"c\\") { value } }"}'
    wire.write(LARGE, postHead(`Content-Length: ${body.length}`), body)
    await passing(stallMs / 2)
    wire.resume()
    await gate.reached(1)
    await passing(stallMs * 3)
    gate.open()
    await wire.received('{"value":1}')
  })

  it('ends the connections with the most unread bytes when all together exceed the limit', async () => {
    // An eighth of it may wait: one of the answers.
    const { url } = await startFront({ readMetrics, heapBytes: 100_000_000 })
    openDeaf(url)
    openDeaf(url)
    const reader = await openReader(url)
    await expect.poll(() => held(url)).toBe(2)
    reader.write(SMALL.replace('__typename', 'again:__typename'))
    await reader.received('{"data":{"again":"Query"}}')
  })

  it('ends the connections of the client with the most unread bytes first', async () => {
    // An eighth of it may wait: two of the answers.
    const access = { trustedProxies: ['127.0.0.1'], anonymous: ['READ' as const] }
    const { url } = await startFront({ readMetrics, heapBytes: 160_000_000, access })
    const openDeafFrom = (client: string, bytes: number) => {
      const wire = openWire(url)
      wire.pause()
      wire.write(LARGE.replace('Host:', `X-Forwarded-For: ${client}\r\nHost:`))
      return { wire, bytes }
    }
    const { wire } = openDeafFrom('192.0.2.2', 0)
    for (let index = 0; index < 3; index += 1) openDeafFrom('192.0.2.1', index)
    await openReader(url)
    // Those of the first client are ended until it has no more than the other.
    await expect.poll(() => held(url), { timeout: 30_000 }).toBe(3)
    wire.resume()
    await wire.received('# end')
  })

  it('releases the memory of a request when its whole answer waits to be read', async () => {
    const server = createServer()
    const hadRoom: boolean[] = []
    const { reserve } = openConnections(server, {
      maxBytes: 100_000,
      maxUnreadBytes: 100_000_000,
      stallMs: 60_000,
      clients: new Clients([], 2),
      handle(request, response) {
        hadRoom.push(reserve(request, 80_000, 0))
        response.end(Buffer.alloc(30_000_000))
      },
      notices: { ...SILENT, fault: console.error },
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    // It is bound to a port, not to the path of a socket.
    const { port } = server.address() as AddressInfo
    const wires = [1, 2].map(() => openWire(`http://127.0.0.1:${port}`))
    for (const [index, wire] of wires.entries()) {
      wire.pause()
      wire.write(SMALL)
      await expect.poll(() => hadRoom.length).toBe(index + 1)
    }
    expect(hadRoom).toEqual([true, true])
  })
})
