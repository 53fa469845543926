import { onTestFinished } from 'vitest'
import { Gate } from '../../../src/graphql/gate.ts'
import { type ListenOptions, listen } from '../../../src/http/server.ts'
import type { Target } from '../../../src/mysql/settings.ts'
import { SILENT } from '../../../src/operations/log.ts'
import type { Nth } from '../../../src/repository/nth.ts'
import { type Client, clientOf } from '../client/client.ts'
import { freshDatabase } from '../database/database.ts'
import { openTestNth } from './nth.ts'

/** A server on any port, without limits. */
export const UNLIMITED = {
  host: '127.0.0.1',
  port: 0,
  allowedOrigins: [],
  access: {},
  trustedOnly: false,
  maxConnectionsPerAddress: Number.POSITIVE_INFINITY,
  maxStreams: Number.POSITIVE_INFINITY,
  version: '',
  readMetrics: async () => '',
}

/** The HTTP server alone, on a database of its own, with what a test may change of it. */
export async function startFront(
  options: Partial<Omit<ListenOptions, 'host' | 'nth' | 'notices'>> & {
    around?: (nth: Nth) => Nth
    now?: () => Date
    target?: Target | undefined
  } = {},
): Promise<Client & { faults: unknown[]; close: () => Promise<void> }> {
  const { around = (nth) => nth, now, target = await freshDatabase(), ...rest } = options
  const nth = openTestNth(target, { ...(now && { now }) })
  const faults: unknown[] = []
  const server = await listen({
    ...UNLIMITED,
    nth: around(nth),
    gate: new Gate(10_000),
    notices: { ...SILENT, fault: (fault) => faults.push(fault) },
    ...rest,
  })
  onTestFinished(server.close)
  return { ...clientOf(server.url), faults, close: server.close }
}
