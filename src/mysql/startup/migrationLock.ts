import type { Connection } from 'mysql2/promise'
import { ER, hasErrorNumber } from '../connections/errors.ts'
import { openConnection } from '../connections/settings.ts'
import type { Target } from '../connections/target.ts'
import { integer } from '../literals.ts'
import { select } from '../select.ts'

/** How long a starting process waits for another that is migrating, in seconds. */
const LOCK_WAIT_S = 60
/** How long the session that holds the lock may be idle: as long as a statement of a migration may take. */
const IDLE_LIMIT_S = 7 * 86_400

/**
 * Runs work while no other process runs such work on the same database.
 *
 * The lock is a row lock held by a transaction, as clusters deny GET_LOCK. It has its own connection, because DDL
 * commits the transaction of its connection; the server releases it when that connection ends, for whatever reason. On
 * Galera a row is locked on one node only.
 *
 * @throws {Error} if another process holds it for too long
 */
export async function withMigrationLock<T>(target: Target, work: () => Promise<T>): Promise<T> {
  const holder = await openMigrationSession(target)
  // A lost lock doesn't stop the work, which may then overlap with another's.
  try {
    await lock(holder)
    return await work()
  } finally {
    // Rolls back, which releases the row.
    await holder.end().catch(() => holder.destroy())
  }
}

/** A session that doesn't depend on the server's settings. */
export async function openMigrationSession(target: Target): Promise<Connection> {
  const connection = await openConnection(target, LOCK_WAIT_S)
  try {
    await connection.query(
      // Only MariaDB reads what follows M!, and only it has these limits.
      `set session
         wait_timeout = ${integer(IDLE_LIMIT_S)}
         /*M! , max_statement_time = 0, idle_transaction_timeout = 0, idle_write_transaction_timeout = 0 */`,
    )
    return connection
  } catch (error) {
    connection.destroy()
    throw error
  }
}

async function lock(holder: Connection): Promise<void> {
  // No DDL unless needed: a cluster aborts transactions that conflict with it, such as the one that holds the lock.
  const tables = await select(holder, "show tables like 'migration_lock'")
  if (tables.length === 0) {
    await holder.query(
      `create table if not exists migration_lock (
         id tinyint unsigned not null,
         primary key (id)
       ) engine = InnoDB`,
    )
  }
  while (true) {
    await holder.query('start transaction')
    const locking = select(holder, 'select id from migration_lock where id = 1 for update')
    const rows = await locking.catch((cause) => {
      if (!hasErrorNumber(cause, ER.LOCK_WAIT_TIMEOUT)) throw cause
      const text = `Another process has been migrating the database for more than ${LOCK_WAIT_S} seconds.`
      throw new Error(text, { cause })
    })
    if (rows.length > 0) return
    await holder.query('rollback')
    // Committed before it is locked: processes that wait for a row whose insert is rolled back run into deadlocks.
    await holder.query('insert ignore into migration_lock (id) values (1)')
  }
}
