import { rowsOf } from '../mysql/session.ts'
import { bytes, hex, instant, list } from '../mysql/sql.ts'
import type { PeriodValues } from '../rules/counter.ts'
import type { Claim, EarlierResults, OperationResult, StoredResults } from '../rules/idempotency.ts'
import type { SequenceResult } from '../rules/sequence.ts'
import { type FlushText, type Reader, resultOf } from './statements.ts'

/**
 * Claims unused keys, and reads the results under used ones: undefined if one is neither claimed nor found. Waits for a
 * transaction that has claimed one of them.
 */
export function claimKeys(claims: readonly Claim[], text: FlushText): Reader<EarlierResults[] | undefined> {
  const values = list(
    claims,
    ({ hash, fingerprint }) => `(${hex(hash)}, ${hex(fingerprint)}, ${instant(text.at)}, utc_timestamp(3))`,
  )
  const claimedAt = text.add(
    `insert ignore into idempotency_key (hash, fingerprint, applied_at, claimed_at) values ${values}`,
  )
  const usedAt = text.add(readResults(claims))
  return (answers) => {
    const earlier = rowsOf(answers[usedAt]).map((row) => ({
      claim: { hash: row.hash.toString('hex'), fingerprint: row.fingerprint.toString('hex') },
      at: row.applied_at,
      ageMs: Number(row.age_us) / 1000,
      results: JSON.parse(row.results.toString('utf8')).map(resultIn),
    }))
    const { affectedRows } = resultOf(answers[claimedAt])
    return affectedRows + earlier.length === claims.length ? earlier : undefined
  }
}

/**
 * Reads the results under used keys. A locking read: a plain one may miss what the claim has just found, as InnoDB
 * releases a transaction's locks a moment before it shows its rows to new snapshots. (With two processes, a plain read
 * missed about one in 60 000 keys.)
 */
export function readResults(claims: readonly Claim[]): string {
  // Without `force index`, a server may scan, and lock, all of a small table.
  return `select hash, fingerprint, applied_at, results,
       timestampdiff(microsecond, claimed_at, utc_timestamp(3)) as age_us
  from idempotency_key force index (primary)
 where hash in (${claims.map(({ hash }) => hex(hash))}) and results is not null
 order by hash
  lock in share mode`
}

/** A result as stored: a list for a counter, as a key may have a thousand. */
type StoredResult =
  | SequenceResult
  | [
      value: number,
      previousValue: number,
      appliedDelta: number | null,
      valuesIn?: PeriodValues,
      /** Of a subject that had counted before: when, in milliseconds since 1970. Null: `uncount` did nothing. */
      countedAt?: number | null,
    ]

/** Stores results under claimed keys. */
export function storeResults(stored: readonly StoredResults[]): string {
  const values = stored.map(({ claim: { hash, fingerprint }, at, results }) => {
    const text = JSON.stringify(results.map(written))
    return `(${hex(hash)}, ${hex(fingerprint)}, ${instant(at)}, ${bytes(text)}, utc_timestamp(3))`
  })
  return `insert into idempotency_key (hash, fingerprint, applied_at, results, claimed_at) values ${values.join(', ')}
    on duplicate key update
       fingerprint = values(fingerprint),
       applied_at = values(applied_at),
       results = values(results),
       claimed_at = values(claimed_at)`
}

function resultIn(written: StoredResult): OperationResult {
  if (!Array.isArray(written)) return written
  const [value, previousValue, appliedDelta, valuesIn, countedAt] = written
  const result = { value, previousValue, appliedDelta, valuesIn }
  if (countedAt === undefined) return result
  return countedAt === null ? { ...result, isUncounted: true } : { ...result, countedAt: new Date(countedAt) }
}

function written(result: OperationResult): StoredResult {
  // The old revision is of no use to a repeat, which returns the current one.
  if ('kind' in result) return 'revision' in result ? { ...result, revision: undefined } : result
  const { value, previousValue, appliedDelta, valuesIn, countedAt, isUncounted } = result
  if (countedAt || isUncounted)
    return [value, previousValue, appliedDelta, valuesIn ?? {}, countedAt?.getTime() ?? null]
  return valuesIn ? [value, previousValue, appliedDelta, valuesIn] : [value, previousValue, appliedDelta]
}

/** Releases a key without a result. One per statement: with several, the server may scan all keys. */
export function releaseKey({ hash }: Claim): string {
  return `delete from idempotency_key where hash = ${hex(hash)}`
}
