/** A line of a file, from 1. */
export interface TextLine {
  line: number
  text: string
}

/** What is wrong with a line, as the end of a sentence that begins with its number. */
export interface LineFault {
  line: number
  fault: string
}

/** Maximum length of a line, in bytes: many times that of a counter with a thousand totals. */
const MAX_LINE = 16 * 2 ** 20
const NEWLINE = 0x0a

/**
 * Lines of a stream of bytes, without the byte order mark at its beginning. Only a newline ends a line: names may contain
 * other separators that `node:readline` knows.
 *
 * @throws {Error} naming the line that is too long
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<TextLine | LineFault> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let line = 0
  let parts: Buffer[] = []
  let length = 0

  function take(): TextLine | LineFault {
    line++
    const whole = parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)
    parts = []
    length = 0
    try {
      const text = decoder.decode(whole)
      return { line, text: line === 1 && text.startsWith('\ufeff') ? text.slice(1) : text }
    } catch {
      return {
        line,
        fault: 'it is not UTF-8; save the file as UTF-8, or convert it, as with iconv -f latin1 -t utf-8',
      }
    }
  }

  for await (const chunk of chunks) {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      parts.push(chunk.subarray(from, at))
      yield take()
      from = at + 1
    }
    if (from < chunk.length) parts.push(chunk.subarray(from))
    length += chunk.length - from
    if (length > MAX_LINE) throw new Error(`Line ${line + 1}: it is longer than ${MAX_LINE} bytes.`)
  }
  if (parts.length > 0) yield take()
}
