import type { Connection } from 'mysql2/promise'
import type { IdempotencyKeyEntry } from '../../../core/transfer/entries.ts'
import { bytes } from '../../literals.ts'
import { select } from '../../select.ts'
import { pagesOf } from './pages.ts'

type Row = Record<'hash' | 'fingerprint' | 'results', Buffer> & Record<'applied_at' | 'claimed_at', Date>

/** Keys per statement: the results of one may have a thousand items. */
const KEYS = 200

/** Idempotency keys with their results, in the order of their hashes. */
export async function* exportIdempotencyKeys(connection: Connection): AsyncGenerator<IdempotencyKeyEntry> {
  const read = (after: Row | undefined) =>
    select<Row>(
      connection,
      `select hash, fingerprint, results, applied_at, claimed_at
         from idempotency_key
        where hash > ${bytes(after?.hash ?? '')} and results is not null
        order by hash
        limit ${KEYS}`,
    )
  for await (const page of pagesOf(read, KEYS)) {
    for (const { hash, fingerprint, results, applied_at, claimed_at } of page) {
      yield {
        type: 'idempotencyKey',
        hash: hash.toString('hex'),
        fingerprint: fingerprint.toString('hex'),
        appliedAt: applied_at,
        claimedAt: claimed_at,
        // Written by `storeResults` only.
        results: JSON.parse(results.toString()) as unknown[],
      }
    }
  }
}
