import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'

/** One address for several database servers, as a proxy or a moving name gives it. Closed when the test has finished. */
export async function openSwitchboard(first: Target) {
  let present = first
  const sockets = new Set<Socket>()
  const writers = new Set<Socket>()
  const hangUp = (which: Iterable<Socket>) => {
    for (const socket of which) socket.destroy()
  }
  const server = createServer((client) => {
    const { socketPath, port = 3306, host = '127.0.0.1' } = present
    const upstream = socketPath ? connect(socketPath) : connect(port, host)
    client.on('data', (packet) => {
      if (packet.includes('update fence')) writers.add(client)
    })
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => other.destroy()).on('close', () => other.destroy())
      socket.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    hangUp(sockets)
    server.close()
  })
  const { socketPath: _, ...rest } = first
  return {
    target: { ...rest, host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    /** Ends all connections, or those of writers only; new ones reach another server. */
    switchTo(target: Target, ended: 'all' | 'writers' = 'all'): void {
      present = target
      hangUp(ended === 'all' ? sockets : writers)
    },
  }
}
