// @module-tag slow
import { expect, it } from 'vitest'
import { startIssuer } from '../support/client/issuer.ts'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { freePort } from '../support/server/freePort.ts'
import { spawnNth, startNth } from '../support/server/nthProcess.ts'

const SECRET = 'a value that is secret'

async function started(more: Record<string, string> = {}) {
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    NTH_ADMIN_KEY: ADMIN_KEY,
    ...more,
  })
  const lines = () =>
    nth
      .errors()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
  return { nth, admin: as(nth, ADMIN_KEY), lines }
}

it('log: has a line for each request that failed, without what it was sent', { tags: 'quick' }, async () => {
  const { nth, admin, lines } = await started()
  const query = 'query Wrong($name: String!) { counter(name: $name) { value } }'
  const headers = { 'x-request-id': 'from-the-proxy' }
  const secret = `nth_${'0'.repeat(40)}`
  const tooLong = SECRET.repeat(50)
  expect((await admin.send(query, { name: 'fine' })).errors).toBeUndefined()
  await admin.send(query, { name: tooLong }, headers)
  await as(nth, secret).send(query, { name: SECRET })
  await nth.send('{ counter(name: "fine") { value } }')
  await expect.poll(lines).toHaveLength(3)
  expect(lines()).toEqual([
    expect.objectContaining({
      level: 30,
      msg: 'Request failed',
      requestId: 'from-the-proxy',
      operation: 'query',
      operationName: 'Wrong',
      code: 'BAD_USER_INPUT',
      key: 'ADMIN',
    }),
    expect.objectContaining({ code: 'UNAUTHENTICATED', requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) }),
    expect.objectContaining({ code: 'UNAUTHENTICATED', key: 'ANONYMOUS' }),
  ])
  expect(nth.output()).not.toContain(SECRET)
  expect(nth.output()).not.toContain(ADMIN_KEY)
  expect(nth.output()).not.toContain(secret)
})

it('x-request-id: is returned with a failure, under which it was logged', async () => {
  const { nth, lines } = await started()
  const ask = async (init: RequestInit) =>
    (await fetch(`${nth.url}/graphql`, init)).headers.get('x-request-id')
  const json = { 'content-type': 'application/json' }
  const ids = [
    await ask({ method: 'POST', headers: json, body: '{"query":"{ viewer { kind } }"}' }),
    await ask({ method: 'POST', headers: json, body: '{"query":"{ counter(name: \\"a\\") { value } }"}' }),
    await ask({ method: 'POST', headers: json, body: '{' }),
    await ask({ method: 'POST', headers: { ...json, authorization: 'Bearer nth_x' }, body: '{}' }),
    await ask({ method: 'POST', headers: { ...json, 'x-request-id': 'a\tb' }, body: '{}' }),
  ]
  expect(ids[0]).toBeNull()
  await expect.poll(lines).toHaveLength(4)
  expect(lines().map(({ requestId }) => requestId)).toEqual(ids.slice(1))
  expect(ids[4]).toMatch(/^[0-9a-f-]{36}$/)
})

it('NTH_LOG_LEVEL: is the level of the log', async () => {
  const all = await started({ NTH_LOG_LEVEL: 'debug' })
  await all.admin.send('query Fine { counter(name: "a") { value } }')
  await expect
    .poll(all.lines)
    .toEqual([
      expect.objectContaining({ level: 20, msg: 'Request answered', operationName: 'Fine', key: 'ADMIN' }),
    ])
  const few = await started({ NTH_LOG_LEVEL: 'warn' })
  await few.nth.send('{ wrong }')
  await few.nth.send('{ counter(name: "a") { value } }')
  expect(few.lines()).toEqual([])
})

it('log: prints nothing but JSON where the output is no terminal, at any level', {
  tags: 'quick',
}, async () => {
  const { nth, admin } = await started({ NTH_LOG_LEVEL: 'error', NTH_METRICS_PORT: '0' })
  await admin.send('{ wrong }')
  const printed = nth.raw().trim().split('\n')
  expect(printed.map((line) => JSON.parse(line).msg)).toEqual([
    expect.stringMatching(/^Nth \d/),
    expect.stringMatching(/^Metrics: http/),
    expect.stringContaining('Nth is running'),
  ])
  const refused = spawnNth({ NTH_LOG_LEVEL: 'silent', PORT: 'x' })
  expect(await refused.exited).toBe(1)
  expect(JSON.parse(refused.raw())).toMatchObject({ level: 60, msg: expect.stringMatching(/^PORT must be/) })
})

it('audit log: says who changed what by hand, and no addition', { tags: 'quick' }, async () => {
  const { nth, admin, lines } = await started()
  const audited = () => lines().filter(({ msg }) => msg === 'Audit')
  const headers = { 'x-request-id': 'from-the-proxy' }
  const created = await admin.send(
    'mutation { createApiKey(label: "shop", grants: [{ scopes: [ADMIN] }]) { secret key { id prefix createdBy revokedBy } } }',
  )
  const { secret, key } = created.data.createApiKey
  expect(key).toMatchObject({ createdBy: 'ADMIN', revokedBy: null })
  const byKey = as(nth, secret)
  for (const change of [
    'increment(name: "a") { value }',
    'incrementMany(changes: [{ name: "a", delta: 1 }, { name: "b", delta: 1 }]) { value }',
    'nextInSequence(name: "t") { value }',
    'reset(name: "a", to: 7) { value }',
    'reset(name: "a", to: 8, expectedValue: 1) { value }',
    'resetAll(namespace: "default", prefix: "a", to: 0) { resetCount }',
    'defineCounter(name: "a", definition: { maxValue: 9 }, namespace: "shop") { id }',
    'deleteCounter(name: "a") { value }',
    'restartSequence(name: "t", group: "g", nextValue: 5) { id }',
    'defineSequence(name: "t", definition: { step: 2 }) { id }',
    'deleteSequence(name: "t") { id }',
    'defineNamespace(name: "shop", definition: { timeZone: "Europe/Berlin" }) { id }',
    'addTrustedDocuments(documents: [{ documentId: "x", text: "{ __typename }" }]) { text }',
    'removeTrustedDocument(documentId: "x") { text }',
  ])
    await byKey.send(`mutation { ${change} }`, {}, headers)
  const revoked = await admin.send(`mutation { revokeApiKey(id: "${key.id}") { createdBy revokedBy } }`)
  expect(revoked.data.revokeApiKey).toEqual({ createdBy: 'ADMIN', revokedBy: 'ADMIN' })
  const made = (field: string, target: object, by = key.prefix, requestId: unknown = 'from-the-proxy') => ({
    requestId,
    audit: { field, by, ...target },
  })
  const byAdmin = (field: string) =>
    made(field, { name: key.prefix }, 'ADMIN', expect.stringMatching(/^[0-9a-f-]{36}$/))
  const inDefault = { namespace: 'default' }
  await expect.poll(() => audited().length).toBe(12)
  expect(audited().map(({ requestId, audit }) => ({ requestId, audit }))).toEqual([
    byAdmin('createApiKey'),
    made('reset', { ...inDefault, name: 'a' }),
    made('resetAll', { ...inDefault, prefix: 'a', count: 1 }),
    made('defineCounter', { namespace: 'shop', name: 'a' }),
    made('deleteCounter', { ...inDefault, name: 'a' }),
    made('restartSequence', { ...inDefault, name: 't', group: 'g' }),
    made('defineSequence', { ...inDefault, name: 't' }),
    made('deleteSequence', { ...inDefault, name: 't' }),
    made('defineNamespace', { namespace: 'shop' }),
    made('addTrustedDocuments', { count: 1 }),
    made('removeTrustedDocument', { name: 'x' }),
    byAdmin('revokeApiKey'),
  ])
  expect(nth.output()).not.toContain(secret)
})

it('log: says why a token is refused, or its issuer’s keys are missing, without the token', async () => {
  const { settings, token, rsa } = await startIssuer()
  const environment = { NTH_JWT_ISSUER: settings.issuer, NTH_JWT_AUDIENCE: settings.audience }
  const { nth, lines } = await started({ ...environment, NTH_JWT_JWKS_URL: settings.jwksUrl })
  const ask = (text: string) => as(nth, text).send('{ viewer { kind } }')
  const tokens = [
    await token({ exp: 1 }),
    await token({ aud: 'other' }),
    await token({ iss: 'https://evil.example' }),
    await token({ sub: undefined }),
    await token({ sub: 'x'.repeat(256) }),
    await token({}, { kid: 'unknown', alg: 'RS256', key: rsa.privateKey }),
    await token({ nth: { grants: [{ scopes: ['ADMIN'] }] } }),
    'x'.repeat(9000),
  ]
  for (const text of tokens) expect((await ask(text)).status).toBe(401)
  expect((await ask(await token({ sub: 'x'.repeat(255) }))).status).toBe(200)
  await expect.poll(lines).toHaveLength(tokens.length)
  expect(lines().map(({ reason }) => reason)).toEqual([
    'The token is refused: "exp" claim timestamp check failed',
    'The token is refused: unexpected "aud" claim value',
    'The token is refused: unexpected "iss" claim value',
    'The token is refused: missing required "sub" claim',
    'The token is refused: the claim sub is no text of 1 to 255 characters',
    'The token is refused: no applicable key found in the JSON Web Key Set',
    expect.stringMatching(/^The token is refused: the claim nth\.grants\.0\.scopes\.0 is invalid: /),
    'The token is refused: it is longer than 8000 characters',
  ])
  for (const text of tokens) expect(nth.output()).not.toContain(text)

  const closed = `http://127.0.0.1:${await freePort()}/keys`
  const without = await started({ ...environment, NTH_JWT_JWKS_URL: closed })
  expect((await as(without.nth, await token()).send('{ viewer { kind } }')).status).toBe(503)
  await expect.poll(without.lines).toHaveLength(1)
  expect(without.lines()[0]).toMatchObject({
    level: 40,
    code: 'UNAVAILABLE',
    reason: expect.stringMatching(
      new RegExp(`^${closed}: The issuer's keys can't be fetched: .*ECONNREFUSED`),
    ),
  })
})

it('log: has the stack of what is wrong with the database once, however many requests meet it', async () => {
  const target = await freshDatabase()
  const { nth, admin, lines } = await started({ DATABASE_URL: urlOf(target) })
  await query(target, 'drop table leaderboard_block, leaderboard, counter_value')
  for (let time = 0; time < 20; time++)
    expect((await admin.send('{ counter(name: "a") { value } }')).errors).toMatchObject([
      { message: 'The database refuses to read this.', extensions: { code: 'UNAVAILABLE', retryable: true } },
    ])
  await expect.poll(() => lines().filter(({ code }) => code === 'UNAVAILABLE')).toHaveLength(20)
  const faults = lines().filter(({ level, err }) => level === 50 && /counter_value/.test(err?.message))
  expect(faults).toHaveLength(1)
  expect(nth.raw().length).toBeLessThan(20_000)
})
