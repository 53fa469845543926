import { createWriteStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/** Length of the texts that are written at once, in characters. */
const CHUNK = 2 ** 16

/**
 * Writes texts to a file, which appears whole or not at all; or to the standard output. False: its reader has ended
 * early, such as `head`.
 */
export async function writeOutput(path: string | undefined, texts: AsyncIterable<string>): Promise<boolean> {
  const source = Readable.from(chunksOf(texts))
  if (path === undefined) return writeToStdout(source)
  const temporary = `${path}.${process.pid}.tmp`
  try {
    await pipeline(source, createWriteStream(temporary, { flags: 'wx' }))
    const file = await open(temporary, 'r+')
    await file.sync().finally(() => file.close())
    await rename(temporary, path)
    return true
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

async function writeToStdout(source: Readable): Promise<boolean> {
  try {
    await pipeline(source, process.stdout, { end: false })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return false
    throw error
  }
}

async function* chunksOf(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let chunk = ''
  for await (const text of texts) {
    chunk += text
    if (chunk.length < CHUNK) continue
    yield chunk
    chunk = ''
  }
  if (chunk !== '') yield chunk
}
