import { statfs } from 'node:fs/promises'

/** A table grows by up to 4 MB at a time. */
const ROOM_BYTES = 16 * 2 ** 20

/** Whether the disk of a data directory has room for more rows. */
export async function hasRoom(directory: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize >= ROOM_BYTES
}
