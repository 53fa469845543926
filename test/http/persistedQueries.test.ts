import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { openWire, postHead } from '../support/client/wire.ts'
import { startFront } from '../support/server/front.ts'
import { createGate } from '../support/server/gate.ts'
import { startService } from '../support/server/service.ts'

const COUNTER = '{ counter(name: "c") { value } }'
const INCREMENT = 'mutation { increment(name: "c") { value } }'
const INCREMENT_BODY = JSON.stringify({ query: INCREMENT })

function hashOf(query: string): string {
  return createHash('sha256').update(query).digest('hex')
}

function extensionsFor(query: string) {
  return { persistedQuery: { version: 1, sha256Hash: hashOf(query) } }
}

async function startPersisting() {
  const service = await startService()
  const { post, url } = service
  const byHash = (query: string) => post(JSON.stringify({ extensions: extensionsFor(query) }))
  return {
    ...service,
    byHash,
    withText: (query: string) => post(JSON.stringify({ query, extensions: extensionsFor(query) })),
    isKept: async (query: string) =>
      (await byHash(query)).body.errors?.[0]?.extensions.code !== 'PERSISTED_QUERY_NOT_FOUND',
    get: (query: string) =>
      fetch(`${url}/graphql?extensions=${encodeURIComponent(JSON.stringify(extensionsFor(query)))}`),
  }
}

it('persisted queries: run by their hash, once their text was sent with it', async () => {
  const { byHash, withText, get } = await startPersisting()
  expect((await byHash(INCREMENT)).body).toEqual({
    errors: [{ message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } }],
  })
  expect((await withText(INCREMENT)).body).toEqual({ data: { increment: { value: 1 } } })
  // The third is compiled.
  for (const value of [2, 3, 4]) {
    expect((await byHash(INCREMENT)).body).toEqual({ data: { increment: { value } } })
  }
  await withText(COUNTER)
  expect(await (await get(COUNTER)).json()).toEqual({ data: { counter: { value: 4 } } })
})

it('persisted queries: are kept although they were known before they came with their hash', async () => {
  const { ask, withText, isKept } = await startPersisting()
  for (const _ of upTo(3)) await ask(COUNTER)
  expect(await isKept(COUNTER)).toBe(false)
  await withText(COUNTER)
  expect(await isKept(COUNTER)).toBe(true)
})

it('persisted queries: are refused with an unknown or wrong hash as what cannot be parsed, and not cached', async () => {
  const { url } = await startPersisting()
  for (const [query, code] of [
    [undefined, 'PERSISTED_QUERY_NOT_FOUND'],
    ['{ __typename }', 'PERSISTED_QUERY_MISMATCH'],
  ]) {
    for (const [accept, status] of [
      ['application/json', 200],
      ['application/graphql-response+json', 400],
    ] as const) {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept },
        body: JSON.stringify({ query, extensions: extensionsFor(COUNTER) }),
      })
      expect([response.status, response.headers.get('cache-control')]).toEqual([status, 'no-store'])
      const { errors } = (await response.json()) as { errors: unknown[] }
      expect(errors).toMatchObject([{ extensions: { code } }])
      expect(errors).toHaveLength(1)
    }
  }
})

it('persisted queries: may not be mutations by GET', async () => {
  const { withText, get, ask } = await startPersisting()
  await withText(INCREMENT)
  const response = await get(INCREMENT)
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  expect(await ask(COUNTER)).toEqual({ counter: { value: 1 } })
})

it('persisted queries: are not kept if they are invalid', async () => {
  const { withText, isKept } = await startPersisting()
  for (const query of ['{', '{ unknown }', '{ counter(name: 1) { value } }', '']) {
    expect((await withText(query)).body.errors).toBeDefined()
    expect(await isKept(query)).toBe(false)
  }
})

it('persisted queries: are kept up to 8 MB, the most recent ones', async () => {
  const { withText, isKept } = await startPersisting()
  const texts = upTo(5).map((index) => `${COUNTER} # ${'x'.repeat(900_000)}${index}`)
  for (const text of texts) expect((await withText(text)).body.errors).toBeUndefined()
  const [oldest = '', ...others] = texts
  expect(await isKept(oldest)).toBe(false)
  for (const text of others) expect(await isKept(text)).toBe(true)
})

it('persisted queries: run by the hash of a large text only where there is room for it', async () => {
  const gate = createGate()
  const { url, post: send, faults } = await startFront({ ...gate, heapBytes: 20_000_000 })
  const large = `${COUNTER} # ${'x'.repeat(200_000)}`
  await send(JSON.stringify({ query: large, extensions: extensionsFor(large) }))
  const wire = openWire(url)
  wire.write(postHead(`Content-Length: ${INCREMENT_BODY.length}`) + INCREMENT_BODY)
  await gate.reached(1)
  const extensions = JSON.stringify(extensionsFor(large))
  const body = `{"extensions":${extensions}}`
  const headers = { 'content-type': 'application/json' }
  const byHash = async () => [
    await fetch(`${url}/graphql`, { method: 'POST', headers, body }),
    await fetch(`${url}/graphql?${new URLSearchParams({ extensions })}`),
  ]
  for (const response of await byHash()) {
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: 'UNAVAILABLE' } }] })
  }
  gate.open()
  await wire.received('"value":1')
  for (const response of await byHash()) expect(response.status).toBe(200)
  expect(faults).toEqual([])
})
