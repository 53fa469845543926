import type { Connection } from 'mysql2/promise'
import type { ApiKey, ApiKeyOptions } from '../../core/access/apiKey.ts'
import type { Page } from '../../core/counters/state.ts'
import type { Grant } from '../../rules/rights.ts'
import { bytes, digest, instant, integer, list, orNull } from '../literals.ts'
import { type Database, retried } from '../pool.ts'
import { select } from '../sql.ts'

export type ApiKeyStore = ReturnType<typeof openApiKeyStore>

/** @param definitions a database for changes */
export function openApiKeyStore(database: Database, definitions: Database) {
  return {
    create: retried(definitions, createKey),
    /** Reads the keys that exist, by their hashes, in any order. */
    read: retried(database, readKeys),
    /** Revokes a key, once; undefined: it doesn't exist. */
    revoke: retried(definitions, revokeKey),
    find: retried(database, findKey),
    /** Lists keys in the order of their creation. */
    list: retried(database, listKeys),
    /** A text that differs after any revocation. */
    readRevocations: retried(database, readRevocations),
    /** Stores when keys were last used. */
    noteUse: retried(definitions, noteUse),
  }
}

interface ApiKeyRow extends Record<'hash' | 'prefix' | 'label' | 'grants', Buffer> {
  id: number
  origins: Buffer | null
  per_minute: number | null
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  last_used_at: Date | null
}

/** Repeatable: the hash is unique. */
async function createKey(connection: Connection, key: ApiKeyOptions & Pick<ApiKey, 'hash' | 'prefix'>) {
  const { hash, prefix, label, grants, origins, perMinute, expiresAt } = key
  await connection.query(
    `insert into api_key (hash, prefix, label, grants, origins, per_minute, created_at, expires_at)
     values (${digest(hash)}, ${bytes(prefix)}, ${bytes(label)}, ${bytes(JSON.stringify(grants))},
             ${orNull(origins, (urls) => bytes(JSON.stringify(urls)))}, ${orNull(perMinute, integer)},
             utc_timestamp(3), ${orNull(expiresAt, instant)})
     on duplicate key update hash = values(hash)`,
  )
  const [created] = await readKeys(connection, [hash])
  if (!created) throw new Error('No API key after creating it')
  return created
}

export function readKeys(connection: Connection, hashes: readonly string[]): Promise<ApiKey[]> {
  return keysIn(connection, `where hash in (${list(hashes, digest)})`)
}

async function findKey(connection: Connection, id: number): Promise<ApiKey | undefined> {
  const [key] = await keysIn(connection, `where id = ${integer(id)}`)
  return key
}

async function revokeKey(connection: Connection, id: number): Promise<ApiKey | undefined> {
  await connection.query(
    `update api_key
        set revoked_at = utc_timestamp(3)
      where id = ${integer(id)} and revoked_at is null`,
  )
  return findKey(connection, id)
}

export function listKeys(
  connection: Connection,
  { after, before, limit, fromEnd }: Page<number>,
): Promise<ApiKey[]> {
  const conditions = [
    ...(after === undefined ? [] : [`id > ${integer(after)}`]),
    ...(before === undefined ? [] : [`id < ${integer(before)}`]),
  ]
  return keysIn(
    connection,
    `where ${['true', ...conditions].join(' and ')}
     order by id ${fromEnd ? 'desc' : 'asc'}
     limit ${integer(limit)}`,
  )
}

/** Revocations are permanent, so their number and the sum of their ids change with each. */
async function readRevocations(connection: Connection): Promise<string> {
  const [row] = await select<{ revocations: string }>(
    connection,
    `select concat(count(*), ' ', coalesce(sum(id), 0)) as revocations
       from api_key
      where revoked_at is not null`,
  )
  return String(row?.revocations)
}

async function noteUse(connection: Connection, uses: readonly { id: number; at: Date }[]): Promise<void> {
  // In one order in every process, so that they don't deadlock.
  for (const { id, at } of uses.toSorted((a, b) => a.id - b.id)) {
    await connection.query(
      `update api_key
          set last_used_at = ${instant(at)}
        where id = ${integer(id)} and (last_used_at is null or last_used_at < ${instant(at)})`,
    )
  }
}

async function keysIn(connection: Connection, rest: string): Promise<ApiKey[]> {
  const rows = await select<ApiKeyRow>(
    connection,
    `select id, hash, prefix, label, grants, origins, per_minute,
            created_at, expires_at, revoked_at, last_used_at
       from api_key
      ${rest}`,
  )
  return rows.map((row) => ({
    id: row.id,
    hash: row.hash.toString('hex'),
    prefix: row.prefix.toString(),
    label: row.label.toString(),
    // Written by `createKey` only.
    grants: JSON.parse(row.grants.toString()) as Grant[],
    origins: row.origins && (JSON.parse(row.origins.toString()) as string[]),
    perMinute: row.per_minute,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
  }))
}
