import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'

/** Prefix of the variables that choose an address: `HOST` and `PORT` for the API, or the variables for metrics. */
type Prefix = '' | 'NTH_METRICS_'

/** Makes a server listen. Throws an error for the operator if it can't. */
export async function listenOn(
  server: Server,
  host: string,
  port: number,
  prefix: Prefix = '',
): Promise<AddressInfo> {
  server.listen(port, host)
  await once(server, 'listening').catch((cause) => {
    throw new Error(reason(cause, host, port, prefix), { cause })
  })
  // The server is bound to a port and an address, not to the path of a socket.
  return server.address() as AddressInfo
}

/**
 * Checks that an address is this machine's and that nobody listens there, before anything else is started. It doesn't
 * listen there itself: a proxy that knows the port would send requests, which would be lost.
 *
 * @returns the address that the host's name stands for, and the port; for port 0 a free one
 * @throws an error for the operator if it is not available
 */
export async function probe(host: string, port: number, prefix: Prefix = ''): Promise<AddressInfo> {
  const server = createServer()
  const free = await listenOn(server, host, 0, prefix)
  server.close()
  await once(server, 'close')
  if (port === 0) return free
  const socket = connect(port, free.address)
  const taken = await once(socket, 'connect').catch(() => undefined)
  socket.destroy()
  if (taken) throw new Error(reason({ code: 'EADDRINUSE' }, host, port, prefix))
  return { ...free, port }
}

/** Why a server can't listen on an address, by the system's error, and which variable the operator can change. */
function reason(
  { code, message }: Partial<NodeJS.ErrnoException>,
  host: string,
  port: number,
  prefix: Prefix,
): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} of ${host} is in use. Set ${prefix}PORT to another one, or to 0 for any free port.`
    case 'EACCES':
      return `Nth may not listen on port ${port} of ${host}: low ports need a privilege. Set ${prefix}PORT to 1024 or more.`
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
      return `${host} is not an address of this machine. Set ${prefix}HOST to one that is, such as 127.0.0.1.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${host} could not be resolved. Set ${prefix}HOST to an address of this machine, such as 127.0.0.1.`
    default:
      return `Nth can't listen on port ${port} of ${host} (${message}). Set ${prefix}HOST or ${prefix}PORT to another one.`
  }
}
