import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** Serves a page from an origin of its own, and returns the port; ended when the test has finished. */
export async function servePage(html: string | (() => string)): Promise<number> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8')
    response.end(typeof html === 'string' ? html : html())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  // It is bound to a port, not to the path of a socket.
  return (server.address() as AddressInfo).port
}
