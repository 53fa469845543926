import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { startService } from '../support/server/service.ts'

const INCREMENT = `mutation($key: String) {
  increment(name: "c", idempotencyKey: $key) { value previousValue appliedDelta at replayed counter { value } }
}`

const header = (key: string) => ({ 'Idempotency-Key': key })

const PLAIN = JSON.stringify({ query: 'mutation { increment(name: "c") { value replayed } }' })

it.each([
  ['bare', 'k-1', 'k-1'],
  ['quoted, as structured fields are', '"k-1"', 'k-1'],
  ['quoted, with a quote in it', '"a\\"b\\\\c"', 'a"b\\c'],
  ['quoted, with a parameter', '"k";v=1', 'k'],
  ['not quite quoted', '"k', '"k'],
])('Idempotency-Key: is taken %s', async (_, sent, meant) => {
  const { post, ask } = await startService()
  for (const replayed of [false, true, true]) {
    const { status, body } = await post(PLAIN, header(sent))
    expect([status, body.data]).toEqual([200, { increment: { value: 1, replayed } }])
  }
  const { increment } = await ask(INCREMENT, { key: meant })
  expect(increment).toMatchObject({ value: 1, replayed: true })
})

it.each([
  ['several fields', '{ increment(name: "c") { value } b: increment(name: "c") { value } }'],
  [
    'several fields in fragments',
    '{ ...F ... on Mutation { increment(name: "c") { value } } } fragment F on Mutation { b: increment(name: "c") { value } }',
  ],
  ['another argument', '{ increment(name: "c", idempotencyKey: "other") { value } }'],
  ['a mutation that takes no key', '{ resetAll(namespace: "default") { resetCount } }'],
  [
    'a mutation that takes no key, in a fragment',
    '{ ...F } fragment F on Mutation { deleteCounter(name: "c") { value } }',
  ],
])('Idempotency-Key: is refused with %s, and nothing runs', async (_, selection) => {
  const { post, ask } = await startService()
  for (const accept of ['application/json', 'application/graphql-response+json']) {
    const { status, body } = await post(JSON.stringify({ query: `mutation ${selection}` }), {
      ...header('k'),
      accept,
    })
    expect(status).toBe(400)
    expect(body.errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', argument: 'idempotencyKey' })
    expect(body).not.toHaveProperty('data')
  }
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 0 } })
})

it('Idempotency-Key: is refused with another argument in a variable, and taken with the same one or null', async () => {
  const { post } = await startService()
  const withKey = (key: string | null) => JSON.stringify({ query: INCREMENT, variables: { key } })
  const withNull = JSON.stringify({ query: INCREMENT, variables: null })
  for (const _ of upTo(3)) expect((await post(withKey('other'), header('k'))).status).toBe(400)
  expect((await post(withKey('k'), header('k'))).body.data.increment.replayed).toBe(false)
  for (const text of [withKey(null), withNull, withNull])
    expect((await post(text, header('k'))).body.data.increment.replayed).toBe(true)
})

it('Idempotency-Key: is refused if it cannot be a key', async () => {
  const { post, ask } = await startService()
  for (const [key, limit] of [['k'.repeat(256), 255], ['""'], ['ü']] as const) {
    const { status, body } = await post(PLAIN, header(key))
    const details = { code: 'BAD_USER_INPUT', argument: 'idempotencyKey', ...(limit && { limit }) }
    expect([status, body.errors?.[0]?.extensions]).toEqual([400, details])
  }
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 0 } })
})

it('Idempotency-Key: changes nothing for what is nested too deeply', async () => {
  const { post, faults } = await startService()
  const query = `mutation { ${'... { '.repeat(1500)} increment(name: "c") { value } ${'} '.repeat(1500)} }`
  for (const headers of [{}, header('k')]) {
    const { status, body } = await post(JSON.stringify({ query }), headers)
    expect([status, body.errors?.[0]?.extensions.code]).toEqual([200, expect.stringMatching(/^GRAPHQL_/)])
  }
  expect(faults).toEqual([])
})

it('Idempotency-Key: is ignored in queries', async () => {
  const { post } = await startService()
  const text = JSON.stringify({ query: '{ counter(name: "c") { value } b: counter(name: "c") { value } }' })
  for (const _ of upTo(3)) expect((await post(text, header('k'))).status).toBe(200)
})
