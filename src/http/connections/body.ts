import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Reserve } from './connections.ts'
import { HttpError, overloaded } from './httpError.ts'

/** Maximum request body, in bytes: enough for 1 000 names of any length. */
const MAX_BODY_BYTES = 1_000_000

/**
 * Maximum members and items in the JSON of a body, as parsing can't be interrupted: this many take up to 30 ms, and a
 * million bytes of small objects 100 (Node 20). The longest lists that the API accepts have 30 000.
 */
const MAX_VALUES = 40_000

/** Heap that a byte of JSON may need, in bytes. Measured on Node 20: 21, in a list of empty objects. */
const HEAP_BYTES_A_BYTE = 24

/**
 * Reads a whole body: JSON is parsed in one piece. An error is returned at once, and nothing of that body is kept: the
 * rest is discarded (by Node, after the response). So a client that reads only after sending everything also gets the
 * response, and the connection stays usable. Node ends bodies that never finish.
 *
 * @returns the bytes of the text; `undefined` if the client disconnected; an error: 413 too long, 415 compressed, 400
 *   not UTF-8 or too many values, 503 not enough memory
 */
export function readBody(request: IncomingMessage, reserve: Reserve) {
  return new Promise<Buffer | HttpError | undefined>((resolve) => {
    // It emits nothing more.
    if (request.destroyed) return resolve(undefined)
    const { 'content-encoding': encoding, 'content-length': announced = '0' } = request.headers
    if (encoding && encoding.toLowerCase() !== 'identity') {
      const message = 'Send the body uncompressed, without content-encoding.'
      return resolve(new HttpError(415, 'BAD_REQUEST', message))
    }
    if (Number(announced) > MAX_BODY_BYTES) return resolve(tooLong())
    const chunks: Buffer[] = []
    let length = 0
    const onData = (chunk: Buffer) => {
      length += chunk.length
      const hasMemory = reserve(request, chunk.length * HEAP_BYTES_A_BYTE)
      if (length <= MAX_BODY_BYTES && hasMemory) return void chunks.push(chunk)
      request.off('data', onData)
      chunks.length = 0
      resolve(hasMemory ? tooLong() : overloaded())
    }
    request.on('data', onData)
    request.on('end', () => {
      const bytes = Buffer.concat(chunks)
      // Decoding would replace invalid bytes with U+FFFD, and so make two names equal.
      if (!isUtf8(bytes)) resolve(new HttpError(400, 'BAD_REQUEST', 'The body is not valid UTF-8.'))
      else resolve(hasTooManyValues(bytes) ? tooManyValues() : bytes)
    })
    request.on('close', () => resolve(undefined))
  })
}

function tooLong(): HttpError {
  const message = `A request body may have at most ${MAX_BODY_BYTES} bytes; send less at a time.`
  return new HttpError(413, 'REQUEST_ENTITY_TOO_LARGE', message, { limit: MAX_BODY_BYTES })
}

/** Counts what begins a member or an item outside of texts: all commas, and the brackets before the first ones. */
function hasTooManyValues(json: Buffer): boolean {
  if (json.length <= MAX_VALUES) return false
  let values = 0
  let isInText = false
  for (let index = 0; index < json.length; index += 1) {
    const byte = json[index]
    if (byte === QUOTE) isInText = !isInText
    else if (isInText) index += byte === BACKSLASH ? 1 : 0
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values += 1
  }
  return values > MAX_VALUES
}

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = Buffer.from('"\\,[{')

function tooManyValues(): HttpError {
  const message = `A request may have at most ${MAX_VALUES} values in its JSON; send fewer at a time.`
  return new HttpError(400, 'BAD_USER_INPUT', message, { limit: MAX_VALUES })
}
