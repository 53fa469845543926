import { ApolloClient, gql, HttpLink, InMemoryCache, type TypedDocumentNode } from '@apollo/client/core'
import { expect, it } from 'vitest'
import { startService } from './support/service.ts'

interface Shown {
  counter: { value: number }
  sequence: { group: { lastValue: number | null } }
}

it('shows the first increment of a counter in a normalised cache, without any code', async () => {
  const { url } = await startService()
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: new HttpLink({ uri: `${url}/graphql`, fetch }),
  })
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
  client.stop()
})
