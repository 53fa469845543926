import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ApolloClient, gql } from '@apollo/client/core'
import type { Client as UrqlClient } from '@urql/core'
import { buildSchema, isEnumType, parse, print } from 'graphql'
import type { GraphQLClient } from 'graphql-request'
import {
  commitMutation,
  createOperationDescriptor,
  type Environment,
  type GraphQLTaggedNode,
  getRequest,
} from 'relay-runtime'
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { upTo } from './support/client.ts'
import { ARTIFACTS, compile, type Files, filesOfPage, importable } from './support/clientsPage.ts'
import { holdAnswers } from './support/heldAnswers.ts'
import { startService } from './support/service.ts'

const SCHEMA = join(import.meta.dirname, '../schema/schema.graphql')
const TITLE = 'Bulldozer'

/** What each client's file has. */
interface Example {
  buy(name: string, key: string): Promise<unknown>
}

/** What those with a cache have as well. */
interface CachingExample extends Example {
  sold(name: string): Promise<unknown>
}

/** Scalars have exactly these types, in what gql.tada and Relay make of the schema. */
const TYPES = `
import type { ResultOf } from 'gql.tada'
import type { relaySoldQuery } from './__generated__/relaySoldQuery.graphql.ts'
import { graphql } from './graphql.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

const READ = graphql('{ counter(name: "c") { value updatedAt } }')
type Tada = NonNullable<ResultOf<typeof READ>['counter']>
type Relay = NonNullable<relaySoldQuery['response']['counter']>
export const checks: [
  Same<Tada['value'], number>,
  Same<Tada['updatedAt'], string | null>,
  Same<Relay['value'], number>,
] = [true, true, true]
`

let page: Files
let compiled: Files

beforeAll(async () => {
  page = await filesOfPage()
  compiled = await compile({ ...page, 'types.ts': TYPES })
})

/** The page's code, for a service of its own. */
async function startExamples(changed: Files = {}) {
  const service = await startService()
  const load = await importable({ ...compiled, ...changed }, service.url)
  return {
    ...service,
    // Each test knows what it asks for.
    load: <T>(name: string) => load(`${name}.js`) as Promise<T>,
  }
}

const CLIENTS = ['fetch', 'graphqlRequest', 'apollo', 'urql', 'tada', 'relay']
const CACHING = ['apollo', 'urql', 'relay']

it.each(CLIENTS)(
  'reports each buyer their own number with %s, once for each key, or a code',
  async (name) => {
    const { load, ask } = await startExamples()
    const { buy } = await load<Example>(name)
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    expect(await buy(TITLE, 'second')).toMatchObject({ value: 2, thisMonth: 2 })
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    await ask(
      `mutation { defineCounter(name: "${TITLE}", namespace: "booksales", definition: { maxValue: 2 }) { id } }`,
    )
    expect(await buy(TITLE, 'third')).toBe('LIMIT_REACHED')
  },
)

it('counts a click once, also when its answer is lost', async () => {
  const { load, ask } = await startExamples()
  const { onClick } = await load<{ onClick(name: string): Promise<unknown> }>('click')
  const { lose } = holdAnswers()
  lose()
  expect(await onClick(TITLE)).toMatchObject({ value: 1 })
  expect(await onClick(TITLE)).toMatchObject({ value: 2 })
  expect(await ask(`{ counter(name: "${TITLE}", namespace: "booksales") { value } }`)).toEqual({
    counter: { value: 2 },
  })
})

/** Takes the place of `fetch`, with the answers of a server that is starting. */
function stubUnavailable() {
  const errors = [{ message: 'Starting.', extensions: { code: 'UNAVAILABLE' } }]
  const send = vi.fn(async () => Response.json({ errors }, { status: 503 }))
  vi.stubGlobal('fetch', send)
  onTestFinished(() => void vi.unstubAllGlobals())
  return send
}

it.each(CLIENTS)(
  'reports the code of an answer before execution with %s, and that there was none',
  async (name) => {
    const { load } = await startExamples()
    const { buy } = await load<Example>(name)
    const send = stubUnavailable()
    expect(await buy(TITLE, 'first')).toBe('UNAVAILABLE')
    send.mockRejectedValueOnce(new TypeError('fetch failed'))
    await expect(buy(TITLE, 'first')).rejects.toThrow('fetch failed')
    send.mockResolvedValueOnce(new Response('<p>Bad gateway</p>', { status: 502 }))
    await expect(buy(TITLE, 'first')).rejects.toThrow()
  },
)

it('does not say of a click that nothing was counted, when one of its answers was lost', async () => {
  const { load } = await startExamples()
  const { onClick } = await load<{ onClick(name: string): Promise<unknown> }>('click')
  const send = stubUnavailable()
  expect(await onClick(TITLE)).toBe('UNAVAILABLE')
  expect(send).toHaveBeenCalledTimes(3)
  send.mockRejectedValueOnce(new TypeError('fetch failed'))
  expect(await onClick(TITLE)).toBe('OUTCOME_UNKNOWN')
})

/** What the cache of a client has for the counter. */
async function openCache(name: string, load: <T>(name: string) => Promise<T>): Promise<() => unknown> {
  const variables = { name: TITLE }
  const { SOLD } = await load<{ SOLD: string }>('operations')
  switch (name) {
    case 'apollo': {
      const { client } = await load<{ client: ApolloClient }>('apollo')
      onTestFinished(() => client.stop())
      return () => client.readQuery<{ counter: unknown }>({ query: gql(SOLD), variables })?.counter
    }
    case 'urql': {
      const { client } = await load<{ client: UrqlClient }>('urql')
      // While nobody shows the query, its answers are dropped.
      onTestFinished(client.query(SOLD, variables).subscribe(() => undefined).unsubscribe)
      return () => client.readQuery(SOLD, variables, { requestPolicy: 'cache-only' })?.data?.counter
    }
    default: {
      const relay = await load<{ environment: Environment; SOLD: GraphQLTaggedNode }>('relay')
      const operation = createOperationDescriptor(getRequest(relay.SOLD), variables)
      relay.environment.retain(operation)
      return () => relay.environment.lookup(operation.fragment).data?.counter
    }
  }
}

it.each(CACHING)('keeps the present numbers in the cache of %s, beside those of the buyer', async (name) => {
  const { load } = await startExamples()
  const { buy, sold } = await load<CachingExample>(name)
  const cached = await openCache(name, load)
  await sold(TITLE)
  expect(cached()).toMatchObject({ value: 0, thisMonth: 0 })
  await buy(TITLE, 'first')
  await buy(TITLE, 'second')
  // The first call again: its own numbers, and the counter of now.
  expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
  expect(cached()).toMatchObject({ value: 2, thisMonth: 2 })
})

/** The states that a cache goes through when the answers to a read and to a change come after that to a later change. */
async function statesWithLateAnswers(name: string, changed: Files = {}): Promise<unknown[]> {
  const { load } = await startExamples(changed)
  const { buy, sold } = await load<CachingExample>(name)
  const cached = await openCache(name, load)
  await sold(TITLE)
  const { late } = holdAnswers()
  const lateRead = await late(() => sold(TITLE))
  const lateChange = await late(() => buy(TITLE, 'first'))
  expect(await buy(TITLE, 'second')).toMatchObject({ value: 2, thisMonth: 2 })
  const states = [cached()]
  await lateRead()
  states.push(cached())
  expect(await lateChange()).toMatchObject({ value: 1, thisMonth: 1 })
  states.push(cached())
  return states
}

it.each([
  ['apollo', [2, 0, 1]],
  // Graphcache gives way to a change while a read is under way, but not to another change.
  ['urql', [2, 2, 1]],
  ['relay', [2, 0, 1]],
])('leaves the cache of %s at the newest state when two answers are late', async (name, without) => {
  const newest = { value: 2, thisMonth: 2 }
  expect(await statesWithLateAnswers(name)).toMatchObject([newest, newest, newest])
  const changed = { 'newest.js': 'export const newest = (result) => result' }
  expect(await statesWithLateAnswers(name, changed)).toMatchObject(without.map((value) => ({ value })))
})

const NAMES = `query($prefix: String!, $orderBy: CounterOrder!, $after: String) {
  namespace(name: "booksales") {
    id
    counters(first: 2, prefix: $prefix, orderBy: $orderBy, after: $after) {
      edges { cursor node { id revision name } }
      pageInfo { hasNextPage endCursor }
    }
  }
}`

interface Names {
  namespace: { counters: { edges: { node: { name: string } }[]; pageInfo: { endCursor: string } } }
}

/** Reads a page, and then whatever of its list a client has in its cache. */
function reader(client: ApolloClient | UrqlClient) {
  return async (variables: object): Promise<Names['namespace']['counters'] | undefined> => {
    if ('stop' in client) {
      await client.query({ query: gql(NAMES), variables, fetchPolicy: 'network-only' })
      return client.readQuery<Names>({ query: gql(NAMES), variables })?.namespace.counters
    }
    await client.query(NAMES, variables)
    return client.readQuery<Names>(NAMES, variables)?.data?.namespace.counters
  }
}

it.each(['apollo', 'urql'])('joins the pages of a list in the cache of %s, and no others', async (name) => {
  const { load, ask } = await startExamples()
  const changes = '[{ name: "a1" }, { name: "a2" }, { name: "a3" }, { name: "b1" }, { name: "b2" }]'
  await ask(`mutation { incrementMany(namespace: "booksales", changes: ${changes}) { value } }`)
  const { client } = await load<{ client: ApolloClient | UrqlClient }>(name)
  if ('stop' in client) onTestFinished(() => client.stop())
  const read = reader(client)
  const namesOf = (list: Awaited<ReturnType<typeof read>>) => list?.edges.map(({ node }) => node.name)
  const all = { prefix: '', orderBy: 'NAME_ASC' }
  const first = await read(all)
  expect(namesOf(first)).toEqual(['a1', 'a2'])
  // Of other lists: these would follow the first page, or take its place.
  const others = [
    { ...all, prefix: 'b' },
    { ...all, orderBy: 'UPDATED_AT_DESC' },
  ]
  for (const other of others) await read(other)
  expect(namesOf(await read({ ...all, prefix: 'b' }))).toEqual(['b1', 'b2'])
  const second = await read({ ...all, after: first?.pageInfo.endCursor })
  expect(namesOf(second)).toEqual(['a1', 'a2', 'a3', 'b1'])
})

it('lets Graphcache keep all that the API answers', async () => {
  const { load } = await startExamples()
  const { client } = await load<{ client: UrqlClient }>('urql')
  const warnings = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
  onTestFinished(() => warnings.mockRestore())
  const changed = await client.mutation(
    `mutation {
      defineCounter(name: "a", definition: { timeZone: "UTC" }) { id periods { period keepDays } history(period: DAY, last: 2) { start value } }
      incrementMany(changes: [{ name: "a" }, { name: "b" }]) { value counter { id history(period: HOUR) { start value } } }
      nextInSequence(name: "s", group: "g") { formatted group { id lastValue } }
      resetAll(namespace: "default", prefix: "b") { resetCount }
    }`,
    {},
  )
  const read = await client.query(
    `{
      counters(names: ["a", "b"]) { id revision periods { period keepDays } history(period: DAY, last: 2) { start value } }
      namespaces(first: 9) { edges { cursor node { id periods { period } counters(first: 9) { edges { rank node { id value } } pageInfo { endCursor } } } } }
      sequence(name: "s") { id groups(first: 9) { edges { node { id lastValue } } } }
    }`,
    {},
  )
  expect([changed.error, read.error]).toEqual([undefined, undefined])
  expect(read.data).toMatchObject({
    counters: [{ history: [{ value: 0 }, { value: 1 }] }, {}],
    namespaces: {
      edges: [{ node: { counters: { edges: [{ node: { value: 1 } }, { node: { value: 0 } }] } } }],
    },
    sequence: { groups: { edges: [{ node: { lastValue: 1 } }] } },
  })
  expect(warnings.mock.calls).toEqual([])
})

const TWO = 'mutation { a: increment(name: "a") { value } b: increment(name: "full") { value } }'

/** What relay-compiler would make of it. */
const RELAY_TWO = relayMutation([
  ['a', 'a'],
  ['b', 'full'],
])

function relayMutation(fields: [alias: string, counter: string][]): GraphQLTaggedNode {
  const selections = fields.map(([alias, counter]) => ({
    kind: 'LinkedField',
    alias,
    name: 'increment',
    args: [{ kind: 'Literal', name: 'name', value: counter }],
    concreteType: 'CounterChange',
    plural: false,
    selections: [{ kind: 'ScalarField', alias: null, name: 'value', args: null, storageKey: null }],
    storageKey: `increment(name:"${counter}")`,
  }))
  const document = { argumentDefinitions: [], name: 'TwoMutation', selections }
  // The types of its parts are not exported.
  return {
    kind: 'Request',
    fragment: { ...document, kind: 'Fragment', metadata: null, type: 'Mutation', abstractKey: null },
    operation: { ...document, kind: 'Operation' },
    params: {
      cacheID: 'two',
      id: null,
      metadata: {},
      name: 'TwoMutation',
      operationKind: 'mutation',
      text: TWO,
    },
  } as unknown as GraphQLTaggedNode
}

it.each([
  ['fetch', ({ ask }: { ask(query: string, variables: object): Promise<object> }) => ask(TWO, {})],
  ['graphqlRequest', ({ client }: { client: GraphQLClient }) => client.rawRequest(TWO)],
  [
    'apollo',
    async ({ client }: { client: ApolloClient }) => {
      onTestFinished(() => client.stop())
      const { data, error } = await client.mutate({ mutation: gql(TWO) })
      // CombinedGraphQLErrors, as the file itself finds out.
      return { data, ...(error as unknown as { errors: object[] }) }
    },
  ],
  [
    'urql',
    async ({ client }: { client: UrqlClient }) => {
      const { data, error } = await client.mutation(TWO, {})
      return { data, errors: error?.graphQLErrors }
    },
  ],
  [
    'relay',
    ({ environment }: { environment: Environment }) =>
      new Promise((resolve, reject) => {
        commitMutation(environment, {
          mutation: RELAY_TWO,
          variables: {},
          onCompleted: (data, errors) => resolve({ data, errors }),
          onError: reject,
        })
      }),
  ],
  // Each takes what its own file has.
] as [string, (example: unknown) => Promise<object>][])(
  'gives what has counted beside what was refused with %s',
  async (name, run) => {
    const { load, ask } = await startExamples()
    await ask('mutation { defineCounter(name: "full", definition: { maxValue: 0 }) { id } }')
    expect(await run(await load(name))).toMatchObject({
      data: { a: { value: 1 }, b: null },
      errors: [{ extensions: { code: 'LIMIT_REACHED', limit: 0 } }],
    })
  },
)

it('has every error code of the schema', async () => {
  const type = buildSchema(await readFile(SCHEMA, 'utf8')).getType('ErrorCode')
  const codes = isEnumType(type) ? type.getValues().map(({ name }) => name) : []
  expect(codes.length).toBeGreaterThan(10)
  expect([...(page['errors.ts'] ?? '').matchAll(/ {2}\| '(\w+)'/g)].map(([, code]) => code)).toEqual(codes)
})

it('has what relay-compiler makes of its documents (npm run relay)', async () => {
  const documents = [...(page['relay.ts'] ?? '').matchAll(/graphql`([^`]+)`/g)].map(([, text = '']) => text)
  expect(documents).toHaveLength(2)
  const artifacts = await Promise.all(
    (await readdir(ARTIFACTS)).map((name) => readFile(join(ARTIFACTS, name), 'utf8')),
  )
  const hashes = artifacts.map((text) => /\.hash = "(\w+)"/.exec(text)?.[1])
  const expected = documents.map((text) =>
    createHash('md5')
      .update(print(parse(text)))
      .digest('hex'),
  )
  expect(hashes.toSorted()).toEqual(expected.toSorted())
})

type Newest = <T>(result: T) => T

async function loadNewest(): Promise<Newest> {
  const load = await importable(compiled, '')
  // The file's one export.
  return ((await load('newest.js')) as { newest: Newest }).newest
}

it('has a newest of at most 20 lines', async () => {
  const code = /export function newest[\s\S]*\n}/.exec(page['newest.ts'] ?? '')?.[0] ?? ''
  const lines = code.split('\n').length
  expect(lines).toBeGreaterThan(10)
  expect(lines).toBeLessThanOrEqual(20)
  expect(await loadNewest()).toBeTypeOf('function')
})

it('replaces what is older, field by field, wherever it stands in a result', async () => {
  const newest = await loadNewest()
  newest({ data: { counter: { id: 'c', revision: 5, value: 50, name: 'c' } } })
  newest({ data: { changes: [{ counter: { id: 'c', revision: 7, today: 70 } }] } })
  expect(
    newest({ data: { list: [[{ id: 'c', revision: 6, value: 60, today: 60, week: 60 }], null, 'text'] } }),
  ).toEqual({ data: { list: [[{ id: 'c', revision: 7, value: 60, today: 70, week: 60 }], null, 'text'] } })
  expect(newest({ id: 'c', revision: 4, value: 40, name: 'c' })).toEqual({
    id: 'c',
    revision: 7,
    value: 60,
    name: 'c',
  })
})

it('takes the later one of equal revisions', async () => {
  const newest = await loadNewest()
  newest({ id: 'c', revision: 5, today: 3 })
  // A day is over; nobody has written since.
  expect(newest({ id: 'c', revision: 5, today: 0 })).toEqual({ id: 'c', revision: 5, today: 0 })
  expect(newest({ id: 'c', revision: 4, today: 3 })).toEqual({ id: 'c', revision: 5, today: 0 })
})

it('leaves lists and objects as they came, and what has no id or revision', async () => {
  const newest = await loadNewest()
  newest({ id: 'c', revision: 5, history: [{ value: 2 }], namespace: { id: 'n' }, timeZone: null })
  const older = {
    id: 'c',
    revision: 5,
    history: [{ value: 1 }, { value: 1 }],
    namespace: { id: 'n', name: 'n' },
  }
  expect(newest({ ...older, revision: 4, timeZone: 'UTC' })).toEqual({ ...older, timeZone: null })
  newest({ id: 'r', value: 2 })
  expect(newest({ id: 'r', value: 1 })).toEqual({ id: 'r', value: 1 })
  expect([newest(null), newest(1), newest({ revision: 1 })]).toEqual([null, 1, { revision: 1 }])
})

it('remembers the 10 000 objects that it saw last', async () => {
  const newest = await loadNewest()
  const see = (id: string, revision: number) => newest({ id, revision, value: revision }).value
  see('kept', 2)
  see('forgotten', 2)
  see('kept', 2)
  for (const index of upTo(9_999)) see(`other ${index}`, 1)
  expect([see('kept', 1), see('forgotten', 1)]).toEqual([2, 1])
})

/** The page's fetch, for which these responses arrive. */
async function loadFetchNewest(...responses: Response[]): Promise<typeof fetch> {
  vi.stubGlobal('fetch', async () => responses.shift())
  onTestFinished(() => void vi.unstubAllGlobals())
  const load = await importable(compiled, '')
  // The file's one export.
  return ((await load('fetchNewest.js')) as { fetchNewest: typeof fetch }).fetchNewest
}

it('compares answers in the order in which the client reads them', async () => {
  const stateAt = (revision: number) => ({ id: 'c', revision, value: revision })
  const responses = [1, 2, 1, 3].map((revision) => Response.json(stateAt(revision)))
  const fetchNewest = await loadFetchNewest(...responses)
  const [older, newer, oldest, newest] = await Promise.all(responses.map(() => fetchNewest('')))
  expect(await newer?.json()).toEqual(stateAt(2))
  expect(await older?.json()).toEqual(stateAt(2))
  expect(JSON.parse((await newest?.text()) ?? '')).toEqual(stateAt(3))
  expect(JSON.parse((await oldest?.text()) ?? '')).toEqual(stateAt(3))
})

it('passes on what is not JSON as it is', async () => {
  const fetchNewest = await loadFetchNewest(new Response('<p>Bad gateway</p>', { status: 502 }))
  const response = await fetchNewest('')
  expect([response.status, await response.text()]).toEqual([502, '<p>Bad gateway</p>'])
})
