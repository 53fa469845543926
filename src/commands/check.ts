import { parseArgs } from 'node:util'
import type { Connection } from 'mysql2/promise'
import { ignoredVariables, readConfig } from '../config.ts'
import type { Hosts } from '../mysql/hosts.ts'
import { deadlineRisks, explained, readRiskySettings, untilReady } from '../mysql/ready.ts'
import { SETTINGS, type Target, type Variable, valuesOf } from '../mysql/settings.ts'
import { integer, select } from '../mysql/sql.ts'
import { SILENT } from '../operations/log.ts'
import { openFilesWarning } from '../operations/process.ts'
import { ADVICE, acceptLosses, readLosses } from '../repository/lostCommits.ts'
import { compareMigrations, openMigrationSession } from '../repository/migrate.ts'
import { withHosts } from './database.ts'

const USAGE = `Usage: nth check [--accept-lost-commits] [--help]

Checks the configuration, this machine and the database that nth start would use. It works while Nth runs, too. Prints
what is right, and what is wrong with what to do about it. The exit code is 1 if Nth could not start or work. It creates
the table nth_check in the database, and drops it again.

  --accept-lost-commits  accept that the database lost changes that it had committed: all processes use it again. Lost
                         numbers are issued again, unless nth restore --advance has moved all numbers on.
`

/** `nth check`. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { 'accept-lost-commits': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help) return void process.stdout.write(USAGE)
  // Throws an error with a line for each invalid variable.
  const config = readConfig()
  const { workers, writeTimeoutMs } = config
  report({ subject: 'configuration', level: 'ok', message: 'all variables are valid' })
  const ignored = ignoredVariables(config)
  if (ignored) report({ subject: 'variables', level: 'warning', message: ignored })
  const fewFiles = openFilesWarning()
  if (fewFiles) report({ subject: 'open files', level: 'warning', message: fewFiles })
  await withHosts(async (hosts) => {
    for await (const finding of inspect(
      hosts,
      { workers, writeTimeoutMs, acceptsLosses: values['accept-lost-commits'] ?? false },
      AbortSignal.timeout(CHECKED_WITHIN_MS),
    ))
      report(finding)
  })
}

const CHECKED_WITHIN_MS = 60_000

function report({ subject, level, message }: Finding): void {
  if (level === 'error') process.exitCode = 1
  console.log(`${level.padEnd(8)} ${subject.padEnd(14)} ${message}`)
}

/** What was found out about one thing. */
interface Finding {
  subject: string
  level: 'ok' | 'warning' | 'error'
  message: string
}

/** Difference from which clocks matter: periods begin by those of the processes, reservations expire by the database's. */
const MAX_CLOCK_DIFFERENCE_MS = 1000
/** A server that starts at the moment is waited for this long. */
const ANSWERS_WITHIN_MS = 3000
/** Values of `max_allowed_packet`: every single change and every job fits; so does every request; the default. */
const SMALLEST_PACKET = 2 ** 16
const ROOMY_PACKET = 2 ** 22
const DEFAULT_PACKET = 2 ** 24
/** Connections of one process. */
const CONNECTIONS = 15

/** A table that exists only during a check. Statements that need each right that Nth needs; the last one removes it. */
const TRIAL = 'nth_check'
const TRIALS = [
  `create table ${TRIAL} (id int not null, primary key (id)) engine = InnoDB`,
  `alter table ${TRIAL} add value bigint not null default 0`,
  `create index ${TRIAL}_value on ${TRIAL} (value)`,
  `insert into ${TRIAL} (id) values (1)`,
  `update ${TRIAL} set value = last_insert_id(value + 1) where id = 1`,
  `select value from ${TRIAL} for update`,
  `delete from ${TRIAL}`,
  `drop table ${TRIAL}`,
]

interface InspectOptions {
  workers: number
  writeTimeoutMs: number
  /** Whether the operator accepts the commits that the database has lost. */
  acceptsLosses: boolean
}

/** Inspects a database for an operator, a finding at a time. Like the start, it creates a missing database. */
async function* inspect(
  hosts: Hosts,
  { workers, writeTimeoutMs, acceptsLosses }: InspectOptions,
  signal: AbortSignal,
): AsyncGenerator<Finding> {
  const risks: string[] = []
  let target: Target
  try {
    target = await untilReady(hosts, {
      notices: { ...SILENT, info: (text) => risks.push(text) },
      signal,
      timeoutMs: ANSWERS_WITHIN_MS,
    })
  } catch (error) {
    yield { subject: 'database', level: 'error', message: (error as Error).message }
    return
  }
  const connection = await openMigrationSession(target)
  try {
    const [server] = await select<{ version: string }>(connection, 'select version() as version')
    yield { subject: 'database', level: 'ok', message: `${server?.version} answers` }
    for (const message of risks) yield { subject: 'durability', level: 'warning', message }
    if (risks.length === 0) {
      const message = 'a change is on disk before its result is returned'
      yield { subject: 'durability', level: 'ok', message }
    }
    yield await inspectSettings(connection)
    yield await inspectRights(connection)
    yield await inspectMigrations(target)
    if (acceptsLosses) await acceptLosses(connection)
    yield* await inspectLosses(connection)
    yield await inspectClock(connection)
    yield await inspectConnections(connection, workers)
    yield await inspectPackets(connection)
    for (const message of deadlineRisks(await readRiskySettings(connection), writeTimeoutMs))
      yield { subject: 'deadline', level: 'warning', message }
  } finally {
    await connection.end()
  }
}

/** Names of one variable: MySQL's, and MariaDB's before 11.1. */
const ISOLATION = ['transaction_isolation', 'tx_isolation']

/** A proxy, or a server that only resembles MySQL, may accept a setting and ignore it. */
async function inspectSettings(connection: Connection): Promise<Finding> {
  const subject = 'settings'
  const names = [...Object.keys(SETTINGS), ...ISOLATION].map((name) => `'${name}'`)
  const statement = `show session variables where variable_name in (${names.join(', ')})`
  const values = valuesOf(await select<Variable>(connection, statement))
  const isolation = ISOLATION.find((name) => values.has(name)) ?? ''
  const ignored = Object.entries({ ...SETTINGS, [isolation]: 'READ-COMMITTED' }).flatMap(([name, value]) =>
    values.get(name) === String(value) ? [] : [`${name} = ${value} (it is ${values.get(name)})`],
  )
  if (ignored.length === 0)
    return { subject, level: 'ok', message: 'sessions have the settings that Nth needs' }
  const message = `a session ignores ${ignored.join(', ')}, so statements would have another meaning. Connect Nth without a proxy, or to another server.`
  return { subject, level: 'error', message }
}

async function inspectRights(connection: Connection): Promise<Finding> {
  const subject = 'rights'
  // From a check that was interrupted.
  await connection.query(`drop table if exists ${TRIAL}`).catch(() => undefined)
  for (const statement of TRIALS) {
    try {
      await connection.query(statement)
    } catch (error) {
      await connection.query(`drop table if exists ${TRIAL}`).catch(() => undefined)
      return { subject, level: 'error', message: explained(error) }
    }
  }
  return { subject, level: 'ok', message: 'the user may create, change and read tables' }
}

async function inspectMigrations(target: Target): Promise<Finding> {
  const subject = 'migrations'
  try {
    const { isNew, missing, later } = await compareMigrations(target)
    const others = later.length === 0 ? '' : `. This version works beside ${later.join(', ')} of a later one`
    if (missing.length === 0) return { subject, level: 'ok', message: `all are applied${others}` }
    const names = missing.map(({ name }) => name).join(', ')
    const message = `the next start applies ${names}; back up first${others}`
    const breaking = missing.filter(({ oldest }) => oldest !== undefined)
    if (isNew || breaking.length === 0) return { subject, level: 'ok', message }
    const advice = breaking.map(({ name, oldest }) => `${name} breaks servers before ${oldest}`).join(', ')
    return { subject, level: 'warning', message: `${message}. ${advice}: stop those first.` }
  } catch (error) {
    return { subject, level: 'error', message: (error as Error).message }
  }
}

async function inspectLosses(connection: Connection): Promise<Finding[]> {
  const subject = 'lost commits'
  const losses = await readLosses(connection)
  const findings = losses.map(({ what, noticedAt, isAccepted }): Finding => {
    const message = `the database lacks changes that it had committed: ${what} (noticed at ${noticedAt.toISOString()})`
    return isAccepted
      ? { subject, level: 'ok', message: `${message}. An operator has accepted this.` }
      : { subject, level: 'error', message: `${message}. Nth does not use the database. ${ADVICE}` }
  })
  return findings.length > 0 ? findings : [{ subject, level: 'ok', message: 'none were noticed' }]
}

async function inspectClock(connection: Connection): Promise<Finding> {
  const before = Date.now()
  const statement =
    "select timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)) as now"
  const [row] = await select<{ now: number }>(connection, statement)
  // The database read its clock between these two.
  const ahead = (row?.now ?? 0) / 1000 - (before + Date.now()) / 2
  const differenceMs = Math.round(Math.abs(ahead))
  const message = `the database is ${durationText(differenceMs)} ${ahead > 0 ? 'ahead of' : 'behind'} this machine`
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return { subject: 'clock', level: 'ok', message }
  return {
    subject: 'clock',
    level: 'warning',
    message: `${message}. Synchronise both clocks, for example with chrony.`,
  }
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
] as const

/** A duration in its two largest units, such as `3 days 4 hours`; a short one in milliseconds. */
function durationText(durationMs: number): string {
  const first = UNITS.findIndex(([, unitMs]) => durationMs >= unitMs)
  if (first < 0 || durationMs < 10_000) return `${durationMs} ms`
  let restMs = durationMs
  const parts = UNITS.slice(first, first + 2).flatMap(([unit, unitMs]) => {
    const count = Math.floor(restMs / unitMs)
    restMs -= count * unitMs
    return count === 0 ? [] : [`${count} ${unit}${count === 1 ? '' : 's'}`]
  })
  return parts.join(' ')
}

async function inspectConnections(connection: Connection, workers: number): Promise<Finding> {
  const [row] = await select<{ most: number }>(connection, 'select @@max_connections as most')
  const most = row?.most ?? 0
  const needed = workers * CONNECTIONS
  const message = `the server allows ${integer(most)}, and Nth on this machine needs up to ${needed}`
  if (needed < most) return { subject: 'connections', level: 'ok', message }
  return {
    subject: 'connections',
    level: 'warning',
    message: `${message}. Raise max_connections, or lower WORKERS.`,
  }
}

async function inspectPackets(connection: Connection): Promise<Finding> {
  const subject = 'packets'
  const [row] = await select<{ most: number }>(connection, 'select @@global.max_allowed_packet as most')
  const most = row?.most ?? 0
  const message = `the server accepts statements of up to ${integer(most)} bytes`
  if (most >= ROOMY_PACKET) return { subject, level: 'ok', message }
  const advice = `Set max_allowed_packet = ${DEFAULT_PACKET}`
  return most < SMALLEST_PACKET
    ? { subject, level: 'error', message: `${message}, but Nth needs ${SMALLEST_PACKET}. ${advice}.` }
    : { subject, level: 'warning', message: `${message}: large requests are refused. ${advice}.` }
}
