import type { RowDataPacket } from 'mysql2'
import type { OperationResult, PeriodValues } from '../core/applyOperation.ts'
import type { Claim, Earlier, Remembered } from '../core/idempotency.ts'
import type { SequenceResult } from '../core/numberState.ts'
import type { Database } from './database.ts'
import { bytes, digest, instant, integer } from './literals.ts'

/** Claims keys that nobody has used. Waits for a transaction that has claimed one of them. */
export function claim(claims: readonly Claim[], at: Date): string {
  const values = inOrder(claims).map(
    ({ hash, fingerprint }) => `(${digest(hash)}, ${digest(fingerprint)}, ${instant(at)}, utc_timestamp(3))`,
  )
  return `insert ignore into idempotency_key (hash, fingerprint, done_at, claimed_at) values ${values.join(', ')}`
}

/**
 * Reads what was done under keys that were used before. A locking read: a plain one may not see yet what `claim`
 * has just met, as InnoDB lets go of a transaction's locks a moment before it shows its rows to new snapshots.
 * (With two processes at it, that was missed once in some 60 000 keys.)
 */
export function readDone(claims: readonly Claim[]): string {
  // Without the index named, a small table is read, and locked, from one end to the other.
  return `select hash, fingerprint, done_at, answers,
       timestampdiff(microsecond, coalesce(claimed_at, done_at), utc_timestamp(3)) as age_us
  from idempotency_key force index (primary)
 where hash in (${inOrder(claims).map(({ hash }) => digest(hash))}) and answers is not null
 order by hash
  lock in share mode`
}

/** What one operation did, as it is written: for a counter as a list, of which there may be a thousand. */
type Written =
  | SequenceResult
  | [value: number, previousValue: number, appliedDelta: number | null, valuesIn?: PeriodValues]

/** What `readDone` found. */
export function rememberedIn(rows: readonly RowDataPacket[]): Earlier[] {
  return rows.map(({ hash, fingerprint, done_at, answers, age_us }) => ({
    claim: {
      key: `key ${hash.toString('hex')}`,
      hash: hash.toString('hex'),
      fingerprint: fingerprint.toString('hex'),
    },
    at: done_at,
    ageMs: Number(age_us) / 1000,
    answers: JSON.parse(answers.toString('utf8')).map(answerIn),
  }))
}

/** Writes what was done under keys that are claimed. */
export function remember(done: readonly Remembered[]): string {
  const values = done.map(({ claim: { hash, fingerprint }, at, answers }) => {
    const text = JSON.stringify(answers.map(written))
    return `(${digest(hash)}, ${digest(fingerprint)}, ${instant(at)}, ${bytes(text)}, utc_timestamp(3))`
  })
  return `insert into idempotency_key (hash, fingerprint, done_at, answers, claimed_at) values ${values.join(', ')}
    on duplicate key update
       fingerprint = values(fingerprint),
       done_at = values(done_at),
       answers = values(answers),
       claimed_at = values(claimed_at)`
}

function answerIn(written: Written): OperationResult {
  if (!Array.isArray(written)) return written
  const [value, previousValue, appliedDelta, valuesIn] = written
  return { value, previousValue, appliedDelta, valuesIn }
}

function written(answer: OperationResult): Written {
  // What the revision was is of no use to a repeat, which is told of the present.
  if ('kind' in answer) return 'revision' in answer ? { ...answer, revision: undefined } : answer
  const { value, previousValue, appliedDelta, valuesIn } = answer
  return valuesIn ? [value, previousValue, appliedDelta, valuesIn] : [value, previousValue, appliedDelta]
}

/** Gives back a key under which nothing was done. Alone, as with several the server may go through all there are. */
export function giveBack({ hash }: Claim): string {
  return `delete from idempotency_key where hash = ${digest(hash)}`
}

/** How many keys one transaction of the sweep removes: it takes some milliseconds. */
const BATCH = 500

/**
 * Removes the keys that are older than so many milliseconds by the database's clock, in batches. A writer waits for one
 * only if it uses an old key anew at that very time.
 *
 * @returns how many were removed
 */
export async function sweepKeys(database: Database, ageMs: number): Promise<number> {
  const before = `utc_timestamp(3) - interval ${integer(1000 * ageMs)} microsecond`
  const isOld = `(claimed_at < ${before} or claimed_at is null and done_at < ${before})`
  for (let removed = 0; ; ) {
    const batch = await database.repeatable(async (connection) => {
      const [rows] = await connection.query<RowDataPacket[]>(
        `select hash from idempotency_key
          where ${isOld}
          order by claimed_at
          limit ${integer(BATCH)}`,
      )
      if (rows.length === 0) return 0
      // In the order of the primary key, so that it is found by that. One that was used anew meanwhile is younger.
      await connection.query(
        `delete from idempotency_key
          where hash in (${rows.map(({ hash }) => digest(hash.toString('hex'))).join(', ')})
            and ${isOld}
          order by hash
          limit ${integer(BATCH)}`,
      )
      return rows.length
    })
    removed += batch
    if (batch < BATCH) return removed
  }
}

/** The order in which every process claims keys: none waits for another that waits for it. */
export function inOrder(claims: readonly Claim[]): Claim[] {
  return claims.toSorted((a, b) => (a.hash < b.hash ? -1 : 1))
}
