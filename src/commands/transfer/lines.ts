/** Maximum length of a line, in bytes: many times that of a counter with a thousand totals. */
const MAX_LINE = 16 * 2 ** 20
const NEWLINE = 0x0a

/** The text of a stream of bytes. A byte order mark at its beginning is skipped. */
export async function* textOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true })
  yield decoder.decode()
}

/**
 * Lines of a stream of bytes, with their numbers from 1. Only a newline ends a line: names may contain other separators
 * that `node:readline` knows.
 *
 * @throws {Error} naming the line, if it is too long or not UTF-8
 */
export async function* linesOf(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<{ line: number; text: string }> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let line = 0
  let parts: Buffer[] = []
  let length = 0

  function take(): { line: number; text: string } {
    line++
    const whole = parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)
    parts = []
    length = 0
    try {
      const text = decoder.decode(whole)
      return { line, text: line === 1 && text.startsWith('\ufeff') ? text.slice(1) : text }
    } catch {
      throw new Error(`Line ${line} is not UTF-8.`)
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
    if (length > MAX_LINE) throw new Error(`Line ${line + 1} is longer than ${MAX_LINE} bytes.`)
  }
  if (parts.length > 0) yield take()
}
