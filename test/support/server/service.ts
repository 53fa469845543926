import { onTestFinished } from 'vitest'
import { startApp } from '../../../src/app.ts'
import type { Config } from '../../../src/config.ts'
import type { Target } from '../../../src/mysql/settings.ts'
import { SILENT } from '../../../src/operations/log.ts'
import { type Client, clientOf } from '../client/client.ts'
import { freshDatabase } from '../database/database.ts'
import { AMPLE_MS } from './nth.ts'

export interface Service extends Client {
  target: Target
  /** What the service reported as faults. */
  faults: unknown[]
  /** What it warned of. */
  warnings: string[]
}

/** The whole service on a free port, ended when the test has finished. */
export async function startService(
  options: Partial<
    Pick<Config, 'allowedOrigins' | 'access' | 'trustedOnly' | 'writeTimeoutMs' | 'maxPending' | 'maxStreams'>
  > & { target?: Target } = {},
): Promise<Service> {
  const { target = await freshDatabase(), ...settings } = options
  const faults: unknown[] = []
  const warnings: string[] = []
  const app = await startApp({
    config: {
      host: '127.0.0.1',
      port: 0,
      workers: 1,
      targets: [target],
      eventualReads: false,
      dataDir: '',
      databaseMemoryMb: undefined,
      allowedOrigins: [],
      access: {},
      trustedOnly: false,
      maxConnectionsPerAddress: 1000,
      maxStreams: 100,
      writeTimeoutMs: AMPLE_MS,
      maxPending: 10_000,
      keyTtlMs: 86_400_000,
      logLevel: 'silent',
      metricsHost: '127.0.0.1',
      metricsPort: undefined,
      drainDelayMs: 0,
      shutdownTimeoutMs: 20_000,
      path: '',
      ignored: [],
      ...settings,
    },
    notices: { ...SILENT, warn: (message) => warnings.push(message), fault: (error) => faults.push(error) },
    signal: new AbortController().signal,
    runsJobs: false,
    leaderboardAgeMs: 0,
  })
  onTestFinished(app.close)
  return { ...clientOf(app.url), target, faults, warnings }
}
