import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { subscribe } from '../support/client/events.ts'
import { ADMIN_KEY, startProtected } from '../support/client/keys.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { collectStatements } from '../support/database/statements.ts'
import { startService } from '../support/server/service.ts'

const INCREMENT = 'mutation Buy($name: String!) { increment(name: $name) { value } }'
const READ = 'query Sold($name: String!) { counter(name: $name) { value } }'
const WATCH = 'subscription { counters(names: ["c"]) { value } }'
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
const variables = { name: 'c' }

const ADD = `mutation($documents: [TrustedDocumentInput!]!) {
  addTrustedDocuments(documents: $documents) { documentId text addedAt }
}`

/** A protected service that trusts three documents, and a key that may run two of them. */
async function startTrusting(options: Parameters<typeof startProtected>[0] = {}) {
  const service = await startProtected(options)
  const documents = [
    { documentId: 'buy', text: INCREMENT },
    { documentId: `sha256:${sha256(READ)}`, text: READ },
    { documentId: 'watch', text: WATCH },
  ]
  const { addTrustedDocuments } = await service.admin.ask(ADD, { documents })
  const { secret } = await service.createKey([{ scopes: ['READ', 'ADD'] }], {
    documents: ['buy', sha256(READ)],
  })
  const call = async (body: object, secret?: string, accept = 'application/json') => {
    const { status, body: answer } = await service.post(JSON.stringify(body), {
      accept,
      ...(secret && bearer(secret)),
    })
    return { status, data: answer.data, code: answer.errors?.[0]?.extensions.code }
  }
  return { ...service, added: addTrustedDocuments, secret, call }
}

const UNTRUSTED = { status: 403, data: undefined, code: 'DOCUMENT_NOT_TRUSTED' }

it('trusted documents: run by their ID, in the forms of GraphQL over HTTP, Relay and Apollo', async () => {
  const { call, url, secret, added } = await startTrusting()
  expect(added.map(({ documentId }: { documentId: string }) => documentId)).toEqual([
    'buy',
    sha256(READ),
    'watch',
  ])
  const hash = sha256(READ)
  expect(await call({ documentId: 'buy', variables }, ADMIN_KEY)).toMatchObject({
    data: { increment: { value: 1 } },
  })
  for (const form of [
    { documentId: hash },
    { documentId: `sha256:${hash}` },
    { doc_id: hash },
    { extensions: { persistedQuery: { version: 1, sha256Hash: hash } } },
  ])
    for (const caller of [ADMIN_KEY, secret])
      expect(await call({ ...form, variables }, caller)).toEqual({
        status: 200,
        data: { counter: { value: 1 } },
        code: undefined,
      })
  const parameters = new URLSearchParams({ documentId: hash, variables: JSON.stringify(variables) })
  const response = await fetch(`${url}/graphql?${parameters}`, { headers: bearer(secret) })
  expect(await response.json()).toEqual({ data: { counter: { value: 1 } } })
})

it('trusted documents: are all that a key bound to them may run', async () => {
  const { call, secret, url, as } = await startTrusting()
  expect(await call({ documentId: 'buy', variables }, secret)).toMatchObject({
    data: { increment: { value: 1 } },
  })
  for (const body of [
    { query: INCREMENT, variables },
    { query: '{ viewer { kind } }' },
    { documentId: 'watch' },
    { documentId: 'unknown' },
    { documentId: '' },
    { extensions: { persistedQuery: { version: 1, sha256Hash: sha256(WATCH) } } },
    { query: READ, extensions: { persistedQuery: { version: 1, sha256Hash: sha256('{ __typename }') } } },
    {},
  ])
    expect([body, await call(body, secret)]).toEqual([body, UNTRUSTED])
  // What is sent beside a trusted ID is not run.
  expect(await call({ documentId: 'buy', query: '{ viewer { kind } }', variables }, secret)).toMatchObject({
    data: { increment: { value: 2 } },
  })
  expect(await call({ documentId: 7 }, secret)).toMatchObject({ status: 400, code: 'BAD_REQUEST' })
  for (const path of ['/badge/counter/default/c.json', '/metrics'])
    expect((await fetch(`${url}${path}`, { headers: bearer(secret) })).status).toBe(
      path === '/metrics' ? 403 : 200,
    )
  const badge = await fetch(`${url}/badge/counter/default/c.json`, { headers: bearer(secret) })
  expect(JSON.stringify(await badge.json())).not.toContain('"2"')
  expect(await as(ADMIN_KEY).ask(READ, variables)).toEqual({ counter: { value: 2 } })
})

it('trusted documents: stream a subscription to a page, by its ID in the address', async () => {
  const { url, admin, createKey } = await startTrusting()
  const { secret } = await createKey([{ scopes: ['READ'] }], {
    documents: ['watch'],
    origins: ['https://shop.example'],
  })
  const headers = { accept: 'text/event-stream', origin: 'https://shop.example' }
  const stream = await fetch(`${url}/graphql?documentId=watch&key=${secret}`, { headers })
  expect(stream.status).toBe(200)
  const reader = stream.body?.getReader()
  await admin.ask('mutation { increment(name: "c") { value } }')
  let text = ''
  while (!text.includes('"value":1')) text += new TextDecoder().decode((await reader?.read())?.value)
  await reader?.cancel()
  expect((await subscribe(url, WATCH, { headers: { ...headers, ...bearer(secret) } })).status).toBe(403)
})

it('NTH_DOCUMENTS=trusted: refuses everyone but administrators all other documents', async () => {
  const { call, createKey, url } = await startTrusting({
    trustedOnly: true,
    access: { adminKey: ADMIN_KEY, anonymous: ['ADD'] },
  })
  const { secret } = await createKey([{ scopes: ['READ', 'ADD', 'WRITE'] }])
  const { secret: administrator } = await createKey([{ scopes: ['ADMIN'] }])
  for (const caller of [secret, undefined]) {
    expect(await call({ query: INCREMENT, variables }, caller)).toEqual(UNTRUSTED)
    expect(await call({ documentId: 'unknown' }, caller)).toEqual(UNTRUSTED)
    // An automatic persisted query is one that a caller has chosen.
    const automatic = { persistedQuery: { version: 1, sha256Hash: sha256('{ __typename }') } }
    expect(await call({ query: '{ __typename }', extensions: automatic }, caller)).toEqual(UNTRUSTED)
    expect(await call({ extensions: automatic }, caller)).toEqual(UNTRUSTED)
    expect((await call({ documentId: 'buy', variables }, caller)).data.increment).toBeTruthy()
  }
  for (const caller of [ADMIN_KEY, administrator])
    expect((await call({ query: INCREMENT, variables }, caller)).status).toBe(200)
  const link = await fetch(`${url}/graphql?query={__typename}`, { headers: bearer(secret) })
  expect(link.status).toBe(403)
  // Also where everyone on this machine may do everything.
  const open = await startService({ trustedOnly: true })
  expect((await open.post('{"query":"{ __typename }"}')).status).toBe(403)
})

it('addTrustedDocuments, trustedDocuments, removeTrustedDocument: add, list and remove documents', async () => {
  const { admin } = await startTrusting()
  const LIST =
    '{ trustedDocuments(first: 2) { nodes { documentId text } pageInfo { hasNextPage endCursor } } }'
  const { trustedDocuments: page } = await admin.ask(LIST)
  expect(page.nodes.map(({ text }: { text: string }) => text)).toHaveLength(2)
  expect(page.pageInfo.hasNextPage).toBe(true)
  const rest = await admin.ask(
    `{ trustedDocuments(after: "${page.pageInfo.endCursor}") { nodes { documentId } } }`,
  )
  expect(rest.trustedDocuments.nodes).toEqual([{ documentId: 'watch' }])
  // A repeat changes nothing; another text is refused, with all that came with it.
  expect(
    (await admin.ask(ADD, { documents: [{ documentId: 'buy', text: INCREMENT }] })).addTrustedDocuments,
  ).toMatchObject([{ documentId: 'buy', text: INCREMENT }])
  const documents = [
    { documentId: 'new', text: '{ __typename }' },
    { documentId: 'buy', text: READ },
  ]
  expect(await admin.refusal(ADD, { documents })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'documents.1.documentId',
  })
  expect(await admin.refusal('mutation { removeTrustedDocument(documentId: "new") { text } }')).toEqual({
    code: 'NOT_FOUND',
  })
  expect(
    await admin.ask('mutation { removeTrustedDocument(documentId: "watch") { documentId text } }'),
  ).toEqual({ removeTrustedDocument: { documentId: 'watch', text: WATCH } })
  expect(
    (await admin.ask('{ trustedDocuments { nodes { documentId } } }')).trustedDocuments.nodes,
  ).toHaveLength(2)
})

it.each([
  [{ documentId: '', text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: 'a b', text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: 'x'.repeat(256), text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: 'ü', text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: 'sha256:', text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: `sha256:${'0'.repeat(64)}`, text: '{ __typename }' }, 'documents.0.documentId'],
  [{ documentId: 'a', text: '' }, 'documents.0.text'],
  // Beyond a limit of all documents, it could never run.
  [{ documentId: 'a', text: `{ ${'a'.repeat(256)}: __typename }` }, 'documents.0.text'],
  [{ documentId: 'a', text: '{ nope }' }, 'documents.0.text'],
  [{ documentId: 'a', text: '{' }, 'documents.0.text'],
])('addTrustedDocuments: refuses %j', async (document, argument) => {
  const { admin } = await startProtected()
  expect(await admin.refusal(ADD, { documents: [document] })).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument,
  })
  expect((await admin.ask('{ trustedDocuments { nodes { documentId } } }')).trustedDocuments.nodes).toEqual(
    [],
  )
})

it('removeTrustedDocument: holds in every process, though a document in use is in memory', async () => {
  const target = await freshDatabase()
  const first = await startTrusting({ target })
  const second = await startProtected({ target })
  const run = () => second.post(JSON.stringify({ documentId: 'buy', variables }), bearer(first.secret))
  await run()
  const statements = collectStatements()
  await run()
  expect(statements.filter((text) => text.includes('trusted_document'))).toEqual([])
  await first.admin.ask('mutation { removeTrustedDocument(documentId: "buy") { text } }')
  await expect.poll(async () => (await run()).status).toBe(403)
})

it('keys: bound to documents are stored so that 0.2.0 refuses what they allow', async () => {
  const target = await freshDatabase()
  const { createKey, admin } = await startTrusting({ target })
  const { id } = await createKey([{ scopes: ['ADMIN'] }], { documents: ['buy'] })
  const rows = await query(target, 'select grants from api_key where documents is not null')
  expect(rows).toHaveLength(2)
  for (const { grants } of rows) expect(JSON.parse(String(grants))[0].scopes).toEqual([])
  const { node } = await admin.ask(
    `{ node(id: "${id}") { ... on ApiKey { documents grants { scopes onceOnly } } } }`,
  )
  expect(node).toEqual({ documents: ['buy'], grants: [{ scopes: ['ADMIN'], onceOnly: false }] })
})

it('trusted documents: are UNAVAILABLE while the database is away, and invalid IDs are refused without it', async () => {
  let isAway = false
  const target = await startProxy(await freshDatabase(), (statement) =>
    isAway && statement.includes('trusted_document') ? 'is cut off' : 'passes',
  )
  const { url, createKey, admin } = await startProtected({ target, writeTimeoutMs: 1000 })
  const { secret } = await createKey([{ scopes: ['READ'] }], { documents: ['buy'] })
  await admin.ask(ADD, { documents: [{ documentId: 'buy', text: INCREMENT }] })
  const run = (documentId: string, key: string) =>
    fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer(key) },
      body: JSON.stringify({ documentId }),
    })
  expect((await run('buy', secret)).status).toBe(200)
  isAway = true
  const away = await run('unread', ADMIN_KEY)
  expect([away.status, away.headers.get('retry-after'), (await away.json()).errors[0].extensions]).toEqual([
    503,
    '1',
    { code: 'UNAVAILABLE', retryAfterMs: 1000, retryable: true },
  ])
  const invalid = await run('x'.repeat(300), ADMIN_KEY)
  expect((await invalid.json()).errors[0].extensions).toEqual({ code: 'PERSISTED_QUERY_NOT_FOUND' })
})
