import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/**
 * Checks that an address is available, before anything else is started: it binds to it, and releases it again. Nth
 * listens there only when it can serve.
 *
 * @returns the address that the host's name stands for, and the port; for port 0 a free one
 * @throws the system's error if it is not available, such as EADDRINUSE
 */
export async function probe(host: string, port: number): Promise<AddressInfo> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  // It is bound to a port and an address, not to the path of a socket.
  const address = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return address
}

/** Rethrows an error, that of an address with the variables that choose another one. */
export function advise(hostVariable: string, portVariable: string) {
  return (error: unknown): never => {
    const { code, message, syscall = '' } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      const text = `${message}: the port is in use. Choose another with ${portVariable}, or 0 for any free port.`
      throw new Error(text, { cause: error })
    }
    if (!['listen', 'bind', 'getaddrinfo'].includes(syscall)) throw error
    throw new Error(`${message}. Choose another ${hostVariable} or ${portVariable}.`, { cause: error })
  }
}
