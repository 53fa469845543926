import type { IdempotencyKeyEntry } from '../../../core/transfer/entries.ts'
import type { Result } from '../../../core/transfer/outcome.ts'
import { bytes, digest, instant, list } from '../../literals.ts'
import { select } from '../../select.ts'
import { type ImportContext, write } from './context.ts'

/** Creates missing keys, in the order in which flushes claim them. */
export async function importIdempotencyKeys(
  context: ImportContext,
  entries: readonly IdempotencyKeyEntry[],
): Promise<Result[]> {
  const rows = await select<{ hash: Buffer }>(
    context.connection,
    `select hash from idempotency_key where hash in (${list(entries, ({ hash }) => digest(hash))})`,
  )
  const present = new Set(rows.map(({ hash }) => hash.toString('hex')))
  const missing = entries
    .filter(({ hash }) => !present.has(hash))
    .toSorted((a, b) => (a.hash < b.hash ? -1 : 1))
  if (missing.length > 0) {
    await write(
      context,
      `insert into idempotency_key (hash, fingerprint, results, applied_at, claimed_at)
       values ${list(missing, valuesOf)}`,
    )
  }
  return entries.map(({ hash }) => ({ outcome: present.has(hash) ? 'unchanged' : 'created' }))
}

function valuesOf({ hash, fingerprint, results, appliedAt, claimedAt }: IdempotencyKeyEntry): string {
  return `(${digest(hash)}, ${digest(fingerprint)}, ${bytes(JSON.stringify(results))}, ${instant(appliedAt)}, ${instant(claimedAt)})`
}
