import { gzipSync } from 'node:zlib'
import { gql, type TypedDocumentNode } from '@apollo/client/core'
import { initGraphQLTada } from 'gql.tada'
import { print } from 'graphql'
import { type ApiErrorCode, type Complete, createClient, NthError, newer } from 'nth-counters/client'
import { expect, expectTypeOf, it } from 'vitest'
import type { introspection } from '../../examples/react-urql/graphql-env.d.ts'
import type { ErrorCode } from '../../src/rules/errors.ts'
import { clientWith, lost, unavailable } from '../support/client/scriptedFetch.ts'
import { startService } from '../support/server/service.ts'

const graphql = initGraphQLTada<{
  introspection: introspection
  scalars: { SafeInt: number; DateTime: string }
}>()

/** What GraphQL Code Generator makes of a document in its mode `string`. */
class DocumentString<Data, Variables> extends String {
  declare __apiType?: (variables: Variables) => Data
}

interface Read {
  counter: { value: number } | null
}

const READ = 'query ($name: String!) { counter(name: $name) { value } }'

it('query: takes a document as a text, of gql.tada, of gql, and of GraphQL Code Generator, with its types', async () => {
  const { url, ask } = await startService()
  await ask('mutation { increment(name: "c") { value } }')
  const client = createClient({ url: `${url}/graphql`, print })
  const tada = graphql('query ($name: String!) { counter(name: $name) { value } }')
  const node: TypedDocumentNode<Read, { name: string }> = gql(READ)
  const string = new DocumentString<Read, { name: string }>(READ)
  const results = [
    await client.query<Read>(READ, { name: 'c' }),
    await client.query(tada, { name: 'c' }),
    await client.query(node, { name: 'c' }),
    await client.query(string, { name: 'c' }),
  ]
  expect(results).toEqual(Array(4).fill({ counter: { value: 1 } }))
  const { counter } = await client.query(tada, { name: 'c' })
  expectTypeOf(counter).toEqualTypeOf<{ value: number }>()
  expectTypeOf(await client.query(node, { name: 'c' })).toEqualTypeOf<Complete<Read>>()
  await expect(createClient().query(tada)).rejects.toThrow('`print`')
  // @ts-expect-error: it has no such variable
  await client.query(tada, { names: 'c' }).catch(() => undefined)
  client
    .subscribe(string, { name: 'c' }, { onData: (data) => expectTypeOf(data).toEqualTypeOf<Read>() })
    .stop()
})

it('query: throws the first error, with the data beside it, and repeats nothing', async () => {
  const { url } = await startService()
  const client = createClient({ url: `${url}/graphql` })
  const failure = await client
    .query('{ a: counter(name: "c") { value } b: counter(name: "") { value } }')
    .catch((e) => e)
  expect(failure).toBeInstanceOf(NthError)
  expect(failure).toMatchObject({
    code: 'BAD_USER_INPUT',
    retryable: false,
    data: { a: { value: 0 }, b: null },
    extensions: { argument: 'name' },
  })
  const scripted = clientWith([unavailable({ retryAfterMs: 7 }), lost()])
  const errors = [
    await scripted.client.query(READ).catch((e) => e),
    await scripted.client.query(READ).catch((e) => e),
  ]
  expect(errors).toMatchObject([
    { code: 'UNAVAILABLE', retryable: true, retryAfterMs: 7 },
    { code: 'NO_ANSWER', retryable: true, isOutcomeUnknown: false },
  ])
})

it('NthError: has a type with every code of the API, and accepts later ones', () => {
  expectTypeOf<ApiErrorCode>().toEqualTypeOf<ErrorCode>()
  const { code } = new NthError('It failed.', { code: 'A_LATER_CODE' })
  expect(code).toBe('A_LATER_CODE')
  expect(new NthError('It failed.', {}).code).toBe('INTERNAL_SERVER_ERROR')
})

it('query: keeps the newest state of a counter, also when an older answer arrives later', async () => {
  const counter = (revision: number, fields: object) => ({
    id: 'c',
    revision,
    value: 10 * revision,
    ...fields,
  })
  const month = 'counter(name: "c") { id revision value n: valueIn(period: MONTH) }'
  const { client } = clientWith(
    [
      { data: { increment: { value: 50, counter: counter(5, { n: 55 }) } } },
      { data: { counter: counter(4, { n: 44, name: 'c' }) } },
      { data: { counter: counter(4, { n: 1 }) } },
      { data: { counter: counter(5, { n: 2 }) } },
    ].map((answer) => Response.json(answer)),
  )
  await client.mutate(`mutation { increment(name: "c") { value ${month} } }`)
  expect(await client.query(`{ ${month.replace('value', 'value name')} }`)).toEqual({
    counter: counter(5, { n: 55, name: 'c' }),
  })
  // Another field under the same name.
  expect(await client.query(`{ ${month.replace('MONTH', 'DAY')} }`)).toEqual({
    counter: counter(5, { n: 1 }),
  })
  // A day has ended, without a change.
  expect(await client.query(`{ ${month} }`)).toEqual({ counter: counter(5, { n: 2 }) })
})

it('query: keeps the newest history of a counter together with its newest value', async () => {
  const query = '{ counter(name: "c") { id revision value days: history(period: DAY) { start value } } }'
  const counter = (value: number) => ({
    id: 'c',
    revision: value,
    value,
    days: [{ start: '2026-11-26', value }],
  })
  const { client } = clientWith(
    [2, 1, 3].map((value) => Response.json({ data: { counter: counter(value) } })),
  )
  for (const newest of [2, 2, 3]) expect(await client.query(query)).toEqual({ counter: counter(newest) })
})

it('query: does not take fields with other variables for the same', async () => {
  const query = 'query ($period: Period!) { counter(name: "c") { id revision n: valueIn(period: $period) } }'
  const answer = (revision: number) =>
    Response.json({ data: { counter: { id: 'c', revision, n: revision } } })
  const { client } = clientWith([answer(2), answer(1), answer(1)])
  await client.query(query, { period: 'MONTH' })
  expect(await client.query(query, { period: 'DAY' })).toEqual({ counter: { id: 'c', revision: 2, n: 1 } })
  expect(await client.query(query, { period: 'MONTH' })).toEqual({ counter: { id: 'c', revision: 2, n: 2 } })
})

it('query: remembers the states of the 10 000 objects that it saw last', async () => {
  const list = (ids: number[], revision: number) =>
    Response.json({ data: { nodes: ids.map((id) => ({ id: `id ${id}`, revision })) } })
  const others = Array.from({ length: 9_999 }, (_, index) => index + 2)
  const { client } = clientWith([list([0, 1, 0], 2), list(others, 1), list([0, 1], 1)])
  for (const _ of [1, 2]) await client.query('{ nodes }')
  expect(await client.query('{ nodes }')).toEqual({
    nodes: [
      { id: 'id 0', revision: 2 },
      { id: 'id 1', revision: 1 },
    ],
  })
})

it('newer: merges what changed into what was shown: the newer of two states', () => {
  const a = { id: 'a', revision: 2, value: 2 }
  const b = { id: 'b', revision: 1, value: 1 }
  expect(newer(undefined, a)).toBe(a)
  expect(newer(a, null)).toBe(a)
  const [limited, unlimited] = [100, null].map((maxValue, index) => ({ id: 'a', revision: index, maxValue }))
  expect(newer<unknown>(limited, unlimited)).toEqual(unlimited)
  expect(newer(a, b)).toBe(b)
  expect(newer(a, { ...a, revision: 1, value: 1 })).toEqual(a)
  expect(newer(a, { ...a, value: 3 })).toEqual({ ...a, value: 3 })
  const older = { ...a, revision: 1, value: 1 }
  const shown = { counters: [a, b] }
  expect(newer(shown, { counters: [{ ...b, revision: 2 }, older] })).toEqual({
    counters: [a, { ...b, revision: 2 }],
  })
  expect(newer({ counters: [b] }, { counters: [a] })).toEqual({ counters: [b, a] })
  // Without ids nothing can be merged.
  expect(newer([{ value: 1 }], [{ value: 2 }])).toEqual([{ value: 2 }])
  expect(newer(null, [a])).toEqual([a])
})

it('client.js: is served by every server in less than 6 kB, with its types', async () => {
  const { url } = await startService()
  const response = await fetch(`${url}/client.js`)
  expect(response.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  const text = await response.text()
  expect(gzipSync(text, { level: 6 }).length).toBeLessThan(6_000)
  expect(text).not.toContain('import')
  const types = await (await fetch(`${url}/client.d.ts`)).text()
  for (const name of ['createClient', 'newer', 'NthError']) {
    expect(text).toContain(` as ${name}`)
    expect(types).toMatch(new RegExp(`^export declare (function|class) ${name}\\b`, 'm'))
  }
})
