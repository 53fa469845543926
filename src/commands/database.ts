import type { Target } from '../mysql/connections/target.ts'
import { holdDirectory } from '../mysql/privateServer/dataDirectory.ts'
import { openPrivateDatabase, PRIVATE_DATABASE } from '../mysql/privateServer/open.ts'
import { findRunningServer } from '../mysql/privateServer/running.ts'
import { migrate } from '../mysql/startup/migrate.ts'
import { untilReady } from '../mysql/startup/ready.ts'
import { readDatabaseConfig } from '../process/config.ts'

const signal = new AbortController().signal
const say = (message: string) => console.error(message)

/**
 * Runs work on the configured database: of a running Nth, or else started and stopped here.
 *
 * @param isPrepared whether it is waited for and migrated first
 */
export async function withDatabase(
  work: (target: Target) => Promise<void>,
  { isPrepared = true }: { isPrepared?: boolean } = {},
): Promise<void> {
  const { target, dataDir: directory, databaseMemoryMb: memoryMb, path } = readDatabaseConfig()
  const running = target ?? (await findRunningServer(directory, PRIVATE_DATABASE))
  if (running) {
    if (isPrepared) {
      await untilReady(running, { say, signal })
      await migrate(running)
    }
    return work(running)
  }
  const release = await holdDirectory(directory)
  try {
    const server = await openPrivateDatabase({ directory, memoryMb, path, say, signal })
    try {
      if (isPrepared) await migrate(server.target)
      await work(server.target)
    } finally {
      await server.close()
    }
  } finally {
    await release()
  }
}
