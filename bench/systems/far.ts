// Four processes of Nth whose database is some milliseconds away, as in another part of a region.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { SERVES, startNthAt } from '../systems.ts'
import { announce } from './serve.ts'

/** How long everything is under way, there and back again, in milliseconds. */
const DELAY_MS = 5

const { socketPath, database }: { socketPath: string; database: string } = JSON.parse(process.argv[2] ?? '{}')

const line = createServer((near) => {
  const far = connect(socketPath)
  carry(near, far)
  carry(far, near)
})
await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve))
// It listens at a port, not at the path of a socket.
const { port } = line.address() as AddressInfo
const nth = startNthAt(`mysql://root@127.0.0.1:${port}/${database}`, { WORKERS: '4' })
process.once('SIGTERM', async () => {
  await nth.end()
  process.exit()
})
announce(await nth.printed(SERVES))

/** Hands on what comes, later. */
function carry(from: Socket, to: Socket): void {
  from.setNoDelay(true)
  from.on('data', (bytes) => setTimeout(() => to.write(bytes), DELAY_MS))
  from.on('close', () => setTimeout(() => to.destroy(), DELAY_MS))
  from.on('error', () => to.destroy())
}
