import { ApolloClient, gql, HttpLink, InMemoryCache, type TypedDocumentNode } from '@apollo/client/core'
import { expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/server/service.ts'

interface Shown {
  counter: { value: number }
  sequence: { group: { lastValue: number | null } }
}

function openClient(url: string): ApolloClient {
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: new HttpLink({ uri: `${url}/graphql`, fetch }),
  })
  onTestFinished(() => client.stop())
  return client
}

it('Apollo Client: shows the first increment of a counter in its normalised cache, without any code', async () => {
  const { url } = await startService()
  const client = openClient(url)
  const query: TypedDocumentNode<Shown> = gql`{ counter(name: "c") { id value updatedAt } sequence(name: "s") { id group(name: "g") { id lastValue nextValue } } }`
  const seen: unknown[] = []
  const subscription = client.watchQuery({ query }).subscribe(({ data }) => {
    if (data) seen.push([data.counter?.value, data.sequence?.group?.lastValue])
  })
  await client.query({ query })
  await client.mutate({
    mutation: gql`mutation { increment(name: "c") { value counter { id value updatedAt } } }`,
  })
  await client.mutate({
    mutation: gql`mutation { nextInSequence(name: "s", group: "g") { value group { id lastValue nextValue } } }`,
  })
  expect(client.readQuery({ query })).toMatchObject({
    counter: { value: 1 },
    sequence: { group: { lastValue: 1, nextValue: 2 } },
  })
  await expect
    .poll(() => seen)
    .toEqual([
      [0, null],
      [1, null],
      [1, 1],
    ])
  subscription.unsubscribe()
})

it('Apollo Client: treats two mutations with the same arguments as one, unless their keys differ', async () => {
  const { url } = await startService()
  const client = openClient(url)
  const numbers = async (...fields: string[]) =>
    Object.values(
      (
        await client.mutate<Record<string, { value: number }>>({
          mutation: gql(
            `mutation { ${fields.map((field, index) => `a${index}: ${field} { value }`).join(' ')} }`,
          ),
        })
      ).data ?? {},
    ).map(({ value }) => value)
  const same = 'increment(name: "c")'
  expect(await numbers(same, same)).toEqual([2, 2])
  expect(
    await numbers('increment(name: "c", idempotencyKey: "a")', 'increment(name: "c", idempotencyKey: "b")'),
  ).toEqual([3, 4])
})
