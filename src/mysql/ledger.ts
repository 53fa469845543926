import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Line } from './line.ts'
import { integer } from './literals.ts'
import { isSameDatabase, type Place } from './place.ts'
import { rowsOf, type Session } from './session.ts'

/** A lane's row in the database: each of its transactions raises `seq` by one. */
export interface Ledger {
  id: number
  /** Of the last transaction that took effect. */
  seq: number
}

/** `crypto.randomInt` goes so far; that two lanes of one database draw the same number is out of the question. */
const IDS = 2 ** 48 - 1

/** A row is swept when it was not touched for so long. */
const KEPT_DAYS = 7
const SWEPT_AT_ONCE = 500
/** Between two looks that didn't succeed. */
const LOOK_PAUSE_MS = 50

/** A ledger of its own for a lane of one run of a process: its id was never used before. */
export async function openLedger(session: Session): Promise<Ledger> {
  const id = randomInt(1, IDS)
  await session.send([`insert into lane (id, touched_at) values (${integer(id)}, utc_timestamp())`, 'commit'])
  return { id, seq: 0 }
}

/** Raises the ledger within a transaction. Must match one row. */
export function raise({ id, seq }: Ledger): string {
  return `update lane
   set seq = ${integer(seq + 1)},
       touched_at = utc_timestamp()
 where id = ${integer(id)} and seq = ${integer(seq)}`
}

/**
 * Fails unless the transaction that raised the ledger is still the one that goes on.
 *
 * A Galera cluster may end a transaction in the middle of a text, when another node's changes come first; the server
 * then goes on with the next statement by itself, and answers OK to a COMMIT of nothing, or of a part.
 */
export function guard({ id, seq }: Ledger): string {
  return failUnless(`(select seq from lane where id = ${integer(id)}) = ${integer(seq + 1)}`)
}

/** Keeps the row of an idle lane from being swept. */
export function touch({ id }: Ledger): string {
  return `update lane set touched_at = utc_timestamp() where id = ${integer(id)}`
}

export interface Doubt {
  /** Where the transaction was sent. */
  place: Place
  isAwaited: () => boolean
  /** Called if the ledger is not where it was before that transaction, or is gone. */
  onLost: () => void
}

/**
 * Finds out whether the transaction that was to raise the ledger took effect, for as long as anybody waits for it.
 * Undefined: nobody can say.
 */
export async function hasRisen(
  line: Line,
  ledger: Ledger,
  { place, isAwaited, onLost }: Doubt,
): Promise<boolean | undefined> {
  const { seq } = ledger
  while (isAwaited()) {
    let session: Session | undefined
    try {
      session = await line.session()
      const found = await look(session, ledger)
      if (found === seq + 1) return true
      if (found !== seq) onLost()
      // Another server may yet receive what it lacks now.
      return found === seq && isSameDatabase(place, session.place) ? false : undefined
    } catch {
      // A look that failed says nothing. The next one has a connection of its own.
      session?.drop()
      await pause(LOOK_PAUSE_MS)
    }
  }
  return undefined
}

/**
 * Asks which transaction took effect last; `undefined` if the row is gone.
 *
 * The look is a write: it waits for a transaction that is still under way, and on a cluster one that another
 * node delays conflicts with it. So once it has committed, nothing that it didn't see can take effect any more.
 *
 * @throws what keeps it from committing; then it says nothing
 */
async function look(session: Session, { id }: Ledger): Promise<number | undefined> {
  const own = `from lane where id = ${integer(id)}`
  const answers = await session.send([
    ...(session.isClustered ? ['set session wsrep_sync_wait = 7', 'rollback'] : ['start transaction']),
    `update lane set epoch = last_insert_id(epoch + 1) where id = ${integer(id)}`,
    `select seq ${own}`,
    // As in a flush: this must be the transaction that has raised the epoch.
    failUnless(`coalesce((select epoch ${own}), last_insert_id()) = last_insert_id()`),
    'commit',
    ...(session.isClustered ? ['set session wsrep_sync_wait = 0'] : []),
  ])
  return answers.flatMap(rowsOf).find((row) => 'seq' in row)?.seq
}

/** Fails with "more than one row" where a condition isn't true. A select *from* a row passes where that is missing. */
function failUnless(condition: string): string {
  return `select if(${condition}, 0, (select 1 union select 2))`
}

/** Removes the rows of lanes that have long ended. Touches no row that a lane might hold locked. */
export async function sweep(session: Session): Promise<void> {
  const isOld = `touched_at < utc_timestamp() - interval ${KEPT_DAYS} day`
  const [found] = await session.send([`select id from lane where ${isOld} limit ${SWEPT_AT_ONCE}`, 'commit'])
  const ids = rowsOf(found).map(({ id }) => integer(id))
  if (ids.length === 0) return
  await session.send([`delete from lane where id in (${ids.join(', ')}) and ${isOld}`, 'commit'])
}
