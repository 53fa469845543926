import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Placed } from '../../core/transfer/entries.ts'
import type { Target } from '../../mysql/connections/target.ts'
import { foreignRows } from '../../mysql/transfer/import/foreign.ts'
import { csvRows } from './csv/csv.ts'
import { csvEntries, entryOfFields } from './csv/entries.ts'
import { jsonlEntries } from './jsonl/entries.ts'
import { linesOf, textOf } from './lines.ts'

/** What is imported. */
export interface Source {
  entries: AsyncIterable<Placed>
  /** How much of it was read, from 0 to 1; undefined: not known. */
  fraction(): number | undefined
}

const CHUNK = 2 ** 18

/** Opens a file, or the standard input for `-`. JSON Lines begin with a brace; all else is CSV. */
export async function openFile(path: string, namespace: string): Promise<Source> {
  const isStdin = path === '-'
  const size = isStdin ? 0 : (await stat(path)).size
  const stream = isStdin ? process.stdin : createReadStream(path, { highWaterMark: CHUNK })
  let read = 0

  async function* chunks(): AsyncGenerator<Buffer> {
    // Without an encoding, streams of bytes yield buffers.
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      read += chunk.length
      yield chunk
    }
  }

  async function* entries(): AsyncGenerator<Placed> {
    const bytes = chunks()
    const { first, all } = await peeked(bytes)
    const isJson = /^(\xef\xbb\xbf)?\s*\{/.test(first.toString('latin1'))
    yield* isJson ? jsonlEntries(linesOf(all)) : csvEntries(csvRows(textOf(all)), namespace)
  }
  return { entries: entries(), fraction: () => (size > 0 ? read / size : undefined) }
}

/** The beginning of a stream, and all of it. */
async function peeked(bytes: AsyncGenerator<Buffer>) {
  const { value: first = Buffer.alloc(0) } = await bytes.next()
  async function* all(): AsyncGenerator<Buffer> {
    yield first
    yield* bytes
  }
  return { first, all: all() }
}

/** Rows of a select, with the columns of a CSV file. Their numbers count as lines. */
export function openForeign(target: Target, statement: string, namespace: string): Source {
  async function* entries(): AsyncGenerator<Placed> {
    let line = 0
    for await (const row of foreignRows(target, statement)) {
      line++
      for (const column of ['name', 'value'])
        if (row[column] == null) throw new Error(`Row ${line}: ${missing(row, column)}.`)
      const fields = Object.entries(row).filter(([, value]) => value !== null)
      yield { line, entry: entryOfFields({ namespace, ...Object.fromEntries(fields) }, `Row ${line}`) }
    }
  }
  return { entries: entries(), fraction: () => undefined }
}

function missing(row: Record<string, unknown>, column: string): string {
  return column in row
    ? `${column} is null`
    : `the column ${column} is missing; name columns as in: select title as name, copies as value from booksales`
}
