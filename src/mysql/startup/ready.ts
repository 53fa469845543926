import { setTimeout as pause } from 'node:timers/promises'
import { escapeId } from 'mysql2'
import type { Connection } from 'mysql2/promise'
import {
  ER,
  failureOf,
  hasErrorNumber,
  isLockout,
  reasonOf,
  UnusableDatabaseError,
} from '../connections/errors.ts'
import type { Hosts } from '../connections/hosts/hosts.ts'
import { openConnection } from '../connections/settings.ts'
import { describeTargets, type Target } from '../connections/target.ts'
import { select } from '../select.ts'
import { deadlineRisks } from './deadlines.ts'
import { assertWritable, durabilityRisks, readDurabilitySettings } from './durability.ts'
import { explain, explained } from './finding.ts'

export interface ReadyOptions {
  say: (message: string) => void
  signal: AbortSignal
  /** Maximum wait of a caller for its change, in milliseconds; undefined: there are no callers. */
  writeTimeoutMs?: number
  /** Maximum wait for a server that doesn't answer, in milliseconds. */
  timeoutMs?: number
}

const TIMEOUT_MS = 30_000
const POLL_MS = 500
const CONNECT_TIMEOUT_MS = 5_000

/**
 * Waits until a server answers that can be used, creates a missing database, and checks that Nth supports the server and
 * its settings.
 *
 * @returns that server
 * @throws {Error} stating what is wrong and what to do
 */
export async function untilReady(hosts: Hosts, options: ReadyOptions): Promise<Target> {
  const { connection, target } = await connect(hosts, options)
  try {
    await makeDatabase(connection, target.database)
    const [row] = await select<{ version: string }>(connection, 'select version() as version')
    const version = row?.version ?? ''
    if (!isSupported(version)) {
      throw new Error(`The database server is ${version}; Nth requires MySQL 8.0 or MariaDB 10.6, or later.`)
    }
    const settings = await readDurabilitySettings(connection)
    assertWritable(settings)
    for (const risk of durabilityRisks(settings)) options.say(risk)
    const { writeTimeoutMs } = options
    if (writeTimeoutMs) for (const risk of await deadlineRisks(connection, writeTimeoutMs)) options.say(risk)
    return target
  } catch (error) {
    return explain(error)
  } finally {
    await connection.end()
  }
}

/** Connects without selecting the database, which may not exist yet. */
async function connect(hosts: Hosts, { say, signal, timeoutMs = TIMEOUT_MS }: ReadyOptions) {
  const where = describeTargets(hosts.targets)
  const deadline = performance.now() + timeoutMs
  let isFirst = true
  while (true) {
    signal.throwIfAborted()
    try {
      const target = await hosts.choose()
      const { database: _, ...server } = target
      return { target, connection: await openConnection({ ...server, connectTimeout: CONNECT_TIMEOUT_MS }) }
    } catch (error) {
      if (error instanceof UnusableDatabaseError && error.isFinal) throw error
      if (failureOf(error) === 'fault' || isLockout(error)) {
        throw new Error(`The database ${where} refuses the connection: ${reasonOf(error)}.`, { cause: error })
      }
      if (performance.now() > deadline) {
        const text = `The database ${where} did not answer within ${timeoutMs / 1000} seconds: ${reasonOf(error)}. Start it, or correct DATABASE_URL.`
        throw new Error(text, { cause: error })
      }
      if (isFirst)
        say(`Waiting for the database ${where}, up to ${timeoutMs / 1000} seconds: ${reasonOf(error)}.`)
      isFirst = false
      await pause(POLL_MS, undefined, { signal })
    }
  }
}

async function makeDatabase(connection: Connection, name: string): Promise<void> {
  const identifier = escapeId(name, true)
  try {
    await connection.query(`use ${identifier}`)
  } catch (error) {
    if (!hasErrorNumber(error, ER.BAD_DB)) throw error
    await connection.query(`create database if not exists ${identifier}`).catch((cause) => {
      const text = `The database ${name} does not exist on the server and can't be created: ${explained(cause)}`
      throw new Error(text, { cause })
    })
  }
}

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number.parseFloat)
  const [oldestMajor, oldestMinor] = version.includes('MariaDB') ? [10, 6] : [8, 0]
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
}
