import { setTimeout as pause } from 'node:timers/promises'
import { escapeId } from 'mysql2'
import { Temporal } from 'temporal-polyfill'
import type { Notices } from '../operations/log.ts'
import type { Connection } from './connection.ts'
import {
  ER,
  failureOf,
  hasErrorNumber,
  isFullDisk,
  isLockout,
  isRefusal,
  isSwitchover,
  MisconfiguredDatabaseError,
  reasonOf,
} from './errors.ts'
import type { Hosts } from './hosts.ts'
import {
  describeTargets,
  named,
  openConnection,
  type Target,
  type Values,
  type Variable,
  valuesOf,
} from './settings.ts'
import { readValue, timeOf } from './sql.ts'

interface ReadyOptions {
  notices: Notices
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
    const version = await readValue<string>(connection, 'version()')
    if (!isSupported(version)) {
      throw new Error(`The database server is ${version}; Nth requires MySQL 8.0 or MariaDB 10.6, or later.`)
    }
    const { notices, writeTimeoutMs } = options
    const settings = await readRiskySettings(connection)
    assertWritable(settings)
    for (const risk of durabilityRisks(settings)) notices.info(risk)
    if (writeTimeoutMs) for (const risk of deadlineRisks(settings, writeTimeoutMs)) notices.info(risk)
    return target
  } catch (error) {
    return explain(error)
  } finally {
    await connection.end()
  }
}

/** Connects without selecting the database, which may not exist yet. */
async function connect(hosts: Hosts, { notices, signal, timeoutMs = TIMEOUT_MS }: ReadyOptions) {
  const where = describeTargets(hosts.targets)
  const deadline = performance.now() + timeoutMs
  let isFirst = true
  while (true) {
    signal.throwIfAborted()
    try {
      const target = await hosts.choose()
      const { database: _, ...server } = target
      return { target, connection: await openConnection(server, { connectTimeoutMs: CONNECT_TIMEOUT_MS }) }
    } catch (error) {
      if (error instanceof MisconfiguredDatabaseError) throw error
      if (failureOf(error) === 'fault' || isLockout(error)) {
        throw new Error(`The database ${where} refuses the connection: ${reasonOf(error)}.`, { cause: error })
      }
      if (performance.now() > deadline) {
        const text = `The database ${where} did not answer within ${timeoutMs / 1000} seconds: ${reasonOf(error)}. Start it, or correct DATABASE_URL.`
        throw new Error(text, { cause: error })
      }
      if (isFirst)
        notices.info(
          `Waiting for the database ${where}, up to ${timeoutMs / 1000} seconds: ${reasonOf(error)}.`,
        )
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

/** Why the clock of a database can't be right; undefined: it may be. Revisions count from 2020. */
export async function clockFault(connection: Connection): Promise<string | undefined> {
  const now = await timeOf(connection)
  if (now.getUTCFullYear() >= 2020) return undefined
  return `The clock of the database is at ${now.toISOString()}, years behind. Set it.`
}

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number.parseFloat)
  const [oldestMajor, oldestMinor] = version.includes('MariaDB') ? [10, 6] : [8, 0]
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
}

export const DENIED = [ER.TABLEACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED]
const RIGHTS =
  'migrations need create, alter, index and drop, everything else select, insert, update and delete'

/** An error of the database, and what an operator can do about it, as sentences. */
export function explained(error: unknown): string {
  const reason = `${reasonOf(error)}.`
  if (hasErrorNumber(error, ...DENIED)) {
    const [, right = 'the rights'] = /^(\w+) command denied/.exec(reason) ?? []
    return `${reason} Grant ${right.toLowerCase()} on the database: ${RIGHTS}.`
  }
  if (isSwitchover(error)) return `${reason} Nth needs a server that accepts changes.`
  if (isFullDisk(error)) return `${reason} Free disk space.`
  return reason
}

/** For `catch`: turns an error of the database into one for an operator. Others stay as they are. */
export function explain(error: unknown): never {
  throw isRefusal(error) ? new Error(`The database refused: ${explained(error)}`, { cause: error }) : error
}

const FLUSH = 'innodb_flush_log_at_trx_commit'
const RISKY = [
  FLUSH,
  'log_bin',
  'sync_binlog',
  'binlog_format',
  'innodb_lock_wait_timeout',
  // Of Galera. The first one also exists on a MariaDB that is not in a cluster.
  'wsrep_on',
  'wsrep_provider_options',
  'group_replication_group_name',
  'group_replication_member_expel_timeout',
]

/** What a server's settings mean for what survives a crash, and how long a failover takes. */
export async function readRiskySettings(connection: Connection): Promise<Values> {
  return valuesOf(await connection.select<Variable>(`show global variables where ${named(RISKY)}`))
}

/** @throws {Error} if binlog_format = STATEMENT: InnoDB then refuses writes at READ COMMITTED, as in all sessions */
function assertWritable(settings: Values): void {
  if (settings.get('log_bin') !== 'ON' || settings.get('binlog_format') !== 'STATEMENT') return
  throw new Error(
    'The database server runs with binlog_format = STATEMENT; every change would fail (error 1665). Set binlog_format = ROW or MIXED in its configuration and restart it.',
  )
}

/** Warnings for an operator: how the server can lose changes whose results were returned. */
export function durabilityRisks(settings: Values): string[] {
  const flush = settings.get(FLUSH)
  const sync = settings.get('sync_binlog')
  // A node that rejoins its cluster gets what it lost from the other nodes.
  const isOneNode = settings.get('wsrep_on') !== 'ON'
  const machine = isOneNode ? 'its machine fails' : 'the machines of all nodes fail at once'
  const server = isOneNode ? 'it crashes' : 'all nodes crash at once'
  const risks: string[] = []
  // 3 exists on MariaDB only. It syncs once more than 1.
  if (flush === '0') risks.push(risk(`${FLUSH} = 0`, server, 'of the last second or so', FLUSH))
  if (flush === '2') risks.push(risk(`${FLUSH} = 2`, machine, 'of the last second or so', FLUSH))
  // On restart, a change that InnoDB has on disk is rolled back if it is missing from the binary log.
  if (settings.get('log_bin') === 'ON' && sync !== undefined && sync !== '1') {
    const which =
      sync === '0'
        ? 'that the operating system had not yet written to disk'
        : `of the last ${sync} group commits`
    risks.push(risk(`log_bin = ON and sync_binlog = ${sync}`, machine, which, 'sync_binlog'))
  }
  return risks
}

function risk(settings: string, event: string, which: string, variable: string): string {
  return `The database server runs with ${settings}: if ${event}, changes ${which} can be lost after their results were returned, and their numbers reissued. Set ${variable} = 1.`
}

/**
 * What follows the time after which a cluster gives up on a silent node, in milliseconds, until another can be written.
 * Measured from `kill -9` of the node, on one machine: Galera 26.4 took 3.5 s with a time of 2 s, Group Replication of
 * MySQL 9.7 21 s with one of 7 s.
 */
const GALERA_ELECTS_MS = 1500
const GROUP_ELECTS_MS = 14_000
/** After so long without a message, a member of Group Replication is suspected. It is not configurable. */
const GROUP_SUSPECTS_MS = 5000

/** Warns if callers will not wait as long as the cluster likely takes to replace a node, or to end a lock. */
export function deadlineRisks(settings: Values, writeTimeoutMs: number): string[] {
  const patience = `callers wait for ${writeTimeoutMs / 1000} seconds, then get UNAVAILABLE or OUTCOME_UNKNOWN`
  const risks: string[] = []
  const likelyMs = takeoverMs(settings)
  if (likelyMs !== undefined && likelyMs > writeTimeoutMs) {
    const seconds = Math.ceil(likelyMs / 1000)
    risks.push(
      `By its settings, the cluster likely takes ${seconds} seconds to replace a node that fails, but ${patience}. Set NTH_WRITE_TIMEOUT_MS=${(seconds + 5) * 1000}.`,
    )
  }
  const lockS = Number(settings.get('innodb_lock_wait_timeout'))
  if (settings.get('wsrep_on') === 'ON' && lockS * 1000 > writeTimeoutMs)
    risks.push(
      `A Galera node sometimes waits ${lockS} seconds for a lock that it should take at once, but ${patience}. Set innodb_lock_wait_timeout=2 in the nodes' configuration.`,
    )
  return risks
}

/** How long a cluster likely takes to replace a node, in milliseconds; undefined: the server is in none. */
function takeoverMs(settings: Values): number | undefined {
  if (settings.get('wsrep_on') === 'ON') {
    const [, suspected = 'PT5S'] =
      /evs\.suspect_timeout = (P[\w.]+)/.exec(settings.get('wsrep_provider_options') ?? '') ?? []
    return Temporal.Duration.from(suspected).total('milliseconds') + GALERA_ELECTS_MS
  }
  if (!settings.get('group_replication_group_name')) return undefined
  const expelledMs = 1000 * Number(settings.get('group_replication_member_expel_timeout') ?? 5)
  return GROUP_SUSPECTS_MS + expelledMs + GROUP_ELECTS_MS
}
