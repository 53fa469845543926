// @module-tag slow
import { type ApolloClient, gql } from '@apollo/client/core'
import type { Client as UrqlClient } from '@urql/core'
import {
  createOperationDescriptor,
  type Environment,
  type GraphQLTaggedNode,
  getRequest,
} from 'relay-runtime'
import { expect, it, onTestFinished, vi } from 'vitest'
import { CLIENTS, type Example, startExamples, TITLE } from '../support/client/clientExamples.ts'
import type { Files } from '../support/client/clientsPage.ts'
import { holdAnswers } from '../support/client/heldAnswers.ts'
import { stopClock } from '../support/model/periods.ts'

stopClock()

const SOLD = `query Sold($name: String!) {
  counter(name: $name, namespace: "booksales") { id revision value thisMonth: valueIn(period: MONTH) }
}`

/** Buys with a client, reads the counter, and looks what its cache has of it. */
async function openCache(name: 'Apollo Client' | 'urql' | 'Relay', load: <T>(name: string) => Promise<T>) {
  const variables = { name: TITLE }
  const { buy } = await load<Example>(CLIENTS[name])
  switch (name) {
    case 'Apollo Client': {
      const { client } = await load<{ client: ApolloClient }>('apollo')
      onTestFinished(() => client.stop())
      const query = gql(SOLD)
      return {
        buy,
        sold: () =>
          client.query<unknown>({ query, variables, fetchPolicy: 'network-only' }) as Promise<unknown>,
        cached: () => client.readQuery<{ counter: unknown }>({ query, variables })?.counter,
      }
    }
    case 'urql': {
      const { client } = await load<{ client: UrqlClient }>('urql')
      // While nobody shows the query, its answers are dropped.
      onTestFinished(client.query(SOLD, variables).subscribe(() => undefined).unsubscribe)
      return {
        buy,
        sold: async (): Promise<unknown> => client.query(SOLD, variables, { requestPolicy: 'network-only' }),
        cached: () => client.readQuery(SOLD, variables, { requestPolicy: 'cache-only' })?.data?.counter,
      }
    }
    default: {
      const { environment } = await load<{ environment: Environment }>('relay')
      const relay = await load<{ SOLD: GraphQLTaggedNode; sold(name: string): Promise<unknown> }>(
        'relayOperations',
      )
      const operation = createOperationDescriptor(getRequest(relay.SOLD), variables)
      environment.retain(operation)
      return {
        buy,
        sold: () => relay.sold(TITLE),
        cached: () => environment.lookup(operation.fragment).data?.counter,
      }
    }
  }
}

/** The states that a cache goes through when the answers to a read and to a change come after that to a later change. */
async function statesWithLateAnswers(
  name: 'Apollo Client' | 'urql' | 'Relay',
  changed: Files = {},
): Promise<unknown[]> {
  const { load } = await startExamples(changed)
  const { buy, sold, cached } = await openCache(name, load)
  await sold()
  const { late } = holdAnswers()
  const lateRead = await late(sold)
  const lateChange = await late(() => buy(TITLE, 'first'))
  expect(await buy(TITLE, 'second')).toMatchObject({ value: 2, thisMonth: 2 })
  const states = [cached()]
  await lateRead()
  states.push(cached())
  expect(await lateChange()).toMatchObject({ value: 1, thisMonth: 1 })
  states.push(cached())
  // The first call again: its own numbers, and the counter of now.
  expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
  expect(cached()).toMatchObject({ value: 2, thisMonth: 2 })
  return states
}

it.each([
  ['Apollo Client', [2, 0, 1]],
  // Graphcache gives way to a change while a read is under way, but not to another change.
  ['urql', [2, 2, 1]],
  ['Relay', [2, 0, 1]],
] as const)(
  'client caches: leaves the cache of %s at the newest state when two answers are late',
  async (name, without) => {
    const newest = { value: 2, thisMonth: 2 }
    expect(await statesWithLateAnswers(name)).toMatchObject([newest, newest, newest])
    const changed = { 'nth.js': 'export const nth = { fetch: (...request) => fetch(...request) }' }
    expect(await statesWithLateAnswers(name, changed)).toMatchObject(without.map((value) => ({ value })))
  },
)

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

it.each(['apollo', 'urql'])(
  'client caches: joins the pages of a list in the cache of %s, and no others',
  async (name) => {
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
  },
)

it('client caches: lets Graphcache keep all that the API answers', async () => {
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
