import type { ConnectionOptions } from 'mysql2'
import { integer } from './literals.ts'
import type { Target } from './target.ts'

/**
 * What every session relies on, whatever the server's defaults: strict arithmetic, UTC, READ COMMITTED, short lock waits,
 * and that a statement outside of a transaction is one of its own.
 */
export function sessionSettings({ lockWaitS }: { lockWaitS: number }): string[] {
  return [
    `set session
       sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
       time_zone = '+00:00',
       innodb_lock_wait_timeout = ${integer(lockWaitS)},
       autocommit = 1`,
    // By this form, because the variable's name differs between MySQL and MariaDB.
    'set session transaction isolation level read committed',
  ]
}

/** Silent for so long, the other end is asked whether it is there; a router on the way doesn't forget the connection. */
const KEEP_ALIVE_AFTER_MS = 10_000

/** How every connection is opened. */
export function connectionOptions(target: Target, connectTimeoutMs: number) {
  return {
    ...target,
    connectTimeout: connectTimeoutMs,
    enableKeepAlive: true,
    // Left out it is the system's, often two hours.
    keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS,
    timezone: 'Z',
    supportBigNumbers: true,
  } satisfies ConnectionOptions
}
