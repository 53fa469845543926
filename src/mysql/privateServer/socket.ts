import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SocketFolder {
  socketPath: string
  removeSocketFolder(): Promise<void>
}

const SOCKET = 'server.sock'
/** Maximum length of a socket's path on Linux, in bytes, without its final zero byte. */
const LONGEST_SOCKET_PATH = 107

/**
 * A socket in a folder that only this user can enter, as anyone can connect to the socket itself. The folder is in the
 * directory, or under a shorter path if that is too long.
 */
export async function makeSocketFolder(directory: string): Promise<SocketFolder> {
  const near = join(directory, 'run')
  if (Buffer.byteLength(join(near, SOCKET)) <= LONGEST_SOCKET_PATH) {
    await mkdir(near, { recursive: true })
    await chmod(near, 0o700)
    return { socketPath: join(near, SOCKET), removeSocketFolder: async () => undefined }
  }
  const folder = await mkdtemp(join(tmpdir(), 'nth-'))
  return {
    socketPath: join(folder, SOCKET),
    removeSocketFolder: () => rm(folder, { recursive: true, force: true }),
  }
}
