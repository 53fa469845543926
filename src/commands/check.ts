import { parseArgs } from 'node:util'
import { type Config, ignoredVariables, readConfig } from '../config.ts'
import type { Connection } from '../mysql/connection.ts'
import { hasErrorNumber } from '../mysql/errors.ts'
import type { Hosts } from '../mysql/hosts.ts'
import {
  clockFault,
  DENIED,
  deadlineRisks,
  explained,
  readRiskySettings,
  untilReady,
} from '../mysql/ready.ts'
import { named, SETTINGS, type Target, type Variable, valuesOf } from '../mysql/settings.ts'
import { readValue, timeOf } from '../mysql/sql.ts'
import { SILENT } from '../operations/log.ts'
import { openFilesWarning } from '../operations/process.ts'
import { ADVICE, acceptLosses, readLosses } from '../repository/lostCommits.ts'
import { compareMigrations, withSession } from '../repository/migrate.ts'
import { findCurable, findRepeatingSequences } from './checkStored.ts'
import { audit, withHosts } from './database.ts'

export const USAGE = `Usage: nth check [--accept-lost-commits] [--help]

Checks the configuration, this machine and the database that nth start would use. It works while Nth runs, too. Prints
what is right, and what is wrong with what to do about it. The exit code is 1 if Nth could not start or work. It creates
the table nth_check in the database, and drops it again.

  --accept-lost-commits  accept that the database lost changes that it had committed: all processes use it again. Lost
                         numbers are issued again, unless nth restore --advance has moved all numbers on.
`

export async function run(args: string[]): Promise<void> {
  const options = { 'accept-lost-commits': { type: 'boolean', default: false } } as const
  const { values } = parseArgs({ args, options })
  // Throws an error with a line for each invalid variable.
  const config = readConfig()
  report('configuration', ok('all variables are valid'))
  for (const notice of ignoredVariables(config)) report('variables', warning(notice))
  const fewFiles = openFilesWarning()
  if (fewFiles) report('open files', warning(fewFiles))
  await withHosts((hosts) => inspect(hosts, config, values['accept-lost-commits']))
}

interface Finding {
  level: 'ok' | 'warning' | 'error'
  message: string
}

const ok = (message: string): Finding => ({ level: 'ok', message })
const warning = (message: string): Finding => ({ level: 'warning', message })
const failed = (message: string): Finding => ({ level: 'error', message })

function report(subject: string, { level, message }: Finding): void {
  if (level === 'error') process.exitCode = 1
  console.log(`${level.padEnd(8)} ${subject.padEnd(14)} ${message}`)
}

const CHECKED_WITHIN_MS = 60_000
/** A server that starts at the moment is waited for this long. */
const ANSWERS_WITHIN_MS = 3000

/** A database that answers, and how Nth would use it. */
interface Inspected extends Pick<Config, 'workers' | 'writeTimeoutMs'> {
  /** Whether the operator accepts the commits that the database has lost. */
  acceptsLosses: boolean
  target: Target
  connection: Connection
  /** What its settings put at risk. */
  risks: readonly string[]
}

/** Inspects a database for an operator. Like the start, it creates a missing database. */
async function inspect(hosts: Hosts, config: Config, acceptsLosses: boolean): Promise<void> {
  const risks: string[] = []
  const waiting = {
    notices: { ...SILENT, info: (text: string) => risks.push(text) },
    signal: AbortSignal.timeout(CHECKED_WITHIN_MS),
    timeoutMs: ANSWERS_WITHIN_MS,
  }
  const target = await untilReady(hosts, waiting).catch((error) => report('database', failed(error.message)))
  if (!target) return
  await withSession(target, async (connection) => {
    for (const [subject, check] of Object.entries(CHECKS))
      for (const finding of [await check({ ...config, acceptsLosses, target, connection, risks })].flat())
        report(subject, finding)
  })
}

/** The checks in their order, by their subjects. */
const CHECKS: Record<string, (inspected: Inspected) => Promise<Finding | Finding[]>> = {
  database: async ({ connection }) => ok(`${await readValue<string>(connection, 'version()')} answers`),
  durability: async ({ risks }) =>
    risks.length > 0 ? risks.map(warning) : ok('a change is on disk before its result is returned'),
  settings: checkSettings,
  rights: checkRights,
  migrations: checkMigrations,
  'lost commits': checkLosses,
  clock: checkClock,
  formats: async ({ connection }) => (await findRepeatingSequences(connection)).map(warning),
  cures: async ({ connection }) => (await findCurable(connection)).map(warning),
  connections: checkConnections,
  packets: checkPackets,
  deadline: async ({ connection, writeTimeoutMs }) =>
    deadlineRisks(await readRiskySettings(connection), writeTimeoutMs).map(warning),
}

/** Names of one variable: MySQL's, and MariaDB's before 11.1. */
const ISOLATION = ['transaction_isolation', 'tx_isolation']

/** A proxy, or a server that only resembles MySQL, may accept a setting and ignore it. */
async function checkSettings({ connection }: Inspected): Promise<Finding> {
  const names = [...Object.keys(SETTINGS), ...ISOLATION]
  const values = valuesOf(await connection.select<Variable>(`show session variables where ${named(names)}`))
  const isolation = ISOLATION.find((name) => values.has(name)) ?? ''
  const ignored = Object.entries({ ...SETTINGS, [isolation]: 'READ-COMMITTED' }).flatMap(([name, value]) =>
    values.get(name) === String(value) ? [] : [`${name} = ${value} (it is ${values.get(name)})`],
  )
  if (ignored.length === 0) return ok('sessions have the settings that Nth needs')
  const message = `a session ignores ${ignored.join(', ')}, so statements would have another meaning. Connect Nth without a proxy, or to another server.`
  return failed(message)
}

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

/** Statements that need each right that a server needs once its database is migrated. None changes a row. */
const ROW_TRIALS = [
  'insert into fence select * from fence where false',
  'update fence set seq = seq where false',
  'select seq from fence where false for update',
  'delete from fence where false',
]

async function checkRights({ connection, target }: Inspected): Promise<Finding> {
  const removeTrial = () => connection.query(`drop table if exists ${TRIAL}`).catch(() => undefined)
  // From a check that was interrupted.
  await removeTrial()
  try {
    for (const statement of TRIALS) await connection.query(statement)
    return ok('the user may create, change and read tables')
  } catch (error) {
    await removeTrial()
    const compared = await compareMigrations(target).catch(() => undefined)
    const isMigrated = compared?.missing.length === 0
    if (!isMigrated || !hasErrorNumber(error, ...DENIED)) return failed(explained(error))
  }
  try {
    for (const statement of ROW_TRIALS) await connection.query(statement)
    return ok(
      'the user may change and read rows; for migrations, run nth migrate as one who may change tables',
    )
  } catch (error) {
    return failed(explained(error))
  }
}

async function checkMigrations({ target }: Inspected): Promise<Finding> {
  try {
    const { isNew, missing, later } = await compareMigrations(target)
    const others = later.length === 0 ? '' : `. This version works beside ${later.join(', ')} of a later one`
    if (missing.length === 0) return ok(`all are applied${others}`)
    const names = missing.map(({ name }) => name).join(', ')
    const message = `the next start applies ${names}; back up first${others}`
    const breaking = missing.flatMap(({ kind, oldest, name }) =>
      kind === 'contraction' && oldest ? `${name} breaks servers before ${oldest}` : [],
    )
    if (isNew || breaking.length === 0) return ok(message)
    return warning(`${message}. ${breaking.join(', ')}: stop those first.`)
  } catch (error) {
    return failed((error as Error).message)
  }
}

async function checkLosses({ connection, acceptsLosses }: Inspected): Promise<Finding | Finding[]> {
  if (acceptsLosses) {
    await acceptLosses(connection)
    audit({ field: 'nth check --accept-lost-commits' })
  }
  const losses = await readLosses(connection)
  if (losses.length === 0) return ok('none were noticed')
  return losses.map(({ what, noticedAt, isAccepted }) => {
    const message = `the database lacks changes that it had committed: ${what} (noticed at ${noticedAt.toISOString()})`
    return isAccepted
      ? ok(`${message}. An operator has accepted this.`)
      : failed(`${message}. Nth does not use the database. ${ADVICE}`)
  })
}

/** Difference from which clocks matter: periods begin by the processes' clocks, reservations expire by the database's. */
const MAX_CLOCK_DIFFERENCE_MS = 1000

async function checkClock({ connection }: Inspected): Promise<Finding> {
  const fault = await clockFault(connection)
  if (fault) return failed(fault)
  const before = Date.now()
  const now = await timeOf(connection)
  // The database read its clock between these two.
  const ahead = now.getTime() - (before + Date.now()) / 2
  const differenceMs = Math.round(Math.abs(ahead))
  const message = `the database is ${durationText(differenceMs)} ${ahead > 0 ? 'ahead of' : 'behind'} this machine`
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return ok(message)
  return warning(`${message}. Synchronise both clocks, for example with chrony.`)
}

const UNITS = [
  ['days', 86_400_000],
  ['hours', 3_600_000],
  ['minutes', 60_000],
  ['seconds', 1000],
  ['ms', 1],
] as const

/** A duration in the largest unit of which it has two or more. */
function durationText(durationMs: number): string {
  const [unit, unitMs] = UNITS.find(([, unitMs]) => durationMs >= 2 * unitMs) ?? ['ms', 1]
  return `${Math.round(durationMs / unitMs)} ${unit}`
}

/** Connections of one process. */
const CONNECTIONS = 15

async function checkConnections({ connection, workers }: Inspected): Promise<Finding> {
  const most = Number(await readValue(connection, '@@max_connections'))
  const needed = workers * CONNECTIONS
  const message = `the server allows ${most}, and Nth on this machine needs up to ${needed}`
  return needed < most ? ok(message) : warning(`${message}. Raise max_connections, or lower WORKERS.`)
}

/** Values of `max_allowed_packet`: every single change and every job fits; so does every request; the default. */
const SMALLEST_PACKET = 2 ** 16
const ROOMY_PACKET = 2 ** 22
const DEFAULT_PACKET = 2 ** 24

async function checkPackets({ connection }: Inspected): Promise<Finding> {
  const most = Number(await readValue(connection, '@@global.max_allowed_packet'))
  const message = `the server accepts statements of up to ${most} bytes`
  if (most >= ROOMY_PACKET) return ok(message)
  const advice = `Set max_allowed_packet = ${DEFAULT_PACKET}`
  if (most >= SMALLEST_PACKET) return warning(`${message}: large requests are refused. ${advice}.`)
  return failed(`${message}, but Nth needs ${SMALLEST_PACKET}. ${advice}.`)
}
