import { integer } from './literals.ts'

/** What every session relies on, whatever the server's defaults: strict arithmetic, UTC, READ COMMITTED, short lock waits. */
export function sessionSettings({ lockWaitS }: { lockWaitS: number }): string[] {
  return [
    `set session
       sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
       time_zone = '+00:00',
       innodb_lock_wait_timeout = ${integer(lockWaitS)}`,
    // By this form, because the variable's name differs between MySQL and MariaDB.
    'set session transaction isolation level read committed',
  ]
}
