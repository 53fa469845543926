import { roundedNumber } from '../../../core/jsonNumbers.ts'
import { FORMAT_VERSION, type Placed } from '../../../core/transfer/entries.ts'
import { end, entryIn, header } from './jsonl.ts'

/** Maximum characters of a number in a message. */
const MAX_SHOWN = 40

/**
 * The entries of an export in JSON Lines.
 *
 * @throws {Error} naming the line that is wrong; at the end if the last one is missing
 */
export async function* jsonlEntries(
  lines: AsyncIterable<{ line: number; text: string }>,
): AsyncGenerator<Placed> {
  let isBegun = false
  let isEnded = false
  let count = 0
  for await (const { line, text } of lines) {
    if (text.trim() === '') continue
    if (isEnded) throw new Error(`Line ${line} follows the last line of an export.`)
    const fields = parsed(text, line)
    if (!isBegun) {
      headerIn(fields)
      isBegun = true
    } else if (end.safeParse(fields).success) {
      if (end.parse(fields).lines !== count)
        throw new Error(`Line ${line}: lines are missing, or there are too many: ${count} before this one.`)
      isEnded = true
    } else {
      count++
      yield { line, entry: entryAt(fields, line) }
    }
  }
  if (!isBegun) throw new Error('The file is empty.')
  if (!isEnded) throw new Error('The file is incomplete: its last line is missing. What it has was imported.')
}

/**
 * The instant whose state an export in JSON Lines shows.
 *
 * @throws {Error} if the first line is not that of an export
 */
export async function instantOf(lines: AsyncIterable<{ line: number; text: string }>): Promise<Date> {
  for await (const { line, text } of lines) return headerIn(parsed(text, line)).at
  throw new Error('The file is empty.')
}

function parsed(text: string, line: number): unknown {
  const rounded = roundedNumber(text)
  if (rounded !== undefined)
    throw new Error(`Line ${line}: ${rounded.slice(0, MAX_SHOWN)} is not an integer.`)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`Line ${line} is not JSON.`, { cause })
  }
}

function headerIn(fields: unknown) {
  const { data } = header.safeParse(fields)
  if (!data) throw new Error('Line 1 is not that of an export of Nth.')
  if (data.formatVersion > FORMAT_VERSION)
    throw new Error(
      `Line 1: this file has format ${data.formatVersion}, and this version of Nth reads up to ${FORMAT_VERSION}. Use a later one.`,
    )
  return data
}

function entryAt(fields: unknown, line: number) {
  try {
    return entryIn(fields)
  } catch (error) {
    throw new Error(`Line ${line}: ${(error as Error).message}.`, { cause: error })
  }
}
