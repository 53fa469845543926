/** An answer of HTTP/1.1, its body as Latin-1. */
export interface Answer {
  status: number
  body: string
}

/**
 * Reads an answer from all that has come since its request; undefined if it has not come whole.
 *
 * @throws {Error} if it isn't one that this generator understands
 */
export function readAnswer(text: string): Answer | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const status = Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length))
  const bodyStart = headEnd + 4
  const length = LENGTH.exec(text)?.[1]
  const body = length === undefined ? unchunked(text, bodyStart) : lengthy(text, bodyStart, Number(length))
  return body === undefined ? undefined : { status, body }
}

const LENGTH = /\r\ncontent-length: *(\d+)/i
const CHUNKED = /\r\ntransfer-encoding: *chunked/i

function lengthy(text: string, start: number, length: number): string | undefined {
  if (text.length > start + length) throw new Error(`More came than one answer: ${text}`)
  return text.length < start + length ? undefined : text.slice(start)
}

function unchunked(text: string, start: number): string | undefined {
  if (!CHUNKED.test(text)) throw new Error(`An answer of unknown length came: ${text}`)
  let body = ''
  let at = start
  while (true) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    const chunkEnd = lineEnd + 2 + size
    if (text.length < chunkEnd + 2) return undefined
    if (size === 0) return body
    body += text.slice(lineEnd + 2, chunkEnd)
    at = chunkEnd + 2
  }
}
