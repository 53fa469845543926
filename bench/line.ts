// A line to a database server some milliseconds away, as in another part of a region.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

const { socketPath, delayMs }: { socketPath: string; delayMs: number } = JSON.parse(process.argv[2] ?? '{}')

const line = createServer((near) => {
  const far = connect(socketPath)
  carry(near, far)
  carry(far, near)
})
await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve))
// It listens at a port, not at the path of a socket.
console.log(`Serving at http://127.0.0.1:${(line.address() as AddressInfo).port}`)

/** Forwards everything after the delay. */
function carry(from: Socket, to: Socket): void {
  from.setNoDelay(true)
  from.on('data', (bytes) => setTimeout(() => to.write(bytes), delayMs))
  from.on('close', () => setTimeout(() => to.destroy(), delayMs))
  from.on('error', () => to.destroy())
}
