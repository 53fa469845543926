import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { invalidCredential } from '../../src/http/errors.ts'
import { ResponseStream, streamFormatFor } from '../../src/http/responseStream.ts'
import { Stream } from '../../src/http/stream.ts'
import { PATIENCE_MS } from '../support/soon.ts'

/** The caller plays no part here. */
const caller = {} as Stream['caller']
const owner = {} as Stream['owner']
const format = streamFormatFor(undefined) as NonNullable<ReturnType<typeof streamFormatFor>>

it.each([
  ['fail', (stream: Stream) => stream.fail(invalidCredential())],
  ['break', (stream: Stream) => stream.break()],
])('lets no client wait whose stream ended by `%s` while its first event was read', async (_, end) => {
  const server = createServer((_request, response) => {
    const stream = new Stream(caller, owner, () => undefined)
    end(stream)
    stream.start(new ResponseStream(response, () => [], format))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const answer = fetch(`http://127.0.0.1:${port}`, { signal: AbortSignal.timeout(PATIENCE_MS) })
  await expect(answer).rejects.toThrow('fetch failed')
})
