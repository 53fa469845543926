import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** What a request for subscriptions says: of a WebSocket, or of a stream of a page's `fetch` or an `EventSource`. */
const UPGRADE = /^upgrade: websocket/im
const EVENT_STREAM = /^accept: text\/event-stream/im

interface RelayOptions {
  /** Whether a request or an answer is lost, of the call with a key. */
  isLost?: (key: string | undefined) => boolean
  /** Whether WebSockets are refused, as by some proxies. */
  refusesSockets?: boolean
}

/** Another address of a server, whose connections a test can cut and hold. Closed when the test has finished. */
export async function startRelay(url: string, { isLost, refusesSockets }: RelayOptions = {}) {
  const { hostname, port } = new URL(url)
  const clients = new Set<Socket>()
  /** The server's side of each stream. */
  const streams = new Set<Socket>()
  /** Connections that carry subscriptions. */
  const open = { sockets: 0, streams: 0, mostStreams: 0 }
  let isCut = false
  let isHeld = false
  let refused = 0
  let losses = 0
  const server = createServer((client) => {
    if (isCut) {
      refused += 1
      client.destroy()
      return
    }
    const upstream = connect(Number(port), hostname)
    let key: string | undefined
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    /** Ends the connection if what arrives on it is lost. */
    const pass = (to: Socket) => (data: Buffer) => {
      if (!isLost?.(key)) return to.write(data)
      losses += 1
      end()
    }
    clients.add(client)
    client.on('data', (data) => {
      const text = data.toString('latin1')
      key = /^idempotency-key: (.+)\r$/im.exec(text)?.[1] ?? key
      const kind = UPGRADE.test(text) ? 'sockets' : EVENT_STREAM.test(text) ? 'streams' : undefined
      if (!kind) return
      if (kind === 'sockets' && refusesSockets) {
        refused += 1
        client.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
        return
      }
      open[kind] += 1
      open.mostStreams = Math.max(open.mostStreams, open.streams)
      client.on('close', () => {
        open[kind] -= 1
      })
      streams.add(upstream)
      if (isHeld) upstream.pause()
    })
    client.on('data', pass(upstream)).on('error', end).on('close', end)
    // What the server sent last is still to be read.
    upstream
      .on('data', pass(client))
      .on('error', end)
      .on('close', () => client.end())
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
    // It listens at a port.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open,
    /** How many connections were refused. */
    refused: () => refused,
    /** How many requests and answers were lost. */
    losses: () => losses,

    /** Ends all connections, and refuses new ones until `restore`. */
    cut(): void {
      isCut = true
      cutOff()
    },
    restore(): void {
      isCut = false
    },

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
