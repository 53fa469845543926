import type { ServerResponse } from 'node:http'
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { expect, it } from 'vitest'
import { subscribe } from '../support/client/events.ts'
import { AUDIENCE, GRANTS, ISSUER, soon, startIssuer } from '../support/client/issuer.ts'
import { startProtected } from '../support/client/keys.ts'

const BOUGHT = 'mutation { increment(namespace: "shop", name: "book") { value } }'

it('tokens: have the rights that their issuer grants', async () => {
  const { settings, token, rsa, ed } = await startIssuer()
  const { as } = await startProtected({ access: { tokens: settings } })
  const all = [
    await token(),
    await token({}, { alg: 'RS256', kid: 'rsa', key: rsa.privateKey }),
    await token({}, { alg: 'EdDSA', kid: 'ed', key: ed.privateKey }),
  ]
  for (const [index, text] of all.entries()) {
    expect(await as(text).ask(BOUGHT)).toEqual({ increment: { value: index + 1 } })
    expect(
      await as(text).ask('{ viewer { kind expiresAt grants { scopes names maxDelta } } }'),
    ).toMatchObject({
      viewer: { kind: 'TOKEN', grants: [{ scopes: ['ADD'], names: ['book'], maxDelta: 1 }] },
    })
    expect(await as(text).refusal('mutation { increment(name: "book") { value } }')).toMatchObject({
      code: 'FORBIDDEN',
    })
  }
})

it('tokens: are rejected if they are not the issuer’s', async () => {
  const { settings, token, published, rsa } = await startIssuer()
  const { as, admin } = await startProtected({ access: { tokens: settings } })
  const other = await generateKeyPair('ES256')
  const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'visitor', exp: soon(), nth: { grants: GRANTS } }
  const publicText = new TextEncoder().encode(JSON.stringify(published[1]))
  const good = await token()
  const [head, body, signature] = good.split('.')
  const raised = Buffer.from(
    JSON.stringify({ ...claims, nth: { grants: [{ scopes: ['WRITE'] }] } }),
  ).toString('base64url')
  const forged: Record<string, string> = {
    none: new UnsecuredJWT(claims).encode(),
    'wrong key': await token({}, { key: other.privateKey }),
    'unknown key': await token({}, { kid: 'unknown', key: other.privateKey }),
    'key confusion': await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'rsa' })
      .sign(publicText),
    'another algorithm': await token({}, { alg: 'RS256', kid: 'es', key: rsa.privateKey }),
    expired: await token({ exp: soon() - 120 }),
    'other audience': await token({ aud: 'other' }),
    'other issuer': await token({ iss: 'https://evil.example' }),
    'not yet': await token({ nbf: soon() + 60 }),
    'no expiry': await token({ exp: undefined }),
    'no subject': await token({ sub: '' }),
    'a number as subject': await token({ sub: 5 }),
    'a list as subject': await token({ sub: ['visitor'] }),
    'no grants': await token({ nth: undefined }),
    'empty grants': await token({ nth: { grants: [] } }),
    ADMIN: await token({ nth: { grants: [{ scopes: ['ADMIN'] }] } }),
    'unknown member': await token({ nth: { grants: GRANTS, maxDeltas: 1 } }),
    'unknown member of a grant': await token({ nth: { grants: [{ scopes: ['ADD'], name: 'book' }] } }),
    'onceOnly with WRITE': await token({ nth: { grants: [{ scopes: ['WRITE'], onceOnly: true }] } }),
    'onceOnly as a text': await token({ nth: { grants: [{ scopes: ['ADD'], onceOnly: 'false' }] } }),
    'invalid grant': await token({ nth: { grants: [{ scopes: ['ADD'], names: ['a'], prefix: 'a' }] } }),
    'changed rights': `${head}.${raised}.${signature}`,
    'no signature': `${head}.${body}.`,
    text: 'a.b.c',
    long: 'x'.repeat(9000),
  }
  for (const [name, text] of Object.entries(forged)) {
    const { status, data, errors } = await as(text).send(BOUGHT)
    expect([status, data, errors?.[0]?.extensions.code], name).toEqual([401, undefined, 'UNAUTHENTICATED'])
  }
  expect(await admin.ask('{ counter(namespace: "shop", name: "book") { value } }')).toEqual({
    counter: { value: 0 },
  })
})

it('tokens: expire half a minute later, as clocks differ', async () => {
  const { settings, token } = await startIssuer()
  const { as } = await startProtected({ access: { tokens: settings } })
  const now = Math.floor(Date.now() / 1000)
  expect((await as(await token({ exp: now - 20 })).send(BOUGHT)).status).toBe(200)
  expect((await as(await token({ exp: now - 40 })).send(BOUGHT)).status).toBe(401)
})

/** Sends more and more, until the client has had enough. */
function sendForever(response: ServerResponse): void {
  const spaces = Buffer.alloc(65_536, ' ')
  const send = () => {
    while (response.write(spaces));
  }
  response.on('drain', send)
  send()
}

it.each<[string, (response: ServerResponse) => unknown]>([
  ['an error', (response) => response.writeHead(500).end('{"keys":[]}')],
  ['HTML', (response) => response.end('<!doctype html><title>Maintenance</title>')],
  ['a list without keys', (response) => response.end('{"keys":["es"]}')],
  ['without end', sendForever],
  [
    'half of it',
    (response) =>
      response
        .writeHead(200, { 'content-length': 100 })
        .write('{"keys":', () => setImmediate(() => response.destroy())),
  ],
])(
  'issuer: that answers %s has its keys kept; without any, that is the answer',
  { tags: 'slow' },
  async (_, answer) => {
    const { settings, token, answerWith, fetches } = await startIssuer()
    const { as } = await startProtected({ access: { tokens: settings } })
    await as(await token()).ask(BOUGHT)
    answerWith(answer)
    expect((await as(await token({ sub: 'another visitor' })).send(BOUGHT)).data).toEqual({
      increment: { value: 2 },
    })
    const fresh = await startProtected({ access: { tokens: settings } })
    const { status, errors } = await fresh.as(await token()).send(BOUGHT)
    expect([status, errors?.[0]?.extensions.code]).toEqual([503, 'UNAVAILABLE'])
    const before = fetches()
    for (let time = 0; time < 20; time++)
      expect((await fresh.as(await token({}, { kid: `unknown ${time}` })).send(BOUGHT)).status).toBe(503)
    // The issuer is queried again only after ten seconds.
    expect(fetches()).toBeLessThan(before + 5)
  },
)

it('tokens: have origins, a rate, and idempotency keys of their own', async () => {
  const { settings, token } = await startIssuer()
  const { as } = await startProtected({ access: { tokens: settings } })
  const page = await token({ nth: { grants: GRANTS, origins: ['https://shop.example'], perMinute: 1 } })
  expect((await as(page).send(BOUGHT)).status).toBe(403)
  const headers = { origin: 'https://shop.example' }
  expect((await as(page).send(BOUGHT, {}, headers)).data).toEqual({ increment: { value: 1 } })
  expect((await as(page).send(BOUGHT, {}, headers)).status).toBe(429)
  const once =
    'mutation { increment(namespace: "shop", name: "book", idempotencyKey: "k") { value replayed } }'
  const values = []
  for (const sub of ['one', 'two', 'one'])
    values.push((await as(await token({ sub })).ask(once)).increment.value)
  expect(values).toEqual([2, 3, 2])
})

it('tokens: end their streams when they expire', async () => {
  const { settings, token } = await startIssuer()
  const { url } = await startProtected({ access: { tokens: settings } })
  const grants = [{ scopes: ['READ'], names: ['book'] }]
  // As long as its other requests are answered: clocks may differ by 30 seconds.
  const exp = Math.ceil(Date.now() / 1000) - 28
  const text = await token({ exp, nth: { grants } })
  const headers = { authorization: `Bearer ${text}` }
  const stream = await subscribe(url, 'subscription { counters(names: ["book"]) { value } }', { headers })
  expect(await stream.data()).toEqual({ counters: [{ value: 0 }] })
  expect(await stream.next()).toMatchObject({ errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] })
  expect(Date.now()).toBeGreaterThanOrEqual((exp + 30) * 1000)
  expect(await stream.next()).toBe('complete')
})
