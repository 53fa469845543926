import { access, statfs } from 'node:fs/promises'

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

/** Disk space for a new server: 110 MB (MariaDB 10.11) to 190 MB (MySQL 9.7), and room to grow. */
const NEW_SERVER_MB = 256

/** A server's start error. If the file system is nearly full, its message begins with that. */
export async function withFreeSpace(error: unknown, directory: string): Promise<unknown> {
  const space = await statfs(directory).catch(() => undefined)
  if (!space || !(error instanceof Error)) return error
  const freeMb = Math.floor((space.bavail * space.bsize) / 1e6)
  if (freeMb >= NEW_SERVER_MB) return error
  const text = `The file system of ${directory} is nearly full: ${freeMb} MB are free; a new database needs up to ${NEW_SERVER_MB} MB. ${error.message}`
  return new Error(text, { cause: error })
}
