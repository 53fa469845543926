import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { NthError } from '../core/errors.ts'
import type { Connections } from './connections.ts'
import { tooBusy } from './refuse.ts'

/** The largest request body, in bytes: 1 000 names of any length fit in. */
export const MAX_BODY_BYTES = 1_000_000

/** What a byte of JSON may take. Measured on Node 20: 21, in a list of empty objects. */
const HEAP_BYTES_A_BYTE = 24

/** Why a body isn't taken, and the status that says so. */
export class BodyRefusal extends NthError {
  readonly status: number

  constructor(status: number, ...error: ConstructorParameters<typeof NthError>) {
    super(...error)
    this.status = status
  }
}

/**
 * Reads a body whole; JSON is parsed in one piece. One that is refused is refused at once, and nothing of it is
 * kept: what still arrives is thrown away (by Node, once it is answered), so that a caller who reads only after
 * having sent everything gets its answer, too, and the connection goes on. Node ends those that never finish.
 *
 * @returns the bytes of the text; `undefined` if the caller went away; why it isn't taken: 413 too long, 415
 *   compressed, 400 not UTF-8, 503 no room
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
  const message = `A request body may have at most ${MAX_BODY_BYTES} bytes; ask for less at a time.`
  return new BodyRefusal(413, 'REQUEST_ENTITY_TOO_LARGE', message, { limit: MAX_BODY_BYTES })
}

function noRoom(): BodyRefusal {
  const { code, message, details } = tooBusy()
  return new BodyRefusal(503, code, message, details)
}

function compressed(): BodyRefusal {
  return new BodyRefusal(415, 'BAD_REQUEST', 'Send the body as it is, without content-encoding.')
}

/** Decoding would put U+FFFD for whatever is wrong, and make one name of two. */
function notUtf8(): BodyRefusal {
  return new BodyRefusal(400, 'BAD_REQUEST', 'The body is not UTF-8.')
}
