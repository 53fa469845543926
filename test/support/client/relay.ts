import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** What a request for subscriptions says: of a WebSocket, of a page's `fetch`, or of an `EventSource`. */
const STREAM = /^(?:upgrade: websocket|accept: text\/event-stream)/im

/** Another address of a server, whose connections a test can cut and hold. Closed when the test has finished. */
export async function startRelay(url: string) {
  const { hostname, port } = new URL(url)
  const clients = new Set<Socket>()
  /** The server's side of each stream. */
  const streams = new Set<Socket>()
  let isCut = false
  let isHeld = false
  let refused = 0
  const server = createServer((client) => {
    if (isCut) {
      refused += 1
      client.destroy()
      return
    }
    const upstream = connect(Number(port), hostname)
    clients.add(client)
    client.on('data', (data) => {
      if (!STREAM.test(data.toString('latin1'))) return
      streams.add(upstream)
      if (isHeld) upstream.pause()
    })
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy())
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy())
    client.pipe(upstream)
    upstream.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cutOff = () => {
    for (const client of clients) client.destroy()
    clients.clear()
  }
  onTestFinished(() => {
    cutOff()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,

    /** Ends all connections, and refuses new ones until `restore`. */
    cut(): void {
      isCut = true
      cutOff()
    },
    restore(): void {
      isCut = false
    },
    /** How many connections were refused. */
    refused: () => refused,

    /** Holds back what the server sends on streams, until `release`. */
    hold(): void {
      isHeld = true
      for (const stream of streams) stream.pause()
    },
    release(): void {
      isHeld = false
      for (const stream of streams) stream.resume()
    },
  }
}
