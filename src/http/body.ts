import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, Server } from 'node:http'
import { Queue, type QueuePlace } from '../rules/queue.ts'
import type { Connections } from './connections.ts'
import { HttpError, overloaded } from './errors.ts'

/** Maximum request body, in bytes: enough for 1 000 names of any length. */
export const MAX_BODY_BYTES = 1_000_000

/** Maximum request body of callers who may do nothing, in bytes: enough for a client to find that out. */
export const MAX_UNAUTHORIZED_BYTES = 16_000

/**
 * Maximum members and items in the JSON of a body, as parsing can't be interrupted: this many take up to 30 ms, and a
 * million bytes of small objects 100 (Node 20). The longest lists that the API accepts have 30 000.
 */
export const MAX_VALUES = 40_000

/** Heap that a byte of JSON may need, in bytes. Measured on Node 20: 21, in a list of empty objects. */
export const HEAP_BYTES_A_BYTE = 24

/** Memory of a part of a body that has not arrived as a whole, in bytes, besides its text. */
export const BYTES_A_CHUNK = 250

/** What a body must bring at least on average, in bytes per second, once its grace is over. */
export const MIN_BYTES_A_SECOND = 1000

/** A charset that a body may not have: another than UTF-8 and its subset ASCII. */
const OTHER_CHARSET = /;\s*charset\s*=(?!\s*"?(?:utf-?8|us-ascii)"?\s*(?:;|$))/i

/** A body that has not arrived as a whole. */
interface Arriving {
  readonly since: number
  readonly isAuthorized: boolean
  length: number
  /** Whether it was too slow at the last check. One alone may follow a pause of this process. */
  wasSlow: boolean
  fail(error: HttpError): void
}

interface BodyOptions extends Pick<Connections, 'reserve'> {
  /** How long a body may take to arrive without being slow, in milliseconds. */
  graceMs: number
  /** How long the body of a caller who may do nothing may take to arrive, in milliseconds. */
  unauthorizedMs: number
}

/**
 * Reads the bodies of a server's requests. What has arrived of a body is charged as it is; what its JSON may need, once
 * it is complete.
 */
export function createBodyReader(server: Server, { reserve, graceMs, unauthorizedMs }: BodyOptions) {
  const arriving = new Queue<Arriving>()

  server.on('listening', () => {
    const timer = setInterval(failSlowBodies, Math.min(graceMs, unauthorizedMs) / 5).unref()
    server.on('close', () => clearInterval(timer))
  })

  function failSlowBodies(): void {
    const now = performance.now()
    for (const body of arriving) {
      const passedMs = now - body.since
      const isSlow = body.isAuthorized
        ? passedMs > graceMs && body.length < (passedMs / 1000) * MIN_BYTES_A_SECOND
        : passedMs > unauthorizedMs
      const message = 'The body arrives too slowly; send the request again.'
      if (isSlow && body.wasSlow) body.fail(new HttpError(408, 'BAD_REQUEST', message))
      body.wasSlow = isSlow
    }
  }

  /**
   * Reads a whole body: JSON is parsed in one piece. An error is returned at once, and nothing of that body is kept: the
   * rest is discarded (by Node, after the response). So a client that reads only after sending everything also gets the
   * response, and the connection stays usable. Node ends bodies that never finish.
   *
   * @param isAuthorized whether the caller may do anything at all
   * @returns the bytes of the text; `undefined` if the client disconnected; an error: 408 too slow, 413 too long, 415
   *   compressed or of another charset, 400 not UTF-8 or too many values, 503 not enough memory
   */
  return function readBody(request: IncomingMessage, isAuthorized: boolean) {
    return new Promise<Buffer | HttpError | undefined>((resolve) => {
      // A destroyed request emits nothing more.
      if (request.destroyed) return resolve(undefined)
      const maxBytes = isAuthorized ? MAX_BODY_BYTES : MAX_UNAUTHORIZED_BYTES
      const {
        'content-encoding': encoding,
        'content-length': announced = '0',
        'content-type': type = '',
      } = request.headers
      if (encoding && encoding.toLowerCase() !== 'identity') {
        const message = 'Send the body uncompressed, without content-encoding.'
        return resolve(new HttpError(415, 'BAD_REQUEST', message))
      }
      if (OTHER_CHARSET.test(type))
        return resolve(new HttpError(415, 'BAD_REQUEST', 'Send the body in UTF-8, without another charset.'))
      const announcedBytes = Number(announced)
      if (announcedBytes > maxBytes) return resolve(tooLong(maxBytes))
      // The request keeps its listeners, and with them the chunks, as long as it is answered.
      let chunks: Buffer[] = []
      let charged = 0
      const body: Arriving = { since: performance.now(), isAuthorized, length: 0, wasSlow: false, fail }
      let place: QueuePlace<Arriving> | undefined = arriving.add(body)

      function settle(result?: Buffer | HttpError): void {
        if (place) arriving.remove(place)
        place = undefined
        chunks = []
        resolve(result)
      }

      function fail(error: HttpError): void {
        request.off('data', onData)
        settle(error)
      }

      function onData(chunk: Buffer) {
        body.length += chunk.length
        chunks.push(chunk)
        if (body.length > maxBytes) return fail(tooLong(maxBytes))
        // Most bodies arrive in one part.
        if (chunk.length === announcedBytes) return
        const bytes = chunk.length + BYTES_A_CHUNK
        charged += bytes
        if (!reserve(request, bytes, body.length)) fail(overloaded())
      }

      function onEnd() {
        if (!place) return
        const [first] = chunks
        const bytes = first && chunks.length === 1 ? first : Buffer.concat(chunks)
        const neededBytes = bytes.length * HEAP_BYTES_A_BYTE - charged
        if (!reserve(request, neededBytes, bytes.length)) return settle(overloaded())
        // Decoding would replace invalid bytes with U+FFFD, and so make two names equal.
        if (!isUtf8(bytes)) return settle(new HttpError(400, 'BAD_REQUEST', 'The body is not valid UTF-8.'))
        if (bytes.length > MAX_VALUES && hasTooManyValues(bytes)) return settle(tooManyValues())
        settle(bytes)
      }

      request.on('data', onData)
      request.on('end', onEnd)
      request.on('close', settle)
    })
  }
}

export type ReadBody = ReturnType<typeof createBodyReader>

function tooLong(limit: number): HttpError {
  const reason =
    limit === MAX_BODY_BYTES
      ? `A request body may have at most ${limit} bytes; send less at a time.`
      : `A caller without rights may send a body of at most ${limit} bytes. Send an API key.`
  return new HttpError(413, 'REQUEST_ENTITY_TOO_LARGE', reason, { limit })
}

/** Counts what begins a member or an item outside of texts: all commas, and the brackets before the first ones. */
export function hasTooManyValues(json: Buffer): boolean {
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
