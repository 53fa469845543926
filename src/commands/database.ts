import { userInfo } from 'node:os'
import { readDatabaseConfig } from '../config.ts'
import { holdDirectory } from '../mysql/dataDirectory.ts'
import { Hosts } from '../mysql/hosts.ts'
import { Database } from '../mysql/pool.ts'
import { findRunningDatabase, openPrivateDatabase } from '../mysql/privateServer.ts'
import { untilReady } from '../mysql/ready.ts'
import type { Target, Targets } from '../mysql/settings.ts'
import { type Notices, openLog } from '../operations/log.ts'
import { type Audited, auditMeasure } from '../operations/measures.ts'
import { migrate } from '../repository/migrate.ts'

/** The user of the operating system who runs the command. */
export const USER = userName()

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run as a user without a name.
    return `user ${process.getuid?.()}`
  }
}

export const signal = new AbortController().signal
/** Notices of a command: lines on the standard error. */
export const notices: Notices = { info: console.error, warn: console.error, fault: console.error }

let isLogOpen = false

/** Logs a change as a server does, on the standard error. */
export function audit(made: Omit<Audited, 'by'>): void {
  if (!isLogOpen) openLog('info')
  isLogOpen = true
  auditMeasure.publish({ ...made, by: USER })
}

/** Runs work on the configured database, which is waited for and migrated first: see `withHosts`. */
export async function withDatabase(work: (target: Target) => Promise<void>): Promise<void> {
  await withHosts(async (hosts) => {
    const target = await untilReady(hosts, { notices, signal })
    await migrate(target)
    await work(target)
  })
}

/** Runs the work of a command that sends few statements. */
export async function withPool(work: (database: Database) => Promise<void>): Promise<void> {
  await withDatabase(async (target) => {
    const database = new Database(new Hosts([target]), { timeLimitMs: 10_000, maxPending: 10 })
    await work(database).finally(database.close)
  })
}

/** Runs work on the servers of the configured database: of a running Nth, or else started and stopped here. */
export async function withHosts(work: (hosts: Hosts) => Promise<void>): Promise<void> {
  const { targets, dataDir: directory, databaseMemoryMb: memoryMb, path } = readDatabaseConfig()
  const privateTarget = targets ? undefined : await findRunningDatabase(directory)
  const running = targets ?? (privateTarget && ([privateTarget] as const))
  if (running) return workOn(running)
  const release = await holdDirectory(directory)
  try {
    const server = await openPrivateDatabase({ directory, memoryMb, path, notices, signal })
    await workOn([server.target]).finally(server.close)
  } finally {
    await release()
  }

  async function workOn(targets: Targets): Promise<void> {
    const hosts = new Hosts(targets, notices)
    await work(hosts).finally(() => hosts.close())
  }
}
