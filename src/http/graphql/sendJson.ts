import type { ServerResponse } from 'node:http'
import type { HeaderList } from '../connections/access.ts'

/** Characters of a response that is encoded in a tick of its own: for the longest, 10 MB, it takes 10 ms. */
const LONG_RESPONSE = 1_000_000

let tickEnd: Promise<void> | undefined

/** One promise for all callers in a tick costs less than one for each. */
export function endOfTick(): Promise<void> {
  tickEnd ??= new Promise((resolve) => {
    setImmediate(() => {
      tickEnd = undefined
      resolve()
    })
  })
  return tickEnd
}

/** As one list, headers cost 5 µs of processor time less than with `setHeader`, a tenth of an `increment` in memory. */
export async function sendJson(
  response: ServerResponse,
  status: number,
  headers: HeaderList,
  json: string,
): Promise<void> {
  let body: string | Buffer = `${json}\n`
  if (body.length > LONG_RESPONSE) {
    await endOfTick()
    body = Buffer.from(body)
  }
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(body))])
  response.end(body)
}
