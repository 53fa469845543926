import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Stands between a browser and Nth, and loses a request or an answer when `isLost` says so of the key of its call. */
export async function startLossyLine(
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
