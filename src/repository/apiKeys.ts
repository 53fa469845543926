import { hash as digestOf } from 'node:crypto'
import { setImmediate as nextTick } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Connection } from '../mysql/connection.ts'
import { type Database, joined } from '../mysql/pool.ts'
import { JOBS, JOINED } from '../mysql/slots.ts'
import { bytes, hex, instant, integer, list, orNull, pageBy, timeOf } from '../mysql/sql.ts'
import type { Notices } from '../operations/log.ts'
import type { Page } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import {
  type ApiKey,
  type ApiKeyOptions,
  createSecret,
  type Grant,
  isSecret,
  prefixOf,
  type Scope,
} from '../rules/rights.ts'
import { type Owner, Turns } from '../rules/turns.ts'
import { type Results, workOn } from './batches.ts'
import { repeat } from './jobs.ts'

/** Interval of the check for revocations, in milliseconds: a revocation holds everywhere within two seconds. */
const CHECK_MS = 1000
const NOTE_USE_MS = 60_000
const MAX_CACHED = 50_000
/** Maximum keys of one statement: the requests with these keys go on in one tick. */
const MAX_READ = 100

export type ApiKeys = ReturnType<typeof openApiKeys>

/**
 * API keys, with those in use in memory: a call with one of them reads nothing. A check each second finds whether any key
 * was revoked, and then forgets them: each is read again when it is used. While the database doesn't answer, keys in memory
 * remain valid until they expire.
 *
 * Keys that aren't in memory are read by one statement at a time: those that arrive meanwhile share the next one, and their
 * addresses have turns in it. So unknown keys, however many are sent, occupy one connection of the database, and a valid key
 * from another address is in the next statement. Each request waits for one key, so the limits of requests bound how many
 * wait. That a key is unknown is not remembered: it may be restored from a backup, or not have reached this node of a cluster
 * yet. So unknown keys need no memory, and evict no valid ones from it.
 */
export function openApiKeys(database: Database, definitions: Database, now: () => Date, notices: Notices) {
  const cache = new LRUCache<string, ApiKey>({ max: MAX_CACHED })
  const used = new Map<number, Date>()
  const read = joined(database, readKeys)
  /** Look-ups of hashes that wait for the next statement. */
  const lookups = new Turns<string, ApiKey | undefined>()
  let isReading = false
  /** How many keys are revoked, and the sum of their ids, as last read. */
  let revocations = ''
  const check = repeat(() => CHECK_MS, forgetRevoked, notices)
  const noting = repeat(() => NOTE_USE_MS, noteUses, notices)

  /** Forgets all keys if any was revoked: they are read again when they are used. */
  async function forgetRevoked(): Promise<void> {
    if (cache.size === 0) return
    // Revocations are permanent, so their number and the sum of their ids change with each.
    const [row] = await database.select<{ present: string }>(
      JOINED,
      `select concat(count(*), ' ', coalesce(sum(id), 0)) as present
         from api_key
        where revoked_at is not null`,
    )
    const present = String(row?.present)
    if (present !== revocations) cache.clear()
    revocations = present
  }

  /** Sends statements for the look-ups that wait, one after another, until none waits. */
  async function readWaiting(): Promise<void> {
    isReading = true
    // Look-ups of the same tick share the first statement.
    await nextTick()
    for (let batch = takeBatch(); batch.length > 0; batch = takeBatch()) {
      const results: Results<ApiKey> = new Map()
      const reading = workOn(
        batch.map(({ work }) => work),
        async (hashes) => {
          for (const key of await read(hashes)) results.set(key.hash, key)
        },
        (hash, error) => results.set(hash, error),
      )
      const resultOf = async (hash: string) => {
        await reading
        const key = results.get(hash)
        if (key instanceof Error) throw key
        return key
      }
      for (const lookup of batch) lookup.start(resultOf(lookup.work))
      await reading.catch(() => {
        // Look-ups that wait already would wait as long once more.
        for (let next = lookups.take(); next; next = lookups.take()) next.start(resultOf(next.work))
      })
    }
    isReading = false
  }

  const takeBatch = () => Array.from({ length: MAX_READ }, () => lookups.take() ?? []).flat()

  async function load(hash: string, owner: Owner): Promise<ApiKey | undefined> {
    const before = revocations
    const lookup = lookups.wait(owner, database.deadline(), hash)
    if (!isReading) void readWaiting()
    const key = await lookup
    if (!key) return undefined
    // It may have been revoked since it was read, and a check have passed before it was in memory.
    if (before !== revocations) return load(hash, owner)
    cache.set(hash, key)
    return key
  }

  /** What can't be stored is lost: the time is for people only. */
  async function noteUses(): Promise<void> {
    // In one order in every process, so that they don't deadlock.
    const uses = [...used].toSorted(([a], [b]) => a - b)
    used.clear()
    if (uses.length === 0) return
    await definitions.withRetry(JOBS, async (connection) => {
      for (const [id, at] of uses)
        await connection.query(
          `update api_key
              set last_used_at = ${instant(at)}
            where id = ${integer(id)} and (last_used_at is null or last_used_at < ${instant(at)})`,
        )
    })
  }

  return {
    /**
     * Finds the valid key with a secret; undefined: it is unknown, revoked or expired. Synchronous if it is in memory.
     *
     * @param hash SHA-256 of the secret, in hexadecimal digits
     * @param owner whose turn a look-up has
     * @throws {NthError} UNAVAILABLE if it isn't in memory and can't be read
     */
    find(secret: string, hash: string, owner: Owner): ApiKey | undefined | Promise<ApiKey | undefined> {
      const key = cache.get(hash)
      if (key) return valid(key)
      if (!isSecret(secret)) return undefined
      return load(hash, owner).then((loaded) => loaded && valid(loaded))
    },

    /**
     * Whether a key that was found is still valid. Reads it if it is no longer in memory.
     *
     * @throws {NthError} UNAVAILABLE
     */
    async isValid({ hash }: ApiKey): Promise<boolean> {
      const key = cache.get(hash) ?? (await load(hash, JOINED))
      return key !== undefined && valid(key) !== undefined
    },

    /**
     * Creates a key. Its secret is returned only here.
     *
     * @throws {NthError} UNAVAILABLE
     */
    async create(
      options: ApiKeyOptions,
      createdBy: string,
      owner = JOINED,
    ): Promise<{ secret: string; key: ApiKey }> {
      const secret = createSecret()
      const stored = { ...options, createdBy, hash: digestOf('sha256', secret), prefix: prefixOf(secret) }
      const key = await definitions.withRetry(owner, (connection) => createKey(connection, stored))
      return { secret, key }
    },

    /**
     * Revokes a key: at once in this process, in others within two seconds. A repeat changes nothing.
     *
     * @throws {NthError} NOT_FOUND, UNAVAILABLE
     */
    async revoke(id: number, by: string, owner = JOINED): Promise<ApiKey> {
      const key = await definitions.withRetry(owner, (connection) => revokeKey(connection, id, by))
      if (!key) throw new NthError('NOT_FOUND', 'There is no API key with this id.')
      if (cache.has(key.hash)) cache.set(key.hash, key)
      return key
    },

    /** Undefined: it doesn't exist. */
    read: (id: number, owner: Owner) => database.withRetry(owner, (connection) => findKey(connection, id)),
    /** In the order of their creation. */
    list: (page: Page<number>, owner = JOINED) =>
      database.withRetry(owner, (connection) => listKeys(connection, page)),

    async close(): Promise<void> {
      await Promise.all([check.close(), noting.close()])
      await noteUses().catch((error) => error instanceof NthError || notices.fault(error))
    },
  }

  function valid(key: ApiKey): ApiKey | undefined {
    const at = now()
    if (key.revokedAt || (key.expiresAt && key.expiresAt <= at)) return undefined
    used.set(key.id, at)
    return key
  }
}

type ApiKeyRow = Record<'hash' | 'prefix' | 'label' | 'grants', Buffer> &
  Record<'origins' | 'documents' | 'created_by' | 'revoked_by', Buffer | null> &
  Record<'expires_at' | 'revoked_at' | 'last_used_at', Date | null> & {
    id: number
    per_minute: number | null
    created_at: Date
  }

/** A grant as it is stored. Its scopes are `onceScopes` if it is `onceOnly`, and `boundScopes` if its key has documents. */
type StoredGrant = Omit<Grant, 'onceOnly'> &
  Partial<Record<'onceScopes' | 'boundScopes', readonly Scope[]>> & { holds?: boolean }

/**
 * Grants as they are stored. 0.2.0 ignores parts of a key that it doesn't know. It must not ignore `onceOnly` and
 * `documents`: such grants have no scopes there, so that 0.2.0 refuses what they allow.
 */
function grantsText({ grants, documents }: Pick<ApiKeyOptions, 'grants' | 'documents'>): string {
  const storedAs = ({ onceOnly, ...grant }: Grant): StoredGrant => {
    // Their schema has no HOLD: a list of keys would fail.
    const stored = {
      ...grant,
      scopes: grant.scopes.filter((scope) => scope !== 'HOLD'),
      ...(grant.scopes.includes('HOLD') && { holds: true }),
    }
    if (!onceOnly && !documents) return stored
    return { ...stored, scopes: [], [onceOnly ? 'onceScopes' : 'boundScopes']: stored.scopes }
  }
  return JSON.stringify(grants.map(storedAs))
}

function grantsIn(text: string): Grant[] {
  // Written by `grantsText` only, or by an earlier version.
  const stored = JSON.parse(text) as StoredGrant[]
  return stored.map(({ onceScopes, boundScopes, scopes, holds, ...grant }) => {
    const others = onceScopes ?? boundScopes ?? scopes
    return { ...grant, scopes: holds ? [...others, 'HOLD'] : others, onceOnly: onceScopes !== undefined }
  })
}

/** Repeatable: the hash is unique. */
async function createKey(
  connection: Connection,
  key: ApiKeyOptions & Pick<ApiKey, 'hash' | 'prefix' | 'createdBy'>,
) {
  const unused = { revokedAt: null, revokedBy: null, lastUsedAt: null }
  const created = { ...key, ...unused, createdAt: await timeOf(connection) }
  await connection.query(`${insertKey(created)} on duplicate key update hash = values(hash)`)
  const [stored] = await readKeys(connection, [key.hash])
  if (!stored) throw new Error('No API key after creating it')
  return stored
}

/** `id`: by default the next one. */
export function insertKey(key: Omit<ApiKey, 'id'>, id: number | null = null): string {
  return `insert into api_key
   set id = ${orNull(id, integer)},
       hash = ${hex(key.hash)},
       prefix = ${bytes(key.prefix)},
       label = ${bytes(key.label)},
       grants = ${bytes(grantsText(key))},
       origins = ${orNull(key.origins, (urls) => bytes(JSON.stringify(urls)))},
       per_minute = ${orNull(key.perMinute, integer)},
       documents = ${orNull(key.documents, (ids) => bytes(JSON.stringify(ids)))},
       created_at = ${instant(key.createdAt)},
       expires_at = ${orNull(key.expiresAt, instant)},
       revoked_at = ${orNull(key.revokedAt, instant)},
       created_by = ${orNull(key.createdBy, bytes)},
       revoked_by = ${orNull(key.revokedBy, bytes)},
       last_used_at = ${orNull(key.lastUsedAt, instant)}`
}

export function readKeys(connection: Connection, hashes: readonly string[]): Promise<ApiKey[]> {
  return keysIn(connection, `where hash in (${list(hashes, hex)})`)
}

async function findKey(connection: Connection, id: number): Promise<ApiKey | undefined> {
  const [key] = await keysIn(connection, `where id = ${integer(id)}`)
  return key
}

async function revokeKey(connection: Connection, id: number, by: string): Promise<ApiKey | undefined> {
  await connection.query(
    `update api_key
        set revoked_at = utc_timestamp(3), revoked_by = ${bytes(by)}
      where id = ${integer(id)} and revoked_at is null`,
  )
  return findKey(connection, id)
}

export function listKeys(connection: Connection, page: Page<number>): Promise<ApiKey[]> {
  return keysIn(connection, pageBy('id', page, integer))
}

async function keysIn(connection: Connection, rest: string): Promise<ApiKey[]> {
  const rows = await connection.select<ApiKeyRow>(
    `select id, hash, prefix, label, grants, origins, per_minute, documents,
            created_at, created_by, expires_at, revoked_at, revoked_by, last_used_at
       from api_key
      ${rest}`,
  )
  return rows.map((row) => ({
    id: row.id,
    hash: row.hash.toString('hex'),
    prefix: row.prefix.toString(),
    label: row.label.toString(),
    grants: grantsIn(row.grants.toString()),
    origins: row.origins && (JSON.parse(row.origins.toString()) as string[]),
    perMinute: row.per_minute,
    documents: row.documents && (JSON.parse(row.documents.toString()) as string[]),
    createdAt: row.created_at,
    createdBy: row.created_by?.toString() ?? null,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    revokedBy: row.revoked_by?.toString() ?? null,
    lastUsedAt: row.last_used_at,
  }))
}
