import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SOCKET = 'server.sock'
/** Maximum length of a socket's path on Linux, in bytes, without its final zero byte. */
const LONGEST_SOCKET_PATH = 107

/** A socket, to which anyone can connect, in a folder of this user only: in `directory`, or under a shorter path. */
export async function makeSocketFolder(directory: string) {
  const near = join(directory, 'run')
  const socketPath = join(near, SOCKET)
  if (Buffer.byteLength(socketPath) <= LONGEST_SOCKET_PATH) {
    await mkdir(near, { recursive: true })
    await chmod(near, 0o700)
    return { socketPath, removeSocketFolder: async () => undefined }
  }
  const folder = await mkdtemp(join(tmpdir(), 'nth-'))
  const removeSocketFolder = () => rm(folder, { recursive: true, force: true })
  return { socketPath: join(folder, SOCKET), removeSocketFolder }
}
