import type { ApiKeyEntry } from '../../../core/transfer/entries.ts'
import type { Result } from '../../../core/transfer/outcome.ts'
import { readKeys } from '../../access/apiKeys.ts'
import { bytes, digest, instant, integer, list, orNull } from '../../literals.ts'
import { select } from '../../select.ts'
import { type ImportContext, write } from './context.ts'

/** Creates missing keys, with the same id where it is free, and revokes those that were revoked. */
export async function importApiKeys(
  context: ImportContext,
  entries: readonly ApiKeyEntry[],
): Promise<Result[]> {
  const present = new Map((await readKeys(context.connection, entries)).map((key) => [key.hash, key]))
  const missing = entries.filter(({ hash }) => !present.has(hash))
  if (missing.length > 0) {
    const taken = await takenIds(context, missing)
    const isFree = (id: number) => !taken.has(id) && taken.add(id).has(id)
    await write(
      context,
      `insert into api_key
              (id, hash, prefix, label, grants, origins, per_minute,
               created_at, expires_at, revoked_at, last_used_at)
       values ${list(missing, (entry) => valuesOf(entry, isFree(entry.id)))}`,
    )
  }
  const revoked = entries.filter(({ hash, revokedAt }) => revokedAt && present.get(hash)?.revokedAt === null)
  for (const { hash, revokedAt } of revoked) {
    await write(
      context,
      `update api_key
          set revoked_at = ${orNull(revokedAt, instant)}
        where hash = ${digest(hash)} and revoked_at is null`,
    )
  }
  return entries.map((entry) => ({
    outcome: missing.includes(entry) ? 'created' : revoked.includes(entry) ? 'raised' : 'unchanged',
  }))
}

async function takenIds({ connection }: ImportContext, entries: readonly ApiKeyEntry[]) {
  const statement = `select id from api_key where id in (${list(entries, ({ id }) => integer(id))})`
  return new Set((await select<{ id: number }>(connection, statement)).map(({ id }) => id))
}

/** The id is part of a caller's identity, to which idempotency keys belong. */
function valuesOf(entry: ApiKeyEntry, keepsId: boolean): string {
  const { id, hash, prefix, label, grants, origins, perMinute } = entry
  const json = (value: unknown) => bytes(JSON.stringify(value))
  const times = [entry.expiresAt, entry.revokedAt, entry.lastUsedAt].map((at) => orNull(at, instant))
  const values = [
    keepsId ? integer(id) : 'null',
    digest(hash),
    bytes(prefix),
    bytes(label),
    json(grants),
    orNull(origins, json),
    orNull(perMinute, integer),
    instant(entry.createdAt),
    ...times,
  ]
  return `(${values.join(', ')})`
}
