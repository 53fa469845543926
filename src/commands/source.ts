import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Placed } from '../rules/entries.ts'
import { csvEntries, headerIn, jsonlEntries, type LineFault, linesOf } from './formats.ts'

/** What is imported. It is read twice: to be checked, then to be applied. */
export interface Source {
  /** The instant whose state it shows, if it is an export in JSON Lines. */
  at: Date | undefined
  /** The highest revision, if that is later. */
  revision: number | undefined
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

const CHUNK = 2 ** 18
/** What shows the format of a file. */
const HEAD = 1024

/** Opens a file, or the standard input for `-`. JSON Lines begin with a brace; all else is CSV. */
export async function openFile(path: string, namespace: string): Promise<Source> {
  const handle = path === '-' ? await spooled(process.stdin) : await openRegular(path)
  const { size, mtimeMs } = await handle.stat()
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(HEAD), position: 0 })
  const head = buffer.subarray(0, bytesRead)
  const fault = encodingFault(head)
  const isJson = /^(\xef\xbb\xbf)?\s*\{/.test(head.toString('latin1'))
  let position = 0

  async function* chunks(): AsyncGenerator<Buffer> {
    if (fault) throw new Error(fault)
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

  const { at, revision } = headerIn(head.toString().split('\n', 1).join()) ?? {}
  return {
    at,
    revision,
    parts: () => (isJson ? jsonlEntries(linesOf(chunks())) : csvEntries(linesOf(chunks()), namespace)),
    fraction: () => (size > 0 ? position / size : 1),
    close: () => handle.close(),
  }
}

/** Why a file can't be text in UTF-8, and what to do. */
function encodingFault(head: Buffer): string | undefined {
  const start = head.subarray(0, 4)
  if (start.toString('hex').startsWith('1f8b'))
    return 'The file is compressed. Import its content, for example with gunzip -c file | nth import -.'
  if (!/^(fffe|feff)/.test(start.toString('hex')) && !start.includes(0)) return undefined
  return 'The file is UTF-16, or not a text. Save it as UTF-8, or convert it, for example with iconv -f utf-16 -t utf-8.'
}

/** Opens a file; what can be read only once, such as a pipe, is spooled. */
async function openRegular(path: string): Promise<FileHandle> {
  const handle = await open(path)
  if ((await handle.stat()).isFile()) return handle
  return spooled(handle.createReadStream())
}

/** Keeps what can be read only once in a file that has no name, so that it ends with this process, however that ends. */
async function spooled(chunks: AsyncIterable<Buffer>): Promise<FileHandle> {
  const path = join(tmpdir(), `nth-${randomUUID()}`)
  const handle = await open(path, 'wx+', 0o600)
  try {
    await rm(path)
    await writeFile(handle, chunks)
    return handle
  } catch (error) {
    await handle.close()
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    const advice = 'Set TMPDIR to another directory, or give a file instead of a pipe'
    throw new Error(`No space left in ${tmpdir()}. ${advice}.`, { cause: error })
  }
}
