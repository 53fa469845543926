import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { NthError } from '../../core/errors.ts'
import type { Connections } from './connections.ts'
import { tooBusy } from './refuse.ts'

/** Maximum request body, in bytes: enough for 1 000 names of any length. */
export const MAX_BODY_BYTES = 1_000_000

/** Heap that a byte of JSON may need, in bytes. Measured on Node 20: 21, in a list of empty objects. */
const HEAP_BYTES_A_BYTE = 24

/** Why a body is refused, and the HTTP status. */
export class BodyRefusal extends NthError {
  readonly status: number

  constructor(status: number, ...error: ConstructorParameters<typeof NthError>) {
    super(...error)
    this.status = status
  }
}

/**
 * Reads a whole body: JSON is parsed in one piece. A refusal is returned at once, and nothing of that body is kept: the
 * rest is discarded (by Node, after the response). So a client that reads only after sending everything also gets the
 * response, and the connection stays usable. Node ends bodies that never finish.
 *
 * @returns the bytes of the text; `undefined` if the client disconnected; why it is refused: 413 too long, 415
 *   compressed, 400 not UTF-8, 503 not enough memory
 */
export function readBody(
  request: IncomingMessage,
  connections: Pick<Connections, 'take'>,
): Promise<Buffer | BodyRefusal | undefined> {
  return new Promise((resolve) => {
    const { 'content-encoding': encoding, 'content-length': announced = '0' } = request.headers
    if (encoding && encoding.toLowerCase() !== 'identity') return resolve(compressed())
    if (Number(announced) > MAX_BODY_BYTES) return resolve(tooLong())
    const chunks: Buffer[] = []
    let length = 0
    const take = (chunk: Buffer) => {
      length += chunk.length
      const hasRoom = connections.take(request, chunk.length * HEAP_BYTES_A_BYTE)
      if (length <= MAX_BODY_BYTES && hasRoom) {
        chunks.push(chunk)
      } else {
        request.off('data', take)
        chunks.length = 0
        resolve(hasRoom ? tooLong() : noRoom())
      }
    }
    request.on('data', take)
    request.on('end', () => {
      const bytes = joined(chunks)
      resolve(isUtf8(bytes) ? bytes : notUtf8())
    })
    request.on('close', () => resolve(undefined))
  })
}

function joined(chunks: Buffer[]): Buffer {
  const [only, more] = chunks
  return only && !more ? only : Buffer.concat(chunks)
}

function tooLong(): BodyRefusal {
  const message = `A request body may have at most ${MAX_BODY_BYTES} bytes; send less at a time.`
  return new BodyRefusal(413, 'REQUEST_ENTITY_TOO_LARGE', message, { limit: MAX_BODY_BYTES })
}

function noRoom(): BodyRefusal {
  const { code, message, details } = tooBusy()
  return new BodyRefusal(503, code, message, details)
}

function compressed(): BodyRefusal {
  return new BodyRefusal(415, 'BAD_REQUEST', 'Send the body uncompressed, without content-encoding.')
}

/** Decoding would replace invalid bytes with U+FFFD, and so make two names equal. */
function notUtf8(): BodyRefusal {
  return new BodyRefusal(400, 'BAD_REQUEST', 'The body is not valid UTF-8.')
}
