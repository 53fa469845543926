import type { Connection } from 'mysql2/promise'
import { reasonOf } from '../connections/errors.ts'
import type { Hosts } from '../connections/hosts/hosts.ts'
import type { Target } from '../connections/target.ts'
import { integer } from '../literals.ts'
import { select } from '../select.ts'
import { deadlineRisks } from './deadlines.ts'
import type { Finding } from './finding.ts'
import { inspectAssumptions } from './inspectAssumptions.ts'
import { compareMigrations } from './migrate.ts'
import { openMigrationSession } from './migrationLock.ts'
import { untilReady } from './ready.ts'

/** Difference from which clocks matter: periods begin by those of the processes, reservations expire by the database's. */
const MAX_CLOCK_DIFFERENCE_MS = 1000
/** A server that starts at the moment is waited for this long. */
const ANSWERS_WITHIN_MS = 3000
/** Connections of one process. */
const CONNECTIONS = 15

/** A table that exists only during a check. Statements that need each right that Nth needs; the last one removes it. */
const TRIAL = 'nth_check'
const TRIALS: readonly (readonly [right: string, statement: string])[] = [
  ['create', `create table ${TRIAL} (id int not null, primary key (id)) engine = InnoDB`],
  ['alter', `alter table ${TRIAL} add value bigint not null default 0`],
  ['index', `create index ${TRIAL}_value on ${TRIAL} (value)`],
  ['insert', `insert into ${TRIAL} (id) values (1)`],
  ['update', `update ${TRIAL} set value = last_insert_id(value + 1) where id = 1`],
  ['select', `select value from ${TRIAL} for update`],
  ['delete', `delete from ${TRIAL}`],
  ['drop', `drop table ${TRIAL}`],
]

/** Inspects a database for an operator, a finding at a time. Like the start, it creates a missing database. */
export async function* inspect(
  hosts: Hosts,
  { workers, writeTimeoutMs }: { workers: number; writeTimeoutMs: number },
  signal: AbortSignal,
): AsyncGenerator<Finding> {
  const risks: string[] = []
  let target: Target
  try {
    target = await untilReady(hosts, {
      say: (text) => risks.push(text),
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
    const rights = await inspectRights(connection)
    yield rights
    if (rights.level === 'ok') yield* inspectAssumptions(target)
    yield await inspectMigrations(target)
    yield await inspectClock(connection)
    yield await inspectConnections(connection, workers)
    for (const message of await deadlineRisks(connection, writeTimeoutMs))
      yield { subject: 'deadline', level: 'warning', message }
  } finally {
    await connection.end()
  }
}

async function inspectRights(connection: Connection): Promise<Finding> {
  const subject = 'rights'
  // From a check that was interrupted.
  await connection.query(`drop table if exists ${TRIAL}`).catch(() => undefined)
  for (const [right, statement] of TRIALS) {
    try {
      await connection.query(statement)
    } catch (error) {
      await connection.query(`drop table if exists ${TRIAL}`).catch(() => undefined)
      const advice = `Grant ${right} on the database: migrations need create, alter, index and drop, everything else select, insert, update and delete.`
      return { subject, level: 'error', message: `${reasonOf(error)}. ${advice}` }
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
    const breaking = missing.flatMap((migration) =>
      migration.kind === 'contraction' && migration.oldest !== undefined ? [migration] : [],
    )
    if (isNew || breaking.length === 0) return { subject, level: 'ok', message }
    const advice = breaking.map(({ name, oldest }) => `${name} breaks servers before ${oldest}`).join(', ')
    return { subject, level: 'warning', message: `${message}. ${advice}: stop those first.` }
  } catch (error) {
    return { subject, level: 'error', message: (error as Error).message }
  }
}

async function inspectClock(connection: Connection): Promise<Finding> {
  const before = Date.now()
  const statement =
    "select timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)) as now"
  const [row] = await select<{ now: number }>(connection, statement)
  // The database read its clock between these two.
  const ahead = (row?.now ?? 0) / 1000 - (before + Date.now()) / 2
  const differenceMs = Math.round(Math.abs(ahead))
  const message = `the database is ${differenceMs} ms ${ahead > 0 ? 'ahead of' : 'behind'} this machine`
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return { subject: 'clock', level: 'ok', message }
  return { subject: 'clock', level: 'warning', message: `${message}. Synchronise both, such as with chrony.` }
}

async function inspectConnections(connection: Connection, workers: number): Promise<Finding> {
  const [row] = await select<{ most: number }>(connection, 'select @@max_connections as most')
  const most = row?.most ?? 0
  const needed = workers * CONNECTIONS
  const message = `the server allows ${integer(most)}, this Nth needs up to ${needed}`
  if (needed < most) return { subject: 'connections', level: 'ok', message }
  return {
    subject: 'connections',
    level: 'warning',
    message: `${message}. Raise max_connections, or lower WORKERS.`,
  }
}
