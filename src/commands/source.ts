import { hash, randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyText } from '../rules/counter.ts'
import type { Entry, Placed } from '../rules/entries.ts'
import { joinNames } from '../rules/names.ts'
import { sequenceGroupKeyText } from '../rules/sequence.ts'
import { createProgress } from './files.ts'
import { csvEntries, headerIn, jsonlEntries, type LineFault, linesOf } from './formats.ts'

/** A file to import or restore. It is read twice: to be checked, then to be applied. */
export interface Source {
  format: 'csv' | 'jsonl'
  /** The first line, if it is an export in JSON Lines. */
  header: ReturnType<typeof headerIn>
  /**
   * What it has, from the beginning.
   *
   * @throws {Error} where it can't be read further, or has changed since it was opened
   */
  parts(): AsyncGenerator<Placed | LineFault>
  /** How much was read of it since `parts` was called, from 0 to 1. */
  fraction(): number
  close(): Promise<void>
}

interface SourceOptions {
  /** Namespace of the lines of a CSV that name none. */
  namespace?: string
  /** Maximum size of what can be read only once, such as a pipe, in MiB. */
  maxSizeMib?: number
}

const CHUNK = 2 ** 18
/** What shows the format of a file. */
const HEAD = 1024
const MIB = 2 ** 20

/**
 * Opens a file, or the standard input for `-`. JSON Lines begin with a brace; all else is CSV.
 *
 * @throws {Error} if it can't be opened, or is no text in UTF-8
 */
export async function openFile(path: string, options: SourceOptions = {}): Promise<Source> {
  const { namespace = 'default', maxSizeMib = 0 } = options
  const handle = path === '-' ? await spooled(process.stdin, maxSizeMib) : await openPath(path, maxSizeMib)
  const { size, mtimeMs } = await handle.stat()
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(HEAD), position: 0 })
  const head = buffer.subarray(0, bytesRead)
  const isJson = /^(\xef\xbb\xbf)?\s*\{/.test(head.toString('latin1'))
  let position = 0

  async function* chunks(): AsyncGenerator<Buffer> {
    assertText(head)
    position = 0
    while (true) {
      const { bytesRead, buffer } = await handle.read({ buffer: Buffer.allocUnsafe(CHUNK), position })
      const present = await handle.stat()
      if (present.size !== size || present.mtimeMs !== mtimeMs)
        throw new Error('The file changed while it was read.')
      if (bytesRead === 0) return
      position += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }

  return {
    format: isJson ? 'jsonl' : 'csv',
    header: headerIn(head.toString().split('\n', 1).join()),
    parts: () => (isJson ? jsonlEntries(linesOf(chunks())) : csvEntries(linesOf(chunks()), namespace)),
    fraction: () => (size > 0 ? position / size : 1),
    close: () => handle.close(),
  }
}

/** @throws {Error} if a file that begins so can't be text in UTF-8, with what to do */
function assertText(head: Buffer): void {
  const start = head.subarray(0, 4)
  const digits = start.toString('hex')
  if (digits.startsWith('1f8b'))
    throw new Error(
      'The file is compressed. Import its content, for example with gunzip -c file | nth import -.',
    )
  if (/^(fffe|feff)/.test(digits) || start.includes(0))
    throw new Error(
      'The file is UTF-16, or not a text. Save it as UTF-8, or convert it, for example with iconv -f utf-16 -t utf-8.',
    )
}

/** Opens a file; what can be read only once, such as a pipe, is spooled. */
async function openPath(path: string, maxSizeMib: number): Promise<FileHandle> {
  const handle = await open(path).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') throw new Error(`There is no file ${path}.`, { cause })
    if (cause.code === 'EACCES') throw new Error(`This user may not read ${path}.`, { cause })
    throw cause
  })
  const stats = await handle.stat()
  if (stats.isFile()) return handle
  if (!stats.isDirectory()) return spooled(handle.createReadStream(), maxSizeMib)
  await handle.close()
  throw new Error(`${path} is a directory; give a file.`)
}

/**
 * Keeps what can be read only once in a file that has no name, so that it ends with this process, however that ends. What is
 * no text is refused at once.
 */
async function spooled(chunks: AsyncIterable<Buffer>, maxSizeMib: number): Promise<FileHandle> {
  const path = join(tmpdir(), `nth-${randomUUID()}`)
  const handle = await open(path, 'wx+', 0o600)
  let size = 0
  try {
    await rm(path)
    for await (const chunk of chunks) {
      if (size === 0) assertText(chunk)
      size += chunk.length
      if (size > maxSizeMib * MIB)
        throw new Error(`The input is larger than ${maxSizeMib} MiB. Give a file, or a larger --max-size.`)
      await handle.appendFile(chunk)
    }
    return handle
  } catch (error) {
    await handle.close()
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    const advice = 'Set TMPDIR to another directory, or give a file instead of a pipe'
    throw new Error(`No space left in ${tmpdir()}. ${advice}.`, { cause: error })
  }
}

/** Faults that are listed; the others are only counted. */
const MAX_LISTED = 20

/**
 * Reads a source whole, before any of it is applied.
 *
 * @throws {Error} that lists what is wrong with it
 */
export async function checkAll(source: Source): Promise<void> {
  const progress = createProgress(process.stderr)
  const lines = new LinesByKey()
  const listed: string[] = []
  let [faults, parts] = [0, 0]

  /** Why a line is wrong after those before it; undefined: it is not. */
  function faultOf({ line, entry }: Placed): string | undefined {
    const { type } = entry
    // Such entries continue what another line has.
    if (type === 'counterHistory' || type === 'sequenceGroupPeriods' || 'subjects' in entry) return undefined
    // A CSV has a line for each period.
    const period = source.format === 'csv' && type === 'sequenceGroup' ? entry.latest?.period : ''
    const before = lines.add(`${type} ${keyOf(entry)} ${period}`, line)
    return before === 0 ? undefined : `${described(entry)} is also in line ${before}`
  }

  try {
    for await (const part of source.parts()) {
      const fault = 'fault' in part ? part.fault : faultOf(part)
      if (fault && ++faults <= MAX_LISTED) listed.push(`Line ${part.line}: ${fault}.`)
      progress.show(++parts, source.fraction())
    }
  } catch (error) {
    // The file can't be read further.
    faults++
    listed.push((error as Error).message)
  } finally {
    progress.clear()
  }
  if (faults === 0) return
  const count = faults > listed.length ? `${faults}, of which the first ${MAX_LISTED} are listed` : faults
  throw new Error([...listed, `Nothing was applied. Faults: ${count}.`].join('\n'))
}

/** The lines of keys, by their hashes, with open addressing: a Map of a million took 200 MB instead of 25. */
class LinesByKey {
  #hashes = new BigUint64Array(2 ** 16)
  /** 0: free. */
  #lines = new Uint32Array(2 ** 16)
  #size = 0

  /** Returns the line of a key that was added before. 0: there is none, and it is added. */
  add(key: string, line: number): number {
    if (2 * this.#size > this.#lines.length) this.#grow()
    return this.#place(hash('sha256', key, 'buffer').readBigUInt64LE(), line)
  }

  #place(hashed: bigint, line: number): number {
    const last = this.#lines.length - 1
    for (let at = Number(hashed & BigInt(last)); ; at = (at + 1) & last) {
      const present = this.#lines[at] ?? 0
      if (present > 0 && this.#hashes[at] === hashed) return present
      if (present > 0) continue
      this.#hashes[at] = hashed
      this.#lines[at] = line
      this.#size++
      return 0
    }
  }

  #grow(): void {
    const [hashes, lines] = [this.#hashes, this.#lines]
    this.#hashes = new BigUint64Array(2 * lines.length)
    this.#lines = new Uint32Array(2 * lines.length)
    this.#size = 0
    for (const [at, line] of lines.entries()) if (line > 0) this.#place(hashes[at] ?? 0n, line)
  }
}

/** The entries of a source that was checked. */
export async function* placedIn(source: Source): AsyncGenerator<Placed> {
  for await (const part of source.parts()) {
    if ('fault' in part) throw new Error(`Line ${part.line} has changed since it was checked.`)
    yield part
  }
}

/** What identifies an entry among entries of its type; several lines may continue the same one. */
function keyOf(entry: Entry): string {
  // The parts of a hold have the same token.
  if (entry.type === 'hold') return joinNames(entry.token, keyText(entry))
  if ('token' in entry) return entry.token
  if ('hash' in entry) return entry.hash
  if (entry.type === 'trustedDocument') return entry.id
  if ('group' in entry) return sequenceGroupKeyText(entry)
  return 'namespace' in entry ? keyText(entry) : entry.name
}

/** An entry as part of a sentence. */
export function described(entry: Entry): string {
  const quoted = JSON.stringify
  if (entry.type === 'trustedDocument') return `trusted document ${entry.id}`
  if (entry.type === 'apiKey') return `API key ${entry.prefix}…`
  if (entry.type === 'idempotencyKey') return `idempotency key of hash ${entry.hash}`
  if (entry.type === 'namespace') return `namespace ${quoted(entry.name)}`
  if (entry.type === 'reservation') return `reservation of ${quoted(entry.formatted)}`
  if (entry.type === 'hold') return `hold ${entry.token}`
  const place = `in ${quoted(entry.namespace)}`
  if ('group' in entry) return `group ${quoted(entry.group)} of sequence ${quoted(entry.sequence)} ${place}`
  return `${entry.type === 'sequence' ? 'sequence' : 'counter'} ${quoted(entry.name)} ${place}`
}
