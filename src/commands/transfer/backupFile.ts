import { createReadStream } from 'node:fs'
import { instantOf } from './jsonl.ts'
import { linesOf } from './lines.ts'

/** The file in the directory of a backup. */
export const BACKUP_FILE = 'nth.jsonl'

/** The instant whose state a backup has. */
export async function backupInstant(path: string): Promise<Date> {
  const stream = createReadStream(path)
  try {
    // Without an encoding, streams of bytes yield buffers.
    return await instantOf(linesOf(stream as AsyncIterable<Buffer>))
  } catch (error) {
    throw new Error(`${path}: ${(error as Error).message}`, { cause: error })
  } finally {
    stream.destroy()
  }
}
