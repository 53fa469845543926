import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isAllowedOnAll, refusal } from '../core/access/caller.ts'
import type { Authenticate } from './authentication.ts'
import {
  HttpError,
  isWrite,
  rejectWrite,
  sendError,
  sendText,
  serviceUnavailable,
  withHeaders,
} from './connections/httpError.ts'
import type { Handler } from './graphqlHandler.ts'

/** Returns the metrics of all processes, in the text format of Prometheus. */
export type ReadMetrics = () => Promise<string>

const TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Answers `/metrics` for callers that may read everything: names of operations and their number are no secret to them. */
export function createMetricsPage(authenticate: Authenticate, readMetrics: ReadMetrics): Handler {
  return async (request, response, headers, credential) => {
    withHeaders(response, headers)
    if (isWrite(request)) return rejectWrite(response, '/metrics')
    try {
      const { caller } = await authenticate(request, credential)
      if (isAllowedOnAll(caller, 'READ')) return await sendMetrics(response, readMetrics)
      const { code, message } = refusal(caller, 'READ')
      throw new HttpError(code === 'UNAUTHENTICATED' ? 401 : 403, code, message)
    } catch (error) {
      if (error instanceof HttpError) return sendError(response, error)
      throw error
    }
  }
}

/** Opens a server for the metrics alone, without a key. Throws the system's error if it can't listen. */
export async function openMetricsServer(host: string, port: number, readMetrics: ReadMetrics) {
  const server = createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/metrics') return void sendMetrics(response, readMetrics)
    sendError(response, new HttpError(404, 'BAD_REQUEST', 'Not found. The metrics are at /metrics.'))
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    // It is bound to a port, not to the path of a socket.
    port: (server.address() as AddressInfo).port,

    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function sendMetrics(response: ServerResponse, readMetrics: ReadMetrics): Promise<void> {
  try {
    sendText(response, TYPE, await readMetrics())
  } catch {
    // The primary process is ending.
    sendError(response, serviceUnavailable('The metrics can not be read at the moment.'))
  }
}
