import { fileURLToPath } from 'node:url'
import { built, ROOT } from './built.ts'

/** Opens a private database in a directory. Its server's program is shared with `npm start`, so it is fetched once. */
export async function openDatabase(
  directory: string,
  { say, signal }: { say: (message: string) => void; signal: AbortSignal },
) {
  const { openPrivateDatabase } =
    await built<typeof import('../src/mysql/privateServer.ts')>('mysql/privateServer.js')
  const programs = fileURLToPath(new URL('.nth/server', ROOT))
  const notices = { info: say, warn: say, fault: console.error }
  return openPrivateDatabase({ directory, programs, path: process.env.PATH ?? '', notices, signal })
}
