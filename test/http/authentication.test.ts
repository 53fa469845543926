import { hash } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import type { Database } from '../../src/mysql/pool.ts'
import { SILENT } from '../../src/operations/log.ts'
import { openApiKeys } from '../../src/repository/apiKeys.ts'
import { unavailable } from '../../src/rules/errors.ts'
import { createSecret, EVERYTHING, isSecret } from '../../src/rules/rights.ts'
import type { Owner } from '../../src/rules/turns.ts'
import { upTo } from '../support/client/client.ts'
import { ADMIN_KEY, as, startProtected } from '../support/client/keys.ts'
import { countRequests } from '../support/client/wire.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openSwitchboard } from '../support/database/switchboard.ts'
import { startFront } from '../support/server/front.ts'
import { startService } from '../support/server/service.ts'

const READ = '{ counter(name: "c") { value } }'
const INCREMENT = 'mutation { increment(name: "c") { value } }'
const SHOP = 'https://shop.example'
const EVIL = 'https://evil.example'

const KEY_OPTIONS = {
  label: 'x',
  grants: [EVERYTHING],
  origins: null,
  perMinute: null,
  documents: null,
  expiresAt: null,
}

/** Whoever sends a key that is not known yet. */
const CALLER: Owner = { identity: 'unknown', address: '192.0.2.1', arrivedAt: 0, hasLeft: false }

/** The API keys of a database, without a service; closed when the test has finished. */
function openTestKeys(database: Database, now = () => new Date()) {
  const keys = openApiKeys(database, database, now, { ...SILENT, fault: console.error })
  onTestFinished(keys.close)
  return keys
}

/** Sends a request as a browser or a program would. */
async function call(url: string, { secret, query = READ, ...headers }: Record<string, string | undefined>) {
  const { path = '/graphql', ...others } = headers
  const given = Object.entries(others).filter(([, value]) => value !== undefined) as [string, string][]
  const response = await fetch(url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      ...Object.fromEntries(given),
    },
    body: JSON.stringify({ query }),
  })
  const body = await response.json()
  const [error] = body.errors ?? []
  return {
    status: response.status,
    headers: response.headers,
    body,
    code: error?.extensions.code,
    message: error?.message,
  }
}

it('credentials: that are wrong are rejected with 401, such as a key that this process has just revoked', async () => {
  const { url, as, createKey, admin } = await startProtected()
  const { secret, id } = await createKey([{ scopes: ['READ', 'ADD'] }])
  // The process has it in memory.
  await as(secret).ask(READ)
  await admin.ask(`mutation { revokeApiKey(id: "${id}") { revokedAt } }`)
  const wrong = [
    `Bearer ${secret}`,
    `Bearer ${createSecret()}`,
    `Bearer nth_${'0'.repeat(40)}`,
    `Bearer ${secret.slice(0, -1)}`,
    'Bearer eyJhbGciOiJub25lIn0.e30.',
    `Bearer ${ADMIN_KEY}x`,
    `Basic ${Buffer.from(`admin:${ADMIN_KEY}`).toString('base64')}`,
    'Bearer',
    ADMIN_KEY,
  ]
  const statements = collectStatements()
  for (const authorization of wrong) {
    const { status, code, headers, body } = await call(url, { authorization, query: INCREMENT })
    expect([status, code, headers.get('www-authenticate')], authorization).toEqual([
      401,
      'UNAUTHENTICATED',
      'Bearer realm="Nth", error="invalid_token"',
    ])
    expect(body).not.toHaveProperty('data')
  }
  expect(statements).toEqual([])
  expect(await admin.ask(READ)).toEqual({ counter: { value: 0 } })
})

it('keys: are accepted until the instant of their expiry', async () => {
  let at = Date.now()
  const front = await startFront({ access: { adminKey: ADMIN_KEY }, now: () => new Date(at) })
  const expiresAt = new Date(at + 60_000)
  const { createApiKey } = await as(front, ADMIN_KEY).ask(
    'mutation ($at: DateTime!) { createApiKey(label: "test", grants: [{ scopes: [READ] }], expiresAt: $at) { secret } }',
    { at: expiresAt },
  )
  const { ask, send } = as(front, createApiKey.secret)
  at = expiresAt.getTime() - 1
  expect(await ask('{ viewer { kind expiresAt key { label } } }')).toEqual({
    viewer: { kind: 'KEY', expiresAt: expiresAt.toISOString(), key: { label: 'test' } },
  })
  at += 1
  expect((await send(READ)).status).toBe(401)
})

it('revokeApiKey: revokes a key in every process within two seconds', async () => {
  const { admin, createKey, target } = await startProtected()
  const other = await startService({ target, access: { adminKey: ADMIN_KEY } })
  const { secret, id } = await createKey([{ scopes: ['READ'] }])
  const bystander = await createKey([{ scopes: ['READ'] }])
  for (const used of [secret, bystander.secret]) await as(other, used).ask(READ)
  const checks = collectStatements('revoked_at is not null')
  expect(
    (await admin.ask(`mutation { revokeApiKey(id: "${id}") { revokedAt } }`)).revokeApiKey.revokedAt,
  ).not.toBeNull()
  await expect.poll(async () => (await as(other, secret).send(READ)).status, { interval: 20 }).toBe(401)
  // Both processes check once a second. The first check may have begun before, and one more after the refusal.
  expect(checks.length).toBeLessThanOrEqual(2 * 3)
  expect((await as(other, bystander.secret).send(READ)).status).toBe(200)
})

it('keys: are stored as hashes only', async () => {
  const { createKey, target } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ'] }])
  expect(isSecret(secret)).toBe(true)
  const [row] = await query(target, 'select *, hex(hash) as digest from api_key')
  expect(row?.digest).toHaveLength(64)
  for (const column of Object.values(row ?? {})) expect(String(column)).not.toContain(secret.slice(12))
})

it('lastUsedAt: is recorded with one write for all calls of a key', async () => {
  const target = await freshDatabase()
  const database = openTestDatabase(target)
  const keys = openTestKeys(database)
  const { secret, key } = await keys.create(KEY_OPTIONS, 'ADMIN')
  const statements = collectStatements('api_key')
  for (let use = 0; use < 10; use++) await keys.find(secret, key.hash, CALLER)
  const before = Date.now()
  await keys.close()
  expect(statements.filter((statement) => statement.startsWith('update'))).toHaveLength(1)
  const [row] = await query(target, `select last_used_at from api_key where id = ${key.id}`)
  expect(Math.abs(row?.last_used_at.getTime() - before)).toBeLessThan(60_000)
  // Later uses replace earlier ones, whoever notes them first.
  const times = [before + 5000, before + 2000]
  for (const time of times) {
    const other = openTestKeys(database, () => new Date(time))
    await other.find(secret, key.hash, CALLER)
    await other.close()
  }
  const [later] = await query(target, `select last_used_at from api_key where id = ${key.id}`)
  expect(later?.last_used_at.getTime()).toBe(times[0])
})

it('origins: of a key are those whose pages can use it, and others can read why not', async () => {
  const { url, createKey } = await startProtected()
  const shop = (await createKey([{ scopes: ['READ'] }], { origins: [SHOP] })).secret
  const any = (await createKey([{ scopes: ['READ'] }], { origins: ['*'] })).secret
  const server = (await createKey([{ scopes: ['READ'] }])).secret
  const own = url
  const tries: [string, Record<string, string>, number][] = [
    [shop, { origin: SHOP }, 200],
    [shop, { origin: own }, 200],
    [shop, { origin: EVIL }, 403],
    [shop, { origin: 'null' }, 403],
    [shop, { origin: `${SHOP}.evil.example` }, 403],
    [shop, {}, 403],
    [shop, { 'sec-fetch-site': 'same-origin' }, 200],
    [shop, { 'sec-fetch-site': 'cross-site' }, 403],
    [shop, { referer: `${SHOP}/books?id=1` }, 200],
    [shop, { referer: `${EVIL}/?${SHOP}` }, 403],
    [any, { origin: EVIL }, 200],
    [any, {}, 200],
    [server, {}, 200],
    [server, { origin: own }, 200],
    [server, { origin: SHOP }, 403],
    [ADMIN_KEY, { origin: SHOP }, 403],
    [ADMIN_KEY, { origin: own }, 200],
  ]
  for (const [secret, headers, expected] of tries) {
    const about = JSON.stringify([secret === shop ? 'shop' : secret === any ? 'any' : 'server', headers])
    const { status, code, headers: received } = await call(url, { secret, ...headers })
    expect([status, code], about).toEqual([expected, expected === 403 ? 'FORBIDDEN' : undefined])
    if (headers.origin) expect(received.get('access-control-allow-origin'), about).toBe(headers.origin)
    expect(received.get('access-control-allow-credentials')).toBeNull()
  }
  const unknown = await call(url, { secret: createSecret(), origin: EVIL })
  expect([unknown.status, unknown.headers.get('access-control-allow-origin')]).toEqual([401, EVIL])
})

it('NTH_PUBLIC_URL: says which pages are its own', async () => {
  const publicOrigin = 'https://nth.example'
  const { url } = await startProtected({ access: { publicOrigin } })
  expect((await call(url, { secret: ADMIN_KEY, origin: publicOrigin })).status).toBe(200)
  expect((await call(url, { secret: ADMIN_KEY, origin: SHOP })).status).toBe(403)
})

it('preflights: let any page ask whether it may send a key', async () => {
  const { url } = await startProtected()
  const preflight = async (requested: string) => {
    const headers = {
      origin: EVIL,
      'access-control-request-method': 'POST',
      'access-control-request-headers': requested,
    }
    const { status, headers: received } = await fetch(`${url}/graphql`, { method: 'OPTIONS', headers })
    return [status, received.get('access-control-allow-origin'), received.get('access-control-allow-headers')]
  }
  expect(await preflight('authorization,content-type')).toEqual([204, EVIL, 'authorization,content-type'])
  expect(await preflight('content-type')).toEqual([204, null, null])
  expect(await preflight('content-type,x-authorization')).toEqual([204, null, null])
  expect(await preflight('Content-Type, Authorization')).toEqual([204, EVIL, 'Content-Type, Authorization'])
})

it('keys: of pages are accepted in the URL, and no others', async () => {
  const { url, createKey } = await startProtected()
  const any = (await createKey([{ scopes: ['READ'] }], { origins: ['*'] })).secret
  const server = (await createKey([{ scopes: ['READ'] }])).secret
  const get = async (parameters: string) => {
    const response = await fetch(`${url}/graphql?${parameters}`)
    return [response.status, await response.json()]
  }
  const text = encodeURIComponent(READ)
  expect(await get(`query=${text}&key=${any}`)).toEqual([200, { data: { counter: { value: 0 } } }])
  expect(await get(`%6bey=${any}&query=${text}`)).toEqual([200, { data: { counter: { value: 0 } } }])
  for (const secret of [server, ADMIN_KEY]) {
    const [status, body] = await get(`query=${text}&key=${secret}`)
    expect([status, body.errors[0].extensions.code]).toEqual([403, 'FORBIDDEN'])
  }
  const [status] = await get(`query=${text}&key=`)
  expect(status).toBe(401)
})

it('anonymous callers: may do all on loopback without configuration, except through a proxy', async () => {
  const { url, ask } = await startService()
  expect(await ask('{ viewer { kind grants { scopes namespace } } }')).toEqual({
    viewer: {
      kind: 'ANONYMOUS',
      grants: [{ scopes: ['READ', 'ADD', 'NUMBER', 'HOLD', 'WRITE', 'DEFINE', 'ADMIN'], namespace: null }],
    },
  })
  const { createApiKey } = await ask(
    'mutation { createApiKey(label: "x", grants: [{ scopes: [READ] }]) { secret } }',
  )
  for (const header of ['forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-real-ip', 'via']) {
    const { status, code, message } = await call(url, { [header]: '1.1.1.1' })
    expect([status, code], header).toEqual([403, 'FORBIDDEN'])
    expect(message).toMatch(/NTH_ADMIN_KEY.*NTH_ANONYMOUS/)
    expect((await call(url, { secret: createApiKey.secret, [header]: '1.1.1.1' })).status).toBe(200)
  }
  // A key that is sent is checked here as well.
  expect((await call(url, { secret: createSecret() })).status).toBe(401)
  expect((await call(url, { secret: createApiKey.secret, query: INCREMENT })).code).toBe('FORBIDDEN')
})

/** A database that reads keys by their hashes only when a test starts that. */
async function databaseWithHeldReads() {
  const reads: { hashes: string[]; start: () => void }[] = []
  const target = await startProxy(await freshDatabase(), async (statement) => {
    const hashes = statement.match(/(?<=x')[0-9a-f]{64}(?=')/g)
    if (hashes && !statement.includes('insert'))
      await new Promise<void>((start) => reads.push({ hashes, start }))
    return 'passes' as const
  })
  return { reads, target }
}

it('look-ups: read at most 100 keys by one statement, also of another address, however many of one wait', async () => {
  const { reads, target } = await databaseWithHeldReads()
  const { url } = await startProtected({ target, access: { trustedProxies: ['127.0.0.1'] } })
  const received = countRequests()
  const send = async (address: string, secret = createSecret()) =>
    (await call(url, { secret, 'x-forwarded-for': address })).status
  const first = send('192.0.2.1')
  await expect.poll(() => reads.length).toBe(1)
  const unknown = Array.from({ length: 250 }, () => send('192.0.2.1'))
  const secret = createSecret()
  await expect.poll(received).toBe(251)
  const honest = send('2001:db8::1', secret)
  await expect.poll(received).toBe(252)
  for (const read of reads.splice(0)) read.start()
  await expect.poll(() => reads.length).toBe(1)
  expect(reads[0]?.hashes).toHaveLength(100)
  expect(reads[0]?.hashes.slice(0, 2)).toContain(hash('sha256', secret))
  let isDone = false
  const statuses = Promise.all([first, honest, ...unknown]).finally(() => {
    isDone = true
  })
  while (!isDone) {
    expect(reads.length).toBeLessThanOrEqual(1)
    for (const read of reads.splice(0)) read.start()
    await new Promise(setImmediate)
  }
  expect(new Set(await statuses)).toEqual(new Set([401]))
})

it('look-ups: all fail that wait when the database cannot be read, and the next one tries again', async () => {
  const database = openTestDatabase(await freshDatabase())
  let isAway = false
  let reads = 0
  const withRetry: Database['withRetry'] = async (owner, work) => {
    reads += 1
    if (!isAway) return database.withRetry(owner, work)
    await new Promise(setImmediate)
    throw unavailable('The database is unreachable.')
  }
  const deadline = () => database.deadline()
  const keys = openTestKeys(Object.assign(Object.create(database), { withRetry, deadline }))
  const { secret, key } = await keys.create(KEY_OPTIONS, 'ADMIN')
  isAway = true
  reads = 0
  const found = await Promise.allSettled(
    Array.from({ length: 1200 }, () => keys.find(secret, key.hash, CALLER)),
  )
  expect(new Set(found.map(({ status }) => status))).toEqual(new Set(['rejected']))
  // Each further one would make its callers wait until the time limit once more.
  expect(reads).toBe(1)
  isAway = false
  expect(await keys.find(secret, key.hash, CALLER)).toEqual(key)
})

it('look-ups: read a key again that was not found before, as it may have been restored since', async () => {
  const target = await freshDatabase()
  const keys = openTestKeys(openTestDatabase(target))
  const secret = createSecret()
  const digest = hash('sha256', secret)
  expect(await keys.find(secret, digest, CALLER)).toBeUndefined()
  const { key } = await keys.create(KEY_OPTIONS, 'ADMIN')
  await query(target, `update api_key set hash = x'${digest}' where id = ${key.id}`)
  expect(await keys.find(secret, digest, CALLER)).toEqual({ ...key, hash: digest })
})

it('look-ups: fail for a key alone whose row cannot be parsed, beside which a revocation is noticed', async () => {
  const target = await freshDatabase()
  const database = openTestDatabase(target)
  const [keys, other] = [openTestKeys(database), openTestKeys(database)]
  const created = await Promise.all(upTo(3).map(() => keys.create(KEY_OPTIONS, 'ADMIN')))
  const findAll = () =>
    Promise.allSettled(created.map(({ secret, key }) => keys.find(secret, key.hash, CALLER)))
  await query(target, `update api_key set grants = 'x' where id = ${created[1]?.key.id}`)
  expect((await findAll()).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  await other.revoke(Number(created[2]?.key.id), 'ADMIN')
  await expect.poll(async () => (await findAll())[2]).toEqual({ status: 'fulfilled', value: undefined })
  expect((await findAll())[0]).toMatchObject({ value: created[0]?.key })
})

it('perMinute: limits the changes of a key from each address, with when to come back', async () => {
  const { as, createKey, admin } = await startProtected({ access: { trustedProxies: ['127.0.0.0/8'] } })
  const { secret } = await createKey([{ scopes: ['ADD', 'READ'], maxDelta: 5 }], { perMinute: 4 })
  const from = (address: string, query: string) =>
    as(secret).send(query, {}, { 'x-forwarded-for': `8.8.8.8, ${address}` })
  const add = (name: string) => `${name}: increment(name: "c") { value }`
  const cart = 'incrementMany(changes: [{ name: "c" }, { name: "d" }]) { value }'
  expect((await from('1.1.1.1', `mutation { ${add('a')} ${cart} }`)).errors).toBeUndefined()
  // One is left: of a document, what fits is applied.
  const mixed = await from('1.1.1.1', `mutation { ${add('a')} ${add('b')} }`)
  expect([mixed.status, mixed.data]).toEqual([200, { a: { value: 3 }, b: null }])
  for (const _ of [1, 2, 3]) {
    const { status, data, errors } = await from('1.1.1.1', `mutation { ${add('a')} ${add('b')} }`)
    expect([status, data, errors?.map(({ path }) => path)]).toEqual([429, undefined, [['a'], ['b']]])
    expect(errors?.[0]?.extensions).toMatchObject({ code: 'RATE_LIMITED', retryable: true })
    expect(errors?.[0]?.extensions.retryAfterMs).toBeGreaterThan(5_000)
    expect(errors?.[0]?.extensions.retryAfterMs).toBeLessThanOrEqual(15_000)
  }
  // A change without a right is refused as such. Reads, other addresses and other keys have their own.
  const forbidden = await from('1.1.1.1', 'mutation { reset(name: "c") { value } }')
  expect(forbidden.errors?.[0]?.extensions.code).toBe('FORBIDDEN')
  expect((await from('1.1.1.1', READ)).data).toEqual({ counter: { value: 3 } })
  expect((await from('2.2.2.2', `mutation { ${add('a')} }`)).data).toEqual({ a: { value: 4 } })
  expect(await admin.ask(INCREMENT)).toEqual({ increment: { value: 5 } })
})

it('perMinute: of keys for pages and callers without a key is configured, where a key has none', async () => {
  const access = { anonymous: ['ADD'] as const, anonymousPerMinute: 2, browserPerMinute: 3 }
  const { as, createKey } = await startProtected({ access })
  const grants = [{ scopes: ['ADD'] }]
  const page = { origins: ['*'] }
  for (const [options, expected] of [
    [undefined, 2],
    [page, 3],
    [{ ...page, perMinute: 5 }, 5],
    [{}, 8],
  ] as const) {
    const { send } = as(options && (await createKey(grants, options)).secret)
    let allowed = 0
    while (allowed < 8 && (await send(INCREMENT)).status === 200) allowed += 1
    expect(allowed, JSON.stringify(options)).toBe(expected)
  }
})

it('keys: that are known hold while the database is away, and no others can be looked up', async () => {
  const database = await freshDatabase()
  const line = await openSwitchboard(database)
  const { as, createKey, url } = await startProtected({ target: line.target, writeTimeoutMs: 1000 })
  const [known, unseen] = [await createKey([{ scopes: ['READ'] }]), await createKey([{ scopes: ['READ'] }])]
  await as(known.secret).ask(READ)
  // Nothing listens there.
  line.switchTo({ ...database, socketPath: '/nowhere.sock' })
  expect(await as(known.secret).ask('{ viewer { kind } }')).toEqual({ viewer: { kind: 'KEY' } })
  expect(await as(known.secret).refusal(INCREMENT)).toMatchObject({ code: 'FORBIDDEN' })
  const { status, code, body } = await call(url, { secret: unseen.secret })
  expect([status, code, body.errors[0].extensions.retryable]).toEqual([503, 'UNAVAILABLE', true])
})
