import { type Answer, rowsOf } from '../mysql/session.ts'
import { bytes, hex, instant, list } from '../mysql/sql.ts'
import type { PeriodValues } from '../rules/counter.ts'
import type { Claim, EarlierResults, OperationResult, StoredResults } from '../rules/idempotency.ts'
import type { SequenceResult } from '../rules/sequence.ts'
import { type FlushText, type Reader, resultOf } from './statements.ts'

/**
 * What a claim has in the place of its results until they are stored: as long as those of most plain calls, with the totals
 * of three periods. So storing them changes the row in place: half of the redo log.
 */
const BLANK = ' '.repeat(56)
const BLANK_LITERAL = bytes(BLANK)

/** Claims unused keys, and returns how many. Waits for a transaction that has claimed one of them. */
export function claimKeys(claims: readonly Claim[], text: FlushText): Reader<number> {
  const rest = `${instant(text.at)}, ${BLANK_LITERAL}, utc_timestamp(3)`
  const claimedAt = text.add(
    `insert ignore into idempotency_key (hash, fingerprint, applied_at, results, claimed_at)
values ${list(claims, ({ hash, fingerprint }) => `(${hex(hash)}, ${hex(fingerprint)}, ${rest})`)}`,
  )
  return (answers) => resultOf(answers[claimedAt]).affectedRows
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
 where hash in (${list(claims, ({ hash }) => hex(hash))}) and results <> ${BLANK_LITERAL}
 order by hash
  lock in share mode`
}

/** The answer to that. */
export function resultsIn(answer: Answer | undefined): EarlierResults[] {
  return rowsOf(answer).map((row) => ({
    claim: { hash: row.hash.toString('hex'), fingerprint: row.fingerprint.toString('hex') },
    at: row.applied_at,
    ageMs: Number(row.age_us) / 1000,
    results: JSON.parse(row.results.toString('utf8')).map(resultIn),
  }))
}

/** A result as stored: a list for a counter, as a key may have a thousand. */
type StoredResult =
  | SequenceResult
  /** Of a hold: no longer than the blank. */
  | [token: string, expiresAt: number]
  | [
      value: number,
      previousValue: number,
      appliedDelta: number | null,
      valuesIn?: PeriodValues,
      /** Of a subject that had counted before: when, in milliseconds since 1970. Null: `uncount` did nothing. */
      countedAt?: number | null,
    ]

/**
 * Stores results under claimed keys. Only a key that has expired is claimed anew: a change of `claimed_at` leaves the row of
 * a secondary key behind.
 */
export function storeResults(stored: readonly StoredResults[], at: Date): string {
  const appliedAt = instant(at)
  const values = stored.map(({ claim: { hash, fingerprint }, results }) => {
    const text = JSON.stringify(results.map(written)).padEnd(BLANK.length)
    return `(${hex(hash)}, ${hex(fingerprint)}, ${appliedAt}, ${bytes(text)}, utc_timestamp(3))`
  })
  return `insert into idempotency_key (hash, fingerprint, applied_at, results, claimed_at) values ${values.join(', ')}
    on duplicate key update
       fingerprint = values(fingerprint),
       applied_at = values(applied_at),
       claimed_at = if(results = ${BLANK_LITERAL}, claimed_at, values(claimed_at)),
       results = values(results)`
}

function resultIn(written: StoredResult): OperationResult {
  if (!Array.isArray(written)) return written
  if (isHold(written)) return { kind: 'hold', token: written[0], expiresAt: written[1] }
  const [value, previousValue, appliedDelta, valuesIn, countedAt] = written
  const result = { value, previousValue, appliedDelta, valuesIn }
  if (countedAt === undefined) return result
  return countedAt === null ? { ...result, isUncounted: true } : { ...result, countedAt: new Date(countedAt) }
}

function isHold(written: StoredResult & unknown[]): written is [token: string, expiresAt: number] {
  return typeof written[0] === 'string'
}

function written(result: OperationResult): StoredResult {
  if ('kind' in result && result.kind === 'hold') return [result.token, result.expiresAt]
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
